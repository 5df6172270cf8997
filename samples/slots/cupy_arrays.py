#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Works with arrays of CuPy in memory of its own pool, of cudaMallocAsync and of hipvmm.

Matrices whose sizes change from step to step, tables that are sorted and counted, and work in three
streams. Needs a GPU, CuPy and the package hipvmm:

    python3 samples/slots/cupy_arrays.py [--steps N] [--rounds N] [--csv FILE]
"""

from __future__ import annotations

import importlib.util

from support.comparison import Measurement, compare, skip

ALLOCATORS = ("default", "async", "hipvmm")


def matrices(cupy, random):
    """A chain of products and sums; matrices of 256 to 4096 rows."""
    values = cupy.random.default_rng(1)

    def step():
        size = random.randint(4, 64) * 64
        matrix = values.standard_normal((size, size), dtype=cupy.float32)
        for _ in range(3):
            matrix = cupy.tanh(matrix @ matrix.T / size) + matrix * 0.5
        return cupy.asnumpy(matrix.sum(axis=1))

    return step


def tables(cupy, random):
    """Sorts, counts and joins columns of 100,000 to 20 million rows."""
    values = cupy.random.default_rng(2)

    def step():
        rows = random.randint(1, 200) * 100_000
        keys = values.integers(0, rows // 8 + 1, rows)
        order = cupy.argsort(keys)
        ordered = keys[order]
        different, first, count = cupy.unique(ordered, return_index=True, return_counts=True)
        running = cupy.cumsum(cupy.where(count[cupy.searchsorted(different, keys)] > 8, keys, -keys))
        return cupy.asnumpy(cupy.concatenate([different[:1000], first[:1000], running[-1000:]]))

    return step


def streams(cupy, random):
    """The same work in three streams at a time, with new streams from time to time."""
    values = [cupy.random.default_rng(seed) for seed in (3, 4, 5)]
    used = [cupy.cuda.Stream(non_blocking=True) for _ in values]
    count = [0]

    def step():
        count[0] += 1
        if count[0] % 10 == 0:
            used[count[0] // 10 % 3] = cupy.cuda.Stream(non_blocking=True)
        sums = []
        for stream, own in zip(used, values):
            with stream:
                rows = random.randint(1, 64) * 65_536
                array = own.standard_normal(rows, dtype=cupy.float32)
                for _ in range(8):
                    array = cupy.sqrt(array * array + 1)
                sums.append(array.reshape(-1, 4096).sum(axis=1)[:16])
        for stream in used:
            stream.synchronize()
        return cupy.asnumpy(cupy.concatenate(sums))

    return step


WORKS = {"matrices": matrices, "tables": tables, "streams": streams}


def prepare(allocator):
    """CuPy uses the driver's pools on NVIDIA only."""
    import cupy

    return None if allocator == "async" and cupy.cuda.runtime.is_hip else ([], {})


def run(work, allocator, steps):
    import random

    import cupy

    versions = f"CuPy {cupy.__version__}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}"
    if allocator == "async":
        cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    elif allocator == "hipvmm":
        import hipvmm.cupy

        hipvmm.cupy.install()
        versions += f", hipvmm {hipvmm.__version__}"
    device = cupy.cuda.Device()
    name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
    device.synchronize()  # there is a context
    measured = Measurement(cupy.cuda.runtime.memGetInfo, device.synchronize)
    function = WORKS[work](cupy, random.Random(0))
    function()  # compiles kernels and loads libraries, whose memory is counted for each allocator
    for _ in range(steps):
        measured.step(function)
    measured.print(name, versions)


if __name__ == "__main__":
    if importlib.util.find_spec("cupy") is None:
        skip("CuPy is not installed")
    compare(__doc__, WORKS, ALLOCATORS, run, prepare=prepare)
