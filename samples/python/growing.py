#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The examples of docs/guides/python.md: an array that grows, a pool, and errors. Checks itself."""

import numpy as np

import hipvmm


def grow():
    numbers = hipvmm.GrowableArray("float32", max="1GiB")
    numbers.append([1, 2, 3])
    before = numbers.ptr
    numbers.append(np.arange(5_000_000, dtype="float32"))  # mapped behind the first three
    assert not numbers.is_address_stable or numbers.ptr == before
    assert numbers.copy_to_host()[-1] == 4_999_999
    print(f"{len(numbers)} numbers at one address")


def allocate_from_a_pool():
    hipvmm.reinitialize(pool_allocator=True, initial_pool_size="16MiB", maximum_pool_size="64MiB")
    a = np.array([1, 2, 3], dtype="float64")
    buffer = hipvmm.DeviceBuffer.to_device(a.tobytes())
    assert np.array_equal(np.frombuffer(buffer.tobytes()), a)
    try:
        hipvmm.DeviceBuffer(size=128 << 20)
    except MemoryError as why:
        print(f"{why.exhausted}: {why.bytes_requested >> 20} MiB were asked for")
    print(hipvmm.report().splitlines()[1].strip())


if __name__ == "__main__":
    grow()
    allocate_from_a_pool()
