#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Weights and a cache of PyTorch sleep and wake: the device has their memory in between.

A model's weights are allocated in hipvmm.torch.pool(tag="weights"), a tensor that stands for a cache
in pool(tag="cache"). The first sleeps with its contents, the second without. Prints the free memory
of the driver before, meanwhile and after, and the time; checks that the model computes the same
afterwards, also by a graph that was captured before, and that all memory came back. Needs a GPU, the
package hipvmm and PyTorch 2.5 or newer, on CUDA or ROCm:

    python3 samples/slots/torch_sleep.py [--gib N] [--csv FILE]
"""

from __future__ import annotations

import argparse
import csv
import sys
import time

import torch

import hipvmm
import hipvmm.torch

WIDTH = 4096


def timed(call):
    """The result of a call, and its seconds."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begin


def free_bytes():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gib", type=int, default=4, help="of weights, and of the cache")
    parser.add_argument("--csv", metavar="FILE")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch_sleep.py needs a GPU")
    layers = (options.gib << 30) // (2 * WIDTH * WIDTH)
    # The pools live as long as their tensors are to.
    with hipvmm.torch.pool(tag="weights") as of_weights, torch.no_grad():
        weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / WIDTH ** 0.5
                   for _ in range(layers)]
    with hipvmm.torch.pool(tag="cache") as of_cache:
        cache = torch.zeros(options.gib << 30, dtype=torch.uint8, device="cuda")
    given = torch.randn(16, WIDTH, device="cuda", dtype=torch.bfloat16)

    def compute():
        x = given
        for each in weights:
            x = torch.tanh(x @ each)
        return x

    with torch.no_grad():
        expected = compute()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            by_graph = compute()
        graph.replay()
        is_graph_right = torch.equal(by_graph, expected)
        addresses = [each.data_ptr() for each in (*weights, cache)]
        before = free_bytes()
        of_contents, suspend_seconds = timed(lambda: hipvmm.torch.suspend("weights"))
        dropped, drop_seconds = timed(lambda: hipvmm.torch.suspend("cache", "nothing"))
        meanwhile = free_bytes()
        _, resume_seconds = timed(lambda: hipvmm.torch.resume("weights"))
        _, back_seconds = timed(lambda: hipvmm.torch.resume("cache"))
        after = free_bytes()
        cache.fill_(1)
        by_graph.zero_()
        graph.replay()
        row = {
            "weights_bytes": of_contents, "cache_bytes": dropped, "free_before": before,
            "free_meanwhile": meanwhile, "free_after": after,
            "suspend_contents_s": round(suspend_seconds, 4),
            "resume_contents_s": round(resume_seconds, 4),
            "suspend_nothing_s": round(drop_seconds, 4), "resume_nothing_s": round(back_seconds, 4),
            "same_result": torch.equal(compute(), expected),
            "same_by_graph": is_graph_right and torch.equal(by_graph, expected),
            "same_addresses": addresses == [each.data_ptr() for each in (*weights, cache)],
            "device": torch.cuda.get_device_name(), "torch": torch.__version__,
            "hipvmm": hipvmm.__version__}
    for out in [sys.stdout] + ([open(options.csv, "w", encoding="utf-8")] if options.csv else []):
        writer = csv.DictWriter(out, row, lineterminator="\n")
        writer.writeheader()
        writer.writerow(row)
        out.flush()
    came_back = meanwhile - before >= (of_contents + dropped) * 0.98
    is_right = row["same_result"] and row["same_by_graph"] and row["same_addresses"]
    weights.clear()
    del cache, of_weights, of_cache
    return None if came_back and is_right else "memory did not return, or not what was there"


if __name__ == "__main__":
    sys.exit(main())
