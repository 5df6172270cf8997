#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model of twice the memory: its layers leave the device for others and come back ahead of use.

Half of the layers stay, by their priority; of the others each is fetched by the host while the
device computes the one before it. Beside it a rival with the same memory: accelerate's CPU offload
if it is installed, else pinned layers that .to() copies. Prints ms a token and bytes copied as CSV.
By default a budget stands for a small device, with the host provider too; checks itself:

    python3 samples/python/evictable_layers.py [--layers N] [--width N] [--memory SIZE] [--tokens N]
"""

import argparse
import csv
import os
import sys
import time

import torch

import hipvmm
import hipvmm.torch

ON_HOST = hipvmm.is_host_accessible(0)
DEVICE = "cpu" if ON_HOST else "cuda"
DTYPE = torch.float32 if ON_HOST else torch.bfloat16


def synchronize():
    if not ON_HOST:
        torch.cuda.synchronize()


def make_layers(options):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(options.width, options.width, bias=False, dtype=DTYPE)
              for _ in range(options.layers)]
    for each in layers:
        each.requires_grad_(False)
    return layers


def layer_bytes(options):
    return options.width * options.width * torch.empty(0, dtype=DTYPE).element_size()


def by_evictions(options):
    """A function that computes a token, and one for the bytes that were copied so far."""
    layers = make_layers(options)
    resident = len(layers) * 2 // 5  # of half: there is room for the one in use and the next ones
    held = [hipvmm.torch.evictable(each, device=DEVICE, priority=int(n < resident))
            for n, each in enumerate(layers)]
    copies = None if ON_HOST else torch.cuda.Stream()

    def step(x):
        for n, (layer, memory) in enumerate(zip(layers, held)):
            with memory.use(writes=False):
                x = torch.tanh(layer(x))
            held[(n + 1) % len(held)].prefetch(copies)  # while the device computes this one
        return x

    def copied():
        now = [each.statistics() for each in held]
        # Memory that was only read is copied to the host by its first eviction alone.
        return sum(memory.nbytes * (each.returns + (each.evictions != 0))
                   for memory, each in zip(held, now))

    return step, copied


def by_accelerate(options):
    from accelerate import cpu_offload

    layers = make_layers(options)
    resident = len(layers) * 2 // 5
    count = [0]
    for each in layers[:resident]:
        each.to(DEVICE)
    for each in layers[resident:]:
        cpu_offload(each, execution_device=torch.device(DEVICE))

    def step(x):
        for layer in layers:
            x = torch.tanh(layer(x))
        count[0] += len(layers) - resident
        return x

    return step, lambda: count[0] * layer_bytes(options)


def by_to(options):
    layers = make_layers(options)
    resident = len(layers) * 2 // 5
    weights = [each.weight.data for each in layers]
    count = [0]
    for n, each in enumerate(weights):
        weights[n] = each.to(DEVICE) if n < resident or ON_HOST else each.pin_memory()

    def step(x):
        for n, weight in enumerate(weights):
            if n >= resident:
                weight = weight.to(DEVICE, copy=True, non_blocking=True)
                count[0] += 1
            x = torch.tanh(torch.nn.functional.linear(x, weight))
        return x

    return step, lambda: count[0] * layer_bytes(options)


def rival():
    try:
        import accelerate  # noqa: F401
    except ImportError:
        return "to", by_to
    return "accelerate", by_accelerate


def measure(name, make, options):
    step, copied = make(options)
    x = torch.ones(options.batch, options.width, dtype=DTYPE, device=DEVICE)
    result = step(x)  # the first token loads the layers for the rest
    synchronize()
    before, begin = copied(), time.perf_counter()
    for _ in range(options.tokens):
        result = step(x)
    synchronize()
    seconds = time.perf_counter() - begin
    return result.float().cpu(), {
        "way": name, "layers": options.layers, "layer_bytes": layer_bytes(options),
        "memory_bytes": options.memory, "tokens": options.tokens,
        "ms_per_token": round(seconds * 1000 / options.tokens, 3),
        "copied_bytes_per_token": (copied() - before) // options.tokens,
        "device": hipvmm.device_name(0), "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=512 if ON_HOST else 8192)
    parser.add_argument("--memory", type=int, default=0, help="bytes; half of the model by default")
    parser.add_argument("--tokens", type=int, default=3 if ON_HOST else 20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--csv", metavar="FILE")
    options = parser.parse_args()
    unit = 2 << 20  # memory of a layer is whole chunks
    held_bytes = -(-layer_bytes(options) // unit) * unit
    options.memory = options.memory or options.layers * held_bytes // 2
    with hipvmm.MemoryBudget(f"evictable-layers-{os.getpid()}", options.memory):
        ours, row = measure("evictable", by_evictions, options)
    theirs, other = measure(*rival(), options)
    for out in [sys.stdout] + ([open(options.csv, "w", encoding="utf-8")] if options.csv else []):
        writer = csv.DictWriter(out, row, lineterminator="\n")
        writer.writeheader()
        writer.writerows([row, other])
        out.flush()
    return None if torch.equal(ours, theirs) else "the results differ"


if __name__ == "__main__":
    sys.exit(main())
