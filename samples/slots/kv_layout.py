#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Costs of a layout of hipvmm.torch.KVCache: memory beyond the tokens, and calls of the driver.

`planes` is the number of ranges that hold the matrices of a token: 1 is the default, 2 * layers has the
tokens of a layer contiguous. A sequence gets half of its context at once, the rest token by token; all
sequences of a batch are alike, so one of them is counted. Nothing is prefetched, so that the numbers
are the same on every machine, but for the granularity. A block costs a create, a map and a grant; the
blocks of one growth may share the grant. Needs the package hipvmm and PyTorch, with the host provider
or a GPU:

    HIPVMM_HOST_MEMORY=64GiB python3 samples/slots/kv_layout.py [--csv FILE]
"""

from __future__ import annotations

import argparse
import csv
import sys

import torch

import hipvmm.torch

LAYERS, HEADS, HEAD_DIM = 32, 8, 128  # of Llama 3 8B: 128 KiB a token in bfloat16


def count(planes, block_tokens, context):
    """Bytes of the tokens, bytes that are held, and blocks, of one sequence."""
    with hipvmm.torch.KVCache(LAYERS, HEADS, HEAD_DIM, slots=1, max_tokens=context, planes=planes,
                              block_tokens=block_tokens, dtype=torch.bfloat16, prefetch=0) as cache:
        slot = cache.acquire()
        cache.append([slot], context // 2)
        for _ in range(context - context // 2):
            cache.append([slot])
        now = cache.statistics()
        return now.used_bytes, now.held_bytes, now.grown_blocks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--csv", metavar="FILE")
    options = parser.parse_args()
    rows = []
    for context in (100, 1000, 4000, 30_000, 130_000):
        for planes, block_tokens in ((1, 64), (1, 16), (2, 64), (8, 64), (2 * LAYERS, 64)):
            used, held, blocks = count(planes, block_tokens, context)
            for sequences in (1, 8, 64):
                rows.append({
                    "sequences": sequences, "context": context, "planes": planes,
                    "block_tokens": block_tokens, "kv_bytes": sequences * used,
                    "held_beyond_bytes": sequences * (held - used),
                    "held_by_kv": round(held / used, 3), "blocks": sequences * blocks,
                    "driver_calls_at_most": 3 * sequences * blocks, "hipvmm": hipvmm.__version__})
    for out in [sys.stdout] + ([open(options.csv, "w", encoding="utf-8")] if options.csv else []):
        writer = csv.DictWriter(out, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        out.flush()


if __name__ == "__main__":
    main()
