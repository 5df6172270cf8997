#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs for preload.sh, which know nothing of hipvmm: prints the results of one library."""

from __future__ import annotations

import hashlib
import os
import sys


def torch_sizes() -> bytes:
    """Products of matrices whose sizes change, in two streams, with memory given back in between."""
    import torch

    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    results = []
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    for step in range(60):
        with torch.cuda.stream(streams[step % 2]):
            size = 256 + 97 * (step * 7 % 23)
            a = torch.arange(size * size, device="cuda", dtype=torch.float32).reshape(size, size)
            b = torch.remainder(a, 17) @ torch.remainder(a, 5)
            results.append(b.sum(dtype=torch.float64).item())
        if step % 20 == 19:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    if not torch.cuda.mem_get_info()[0] > 0:
        raise SystemExit("no memory is free")
    try:
        torch.empty(1 << 46, device="cuda", dtype=torch.uint8)
    except RuntimeError as error:  # another class without PyTorch's cache
        if "out of memory" not in str(error):
            raise
        results.append("out of memory")
    return repr(results).encode()


def cupy_sizes() -> bytes:
    """Sorts and sums of arrays whose sizes change; without CuPy's own pool every call is the driver's."""
    import cupy

    cupy.cuda.set_allocator(None)
    results = []
    for step in range(100):
        values = cupy.arange(1000 + 7919 * step, dtype=cupy.uint64) * 2654435761 % 1000003
        results.append(int(cupy.sort(values)[::3].sum()))
    try:
        cupy.empty(1 << 46, dtype=cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError:
        results.append("out of memory")
    except cupy.cuda.runtime.CUDARuntimeError as error:
        results.append(str(error))
    return repr(results).encode()


def numba_sizes() -> bytes:
    """Arrays to the device and back by Numba, which calls the driver through ctypes."""
    import numpy
    from support.numpy_names import restore_removed_names
    restore_removed_names(numpy)
    from numba import cuda

    @cuda.jit
    def double(values):
        index = cuda.grid(1)
        if index < values.size:
            values[index] *= 2

    digest = hashlib.sha256()
    for step in range(50):
        values = cuda.to_device(numpy.arange(1000 + 4001 * step, dtype=numpy.int64))
        double[(values.size + 255) // 256, 256](values)
        digest.update(values.copy_to_host().tobytes())
    return digest.digest()


def main() -> None:
    programs = {"torch": torch_sizes, "torch_async": torch_sizes, "cupy": cupy_sizes, "numba": numba_sizes}
    library = sys.argv[1]
    if library == "torch_async":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    print(library.split("_")[0], hashlib.sha256(programs[library]()).hexdigest())


if __name__ == "__main__":
    main()
