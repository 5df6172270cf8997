#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Decode steps of a transformer with random weights, with two caches of keys and values.

"dynamic" is transformers' DynamicCache, which copies all keys and values at each step, "growing" is
hipvmm.transformers.GrowingCache, which writes behind those that are there. A prompt is read in
pieces, then tokens are decoded one by one. Prints a line for each cache: bytes of keys and values,
bytes that the driver counted beside the weights, bytes that the layers have backed, milliseconds a
token (median, 99th percentile, longest), and whether both caches found the same tokens. Needs a
GPU, PyTorch and transformers 5.15 or newer, on CUDA or ROCm:

    python3 samples/slots/generate.py [--batch N] [--context N] [--steps N] [--csv FILE]
"""

from __future__ import annotations

import argparse
import csv
import gc
import sys
import time

try:
    import torch
    import transformers
except ImportError as why:
    sys.exit(print(f"skipped: {why}"))

import hipvmm
import hipvmm.transformers

PIECE = 1024  # tokens of the prompt at a time


def free_bytes():
    torch.cuda.synchronize()
    hipvmm.drain_retired_memory()
    return torch.cuda.mem_get_info()[0]


def decode(model, prompt, cache, steps):
    """The tokens that follow, the milliseconds of each step, and the least that was free."""
    least, milliseconds, found = free_bytes(), [], []
    for first in range(0, prompt.shape[1], PIECE):
        logits = model(prompt[:, first:first + PIECE], past_key_values=cache, use_cache=True,
                       logits_to_keep=1).logits
    for step in range(steps):
        token = logits[:, -1].argmax(-1, keepdim=True)
        found.append(token)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        logits = model(token, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        torch.cuda.synchronize()
        milliseconds.append(1000 * (time.perf_counter() - begin))
        if step % 16 == 0:
            least = min(least, torch.cuda.mem_get_info()[0])
    return torch.cat(found, 1), sorted(milliseconds), least


def measure(name, make, model, prompt, steps):
    gc.collect()
    torch.cuda.empty_cache()
    before = free_bytes()
    cache = make()
    try:
        tokens, times, least = decode(model, prompt, cache, steps)
    except MemoryError as why:
        return {"cache": name, "result": f"out of memory: {why}"}, None
    except torch.cuda.OutOfMemoryError:
        return {"cache": name, "result": "out of memory"}, None
    return {
        "cache": name, "result": "done",
        "kv_bytes": sum(each.keys.nbytes + each.values.nbytes for each in cache.layers),
        "used_bytes": before - least, "held_bytes": getattr(cache, "held_bytes", ""),
        "median_ms": round(times[len(times) // 2], 3),
        "p99_ms": round(times[min(len(times) - 1, len(times) * 99 // 100)], 3),
        "longest_ms": round(times[-1], 3)}, tokens


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, value in (("batch", 8), ("context", 8192), ("steps", 512), ("layers", 16)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--csv", metavar="FILE")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        return print("skipped: generate.py needs a GPU")
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=8192, num_attention_heads=16,
        num_hidden_layers=options.layers, num_key_value_heads=8, head_dim=128,
        max_position_embeddings=1 << 20, attn_implementation="sdpa")
    model = transformers.LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
    prompt = torch.randint(0, 32000, (options.batch, options.context), device="cuda")
    rows, expected = [], None
    for name, make in (("dynamic", lambda: transformers.DynamicCache(config=config)),
                       ("growing", lambda: hipvmm.transformers.GrowingCache(config=config))):
        row, tokens = measure(name, make, model, prompt, options.steps)
        expected = tokens if expected is None else expected
        row["same_tokens"] = tokens is not None and torch.equal(tokens, expected)
        rows.append({**row, "batch": options.batch, "context": options.context,
                     "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                     "transformers": transformers.__version__, "hipvmm": hipvmm.__version__})
    for out in [sys.stdout] + ([open(options.csv, "w", encoding="utf-8")] if options.csv else []):
        writer = csv.DictWriter(out, max(rows, key=len), lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)
        out.flush()
    return None


if __name__ == "__main__":
    sys.exit(main())
