#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Caches of transformers side by side on one GPU, on models with random weights.

    caches_bench.py decode   [--cells BATCHxCONTEXT,...] [--steps N]  milliseconds a token, memory
    caches_bench.py longest  [--batch N]     the longest context before memory runs out
    caches_bench.py compiled [--maximum N]   static caches with torch.compile and without

Each method has a process of its own, so that nobody finds what another one left in PyTorch's
allocator, and an even share of the --seconds; a cell that has used its share ends after 16 steps or
more. The context is random keys and values, the same for all methods, which update() appends in
pieces of 4,096 tokens; then the model decodes. `used_bytes` is the driver's count beside the
weights, after `held_bytes` of the cache itself; `tokens` is a hash of the first 16 steps' tokens:
equal hashes are equal tokens. Needs PyTorch, transformers 5.15 or newer, and the package hipvmm.
"""

from __future__ import annotations

import argparse
import csv
import gc
import hashlib
import json
import os
import subprocess
import sys
import time

SHAPES = {  # layers, hidden, intermediate, heads; 8 heads of keys and values, head_dim 128
    "llama-8b": (32, 4096, 14336, 32),
    "small": (16, 2048, 8192, 16),
}
METHODS = {
    "decode": ("dynamic", "growing", "expandable", "doubling", "static", "offloaded"),
    "longest": ("dynamic", "growing", "expandable", "doubling"),
    "pairs": ("dynamic+growing",),
    "compiled": ("static", "growing_static", "static_eager", "growing_static_eager"),
}
PIECE = 4096
HASHED = 16  # steps


def doubling_layer():
    """The layer that people write by hand: room doubles, and a copy moves what is there."""
    import torch
    from transformers.cache_utils import DynamicLayer

    class DoublingLayer(DynamicLayer):
        _layer_type = None  # or it would register itself if DynamicLayer has one

        def update(self, key_states, value_states, *args, **kwargs):
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
                self.room = [each.new_empty(*each.shape[:2], 0, each.shape[3])
                             for each in (key_states, value_states)]
                self.count = 0
            end = self.count + key_states.shape[2]
            for index, new in enumerate((key_states, value_states)):
                if end > self.room[index].shape[2]:
                    old, length = self.room[index], max(end, 2 * self.room[index].shape[2])
                    self.room[index] = torch.empty(*new.shape[:2], length, new.shape[3],
                                                   dtype=new.dtype, device=new.device)
                    self.room[index][:, :, :self.count] = old[:, :, :self.count]
                self.room[index][:, :, self.count:end] = new
            self.count = end
            self.keys, self.values = (each[:, :, :end] for each in self.room)
            return self.keys, self.values

    return DoublingLayer


def make_cache(method, config, length):
    import transformers

    import hipvmm.transformers
    if method in ("dynamic", "expandable"):
        return transformers.DynamicCache(config=config)
    if method == "offloaded":
        return transformers.DynamicCache(config=config, offloading=True)
    if method == "static":
        return transformers.StaticCache(config=config, max_cache_len=length)
    if method == "growing_static":
        return hipvmm.transformers.GrowingStaticCache(config=config, max_cache_len=length)
    if method == "growing":
        return hipvmm.transformers.GrowingCache(config=config)
    cache = transformers.DynamicCache(config=config)
    cache.layers = [doubling_layer()() for _ in range(config.num_hidden_layers)]
    return cache


def make_model(shape):
    import torch
    import transformers
    layers, hidden, intermediate, heads = SHAPES[shape]
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=hidden, intermediate_size=intermediate,
        num_attention_heads=heads, num_hidden_layers=layers, num_key_value_heads=8, head_dim=128,
        max_position_embeddings=1 << 20, attn_implementation="sdpa", dtype="bfloat16")
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    return model, config


def append(cache, config, batch, count, generator, until=float("inf")):
    """Random keys and values for `count` tokens more in all layers."""
    import torch
    for first in range(0, count, PIECE):
        if time.time() > until:
            raise TimeoutError
        shape = (batch, config.num_key_value_heads, min(PIECE, count - first), config.head_dim)
        for layer in range(config.num_hidden_layers):
            cache.update(*(torch.randn(shape, generator=generator, device="cuda",
                                       dtype=torch.bfloat16) for _ in range(2)), layer)


def free_bytes():
    import torch

    import hipvmm
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    hipvmm.drain_retired_memory()
    last, free = 0, torch.cuda.mem_get_info()[0]
    while free != last:  # the driver may count released memory a while
        time.sleep(0.1)
        last, free = free, torch.cuda.mem_get_info()[0]
    return free


def timed_step(model, cache, token):
    """Returns the next token, and the milliseconds that it took."""
    import torch
    torch.cuda.synchronize()
    begin = time.perf_counter()
    token = model(token, past_key_values=cache, use_cache=True,
                  logits_to_keep=1).logits[:, -1].argmax(-1, keepdim=True)
    torch.cuda.synchronize()
    return token, 1000 * (time.perf_counter() - begin)


def middle(values):
    return round(sorted(values)[len(values) // 2], 3)


def pairs(method, options, report):
    """`paired_ratio` is the median of each step's time by the first cache's; they begin in turn."""
    import torch
    model, config = make_model(options.model)
    names = method.split("+")
    for cell in options.cells.split(","):
        batch, context = map(int, cell.split("x"))
        caches = {}
        try:
            for name in names:
                caches[name] = make_cache(name, config, context + options.steps)
                append(caches[name], config, batch, context, torch.Generator("cuda").manual_seed(7))
            tokens = dict.fromkeys(names, torch.zeros((batch, 1), dtype=torch.long, device="cuda"))
            times = {name: [] for name in names}
            for step in range(options.steps):
                for name in names[::-1] if step % 2 else names:
                    tokens[name], took = timed_step(model, caches[name], tokens[name])
                    times[name].append(took)
            for name in names:
                report({"method": name, "batch": batch, "context": context, "steps": options.steps,
                        "result": "done", "median_ms": middle(times[name]),
                        "longest_ms": round(max(times[name]), 3), "paired_ratio": middle(
                            [b / a for a, b in zip(times[names[0]], times[name])])})
        except (torch.cuda.OutOfMemoryError, MemoryError):
            report({"batch": batch, "context": context, "result": "out of memory"})
        caches.clear()
        free_bytes()


def decode(method, options, report):
    import torch
    model, config = make_model(options.model)

    # Each step of an offloaded cache transfers all of it twice.
    steps = HASHED if method == "offloaded" else options.steps
    cells = options.cells.split(",")
    for index, cell in enumerate(cells):
        batch, context = map(int, cell.split("x"))
        length, left = context + steps, options.until - time.time()
        row = {"batch": batch, "context": context, "steps": steps,
               "kv_bytes": 4096 * config.num_hidden_layers * batch * length}
        room = free_bytes() if method != "offloaded" else os.sysconf("SC_AVPHYS_PAGES") * 4096
        if left < 0 or row["kv_bytes"] > room:
            report({**row, "result": "not run: no time" if left < 0 else "not run: does not fit"})
            continue
        end = time.time() + left / (len(cells) - index)
        try:
            warm, token = make_cache(method, config, 1024), torch.zeros(
                (batch, 1), dtype=torch.long, device="cuda")
            append(warm, config, batch, 512, None)
            for _ in range(3):
                timed_step(model, warm, token)
            warm = None
            before = least = free_bytes()
            cache = make_cache(method, config, length)
            append(cache, config, batch, context, torch.Generator("cuda").manual_seed(7),
                   options.until)
            times, found = [], []
            for _ in range(steps):
                token, took = timed_step(model, cache, token)
                times.append(took)
                found.append(token)
                least = min(least, torch.cuda.mem_get_info()[0])
                if len(found) >= HASHED and time.time() > end:
                    break
            times.sort()
            row.update(
                result="done", steps=len(found),
                kv_bytes=row["kv_bytes"] // length * (context + len(found)), used_bytes=before - least,
                held_bytes=getattr(cache, "held_bytes", ""),
                median_ms=middle(times),
                p99_ms=round(times[len(times) * 99 // 100], 3), longest_ms=round(times[-1], 3),
                tokens=hashlib.sha256(str(torch.cat(found[:HASHED], 1).tolist()).encode()).hexdigest()[:12])
        except (torch.cuda.OutOfMemoryError, MemoryError):
            row["result"] = "out of memory"
        except TimeoutError:
            row["result"] = "not run: no time"
        cache = None
        report(row)


def longest(method, options, report):
    import torch
    model, config = make_model(options.model)
    before = free_bytes()
    generator, tokens = torch.Generator("cuda").manual_seed(7), 0
    cache = make_cache(method, config, 0)
    piece = max(1, 8192 // options.batch)
    token = torch.zeros((options.batch, 1), dtype=torch.long, device="cuda")
    least = before
    try:
        while True:
            append(cache, config, options.batch, piece - 1, generator)
            model(token, past_key_values=cache, use_cache=True, logits_to_keep=1)
            tokens += piece
            least = min(least, torch.cuda.mem_get_info()[0])
    except (torch.cuda.OutOfMemoryError, MemoryError):
        pass
    report({"batch": options.batch, "context": tokens, "result": "out of memory behind it",
            "kv_bytes": 4096 * config.num_hidden_layers * options.batch * tokens,
            "used_bytes": before - least, "held_bytes": getattr(cache, "held_bytes", "")})


def compiled(method, options, report):
    import torch
    model, config = make_model(options.model)
    before, kind = free_bytes(), method.replace("_eager", "")
    cache = make_cache(kind, config, options.maximum)
    prompt = torch.randint(0, 32000, (1, options.context - options.steps), device="cuda")
    seconds = []
    for _ in range(2):  # the first one compiles
        torch.cuda.synchronize()
        begin = time.perf_counter()
        tokens = model.generate(prompt, past_key_values=cache, max_new_tokens=options.steps,
                                do_sample=False, eos_token_id=None, pad_token_id=0,
                                disable_compile=kind != method)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        used, held = before - torch.cuda.mem_get_info()[0], getattr(cache, "held_bytes", "")
        changes = getattr(cache, "view_changes", "")
        cache.reset()
    report({"batch": 1, "context": options.context, "steps": options.steps,
            "maximum": options.maximum, "result": "done",
            "kv_bytes": 4096 * config.num_hidden_layers * options.context, "used_bytes": used,
            "held_bytes": held, "first_s": round(seconds[0], 3), "second_s": round(seconds[1], 3),
            "tokens_per_s": round(options.steps / seconds[1], 1), "view_changes": changes,
            "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"],
            "tokens": hashlib.sha256(str(tokens.tolist()).encode()).hexdigest()[:12]})


def child(method, options):
    import torch
    import transformers
    from torch.nn.attention import SDPBackend, sdpa_kernel

    import hipvmm

    def report(row):
        print(json.dumps({
            "scenario": options.scenario, "method": method, "model": options.model,
            "attention": options.attention, **row,
            "device": torch.cuda.get_device_name(), "torch": torch.__version__,
            "transformers": transformers.__version__, "hipvmm": hipvmm.__version__}), flush=True)

    backends = list(SDPBackend.__members__.values()) if options.attention == "default" else [
        SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    run = {"decode": decode, "longest": longest, "compiled": compiled,
           "pairs": pairs}[options.scenario]
    with torch.inference_mode():
        if options.attention == "default":
            run(method, options, report)
        else:
            with sdpa_kernel(backends, set_priority=True):
                run(method, options, report)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("scenario", choices=list(METHODS))
    parser.add_argument("--model", choices=list(SHAPES), default="llama-8b")
    parser.add_argument("--methods", help="separated by commas")
    parser.add_argument("--cells", default="1x4096,8x4096,32x4096,1x32768,8x32768,1x131072,"
                        "32x32768,8x131072,32x131072")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--maximum", type=int, default=131072)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--attention", choices=("default", "flash"), default="flash")
    parser.add_argument("--csv", metavar="FILE")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, options)
    rows, end = [], time.time() + options.seconds
    methods = options.methods.split(",") if options.methods else METHODS[options.scenario]
    for index, method in enumerate(methods):
        environment, now = dict(os.environ), time.time()
        until = now + (end - now) / (len(methods) - index)
        if method == "expandable":
            environment["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        run = subprocess.run(
            [sys.executable, *sys.argv, "--child", method, "--until", str(until)],
            env=environment, stdout=subprocess.PIPE, text=True, check=False)
        rows += [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        if run.returncode != 0:
            print(f"{method} ended with status {run.returncode}", file=sys.stderr)
        for out in [sys.stdout] + ([open(options.csv, "w", encoding="utf-8")] if options.csv else []):
            writer = csv.DictWriter(out, list(dict.fromkeys(key for row in rows for key in row)),
                                    lineterminator="\n", restval="")
            writer.writeheader()
            writer.writerows(rows)
            out.flush()
    return None


if __name__ == "__main__":
    sys.exit(main())
