#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Works with arrays of Numba in memory of its own manager, cuMemAlloc, and of hipvmm.

Kernels over arrays that are made for each step, in sizes that change, and in two streams. Needs a
GPU, Numba with CUDA and the package hipvmm:

    python3 samples/slots/numba_arrays.py [--steps N] [--rounds N] [--csv FILE]
"""

from __future__ import annotations

import importlib.util

from support.comparison import Measurement, compare, skip
from support.numpy_names import restore_removed_names

ALLOCATORS = ("default", "hipvmm")


def make_kernels():
    from numba import cuda

    @cuda.jit
    def smooth(source, target):
        i = cuda.grid(1)
        if i < target.size:
            left = source[max(i - 1, 0)]
            right = source[min(i + 1, source.size - 1)]
            target[i] = (left + 2 * source[i] + right) / 4

    @cuda.jit
    def count(source, bins):
        i = cuda.grid(1)
        if i < source.size:
            cuda.atomic.add(bins, int(source[i] * bins.size) % bins.size, 1)

    return smooth, count


def steps_of(random, numpy, *, streams):
    """Smooths an array of 100,000 to 10 million numbers eight times, and counts them in 256 bins."""
    from numba import cuda

    smooth, count = make_kernels()
    values = numpy.random.default_rng(1)
    used = [cuda.stream() for _ in range(streams)] or [0]

    def step():
        results = []
        for stream in used:
            given = values.random(random.randint(1, 100) * 100_000, dtype=numpy.float32)
            array = cuda.to_device(given, stream=stream)
            blocks = (given.size + 255) // 256
            for _ in range(8):
                target = cuda.device_array(given.size, numpy.float32, stream=stream)
                smooth[blocks, 256, stream](array, target)
                array = target  # the one before ends here, while the kernel uses it
            bins = cuda.to_device(numpy.zeros(256, numpy.int32), stream=stream)
            count[blocks, 256, stream](array, bins)
            results += [array[:1000].copy_to_host(stream=stream), bins.copy_to_host(stream=stream)]
        cuda.synchronize()
        return numpy.concatenate([each.view(numpy.int32) for each in results])

    return step


WORKS = {"arrays": 0, "streams": 2}


def run(work, allocator, steps):
    import random

    import numpy
    restore_removed_names(numpy)
    import numba
    from numba import cuda

    implementation = getattr(cuda, "implementation", "Built-in")
    versions = f"Numba {numba.__version__}, {implementation} CUDA"
    if allocator == "hipvmm":
        import hipvmm.numba

        hipvmm.numba.install()
        versions += f", hipvmm {hipvmm.__version__}"
    cuda.synchronize()  # there is a context
    from numba.cuda.cudadrv.driver import driver

    def memory_info():
        """Of the driver, which the manager's own figure may differ from."""
        answer = driver.cuMemGetInfo()
        return int(answer[0]), int(answer[1])

    try:
        memory_info()
    except TypeError:  # a release without NVIDIA's bindings
        import ctypes

        def memory_info():
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            driver.cuMemGetInfo(ctypes.byref(free), ctypes.byref(total))
            return free.value, total.value

    measured = Measurement(memory_info, cuda.synchronize)
    function = steps_of(random.Random(0), numpy, streams=WORKS[work])
    function()  # compiles the kernels
    for _ in range(steps):
        measured.step(function)
    name = cuda.get_current_device().name
    measured.print(name.decode() if isinstance(name, bytes) else name, versions)


if __name__ == "__main__":
    if importlib.util.find_spec("numba") is None:
        skip("Numba is not installed")
    if importlib.util.find_spec("numba.cuda") is None:
        skip("this Numba has no numba.cuda")
    compare(__doc__, WORKS, ALLOCATORS, run)
