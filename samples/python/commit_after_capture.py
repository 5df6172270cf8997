#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Captures graphs of 50 batch sizes, then commits for a KV cache the memory that they have left.

A server that allocates its cache before the capture must guess how much the graphs take; here the
cache has its address before, and its memory after. Captures graphs on a GPU, CUDA or ROCm; with the
host provider, which has none, the same work runs without them. Checks itself.
"""

import torch

import hipvmm
import hipvmm.torch

SIZES = range(1, 51)
HEADS, HEAD_DIM = 8, 128
ON_HOST = hipvmm.is_host_accessible(0)
DEVICE = "cpu" if ON_HOST else "cuda"
LEFT = (16 << 20) if ON_HOST else (1 << 30)  # bytes that other allocations need later


def capture(size, keys, rows, positions, seen):
    """A function that writes `size` rows at `positions`, and sums up those that are there then."""

    def step():
        keys.index_copy_(0, positions[:size], rows[:size])
        seen[:size] = keys.index_select(0, positions[:size]).float().sum((1, 2))

    if ON_HOST:
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()  # memory that a kernel needs once is allocated before the capture
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    before = hipvmm.device_memory(0).free
    row_bytes = HEADS * HEAD_DIM * 2
    cache = hipvmm.torch.reserve((before // row_bytes, HEADS, HEAD_DIM), torch.bfloat16)
    address = cache.tensor.data_ptr()

    # 1. Capture, with memory for the rows that the captured work touches meanwhile.
    cache.commit(len(SIZES))
    rows = torch.ones(len(SIZES), HEADS, HEAD_DIM, dtype=torch.bfloat16, device=DEVICE)
    positions = torch.arange(len(SIZES), device=DEVICE)
    seen = torch.zeros(len(SIZES), device=DEVICE)
    steps = [capture(size, cache.tensor, rows, positions, seen) for size in reversed(SIZES)]

    # 2. Commit the memory left now. Others may use the device too: try less if they were faster.
    tokens = cache.committed + (hipvmm.device_memory(0).free - LEFT) // row_bytes
    while True:
        try:
            cache.commit(tokens)
            break
        except hipvmm.OutOfMemoryError:
            tokens -= tokens // 64

    # 3. The same graphs, on rows that had no memory when they were captured.
    for number, step in enumerate(steps, 1):
        rows.fill_(number)
        positions.copy_(torch.arange(len(SIZES)) + tokens - len(SIZES))
        step()
        size = len(SIZES) + 1 - number
        assert seen[:size].tolist() == [number * HEADS * HEAD_DIM] * size
    assert cache.tensor.data_ptr() == address
    guess = (before * 9 // 10) // row_bytes
    print(f"{len(steps)} sizes, then room for {tokens} tokens: {tokens - guess} more than by the "
          "guess of 0.9 of the free memory")


if __name__ == "__main__":
    main()
