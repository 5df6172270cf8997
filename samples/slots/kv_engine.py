#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Serves requests on a small transformer in PyTorch, with four ways to keep keys and values.

Continuous batching: a step computes one token of each sequence of the batch; sequences begin as soon
as there is memory, and if it does not suffice the one that began last gives way and is computed
again later. All weights are random. A line for each way, all of which get the same bytes:

- growing: hipvmm.torch.KVCache, slots that grow in place;
- preallocated: max_tokens for each sequence;
- paged: pages of 64 tokens, found by a table;
- concatenated: a tensor for each sequence, which torch.cat makes longer.

One kernel serves all: it finds pages of 64 tokens by a table, which is arithmetic if a sequence is
contiguous. The batch has always the same shape. So every way must find the same tokens, bit by bit;
the status is 1 if one does not. Needs the package hipvmm, and a GPU with Triton, or the host
provider (then small, and without meaning for the times):

    python3 samples/slots/kv_engine.py [--csv FILE] [--steps REQUESTS] [--budget MIB]
"""

from __future__ import annotations

import argparse
import csv
import gc
import math
import random
import sys
import time
from collections import deque

import torch

import hipvmm
from support.kv_stores import PAGE, WAYS, Full, Paged

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton:
    @triton.jit
    def attention(queries, keys, values, out, lengths, table, pages, token, part, scale,
                  HEADS: tl.constexpr, DIM: tl.constexpr, TILE: tl.constexpr):
        """One head of one sequence: stores its new key and value, and attends to all so far."""
        row, head = tl.program_id(0), tl.program_id(1)
        before = tl.load(lengths + row) - 1  # tokens that are in the cache
        dims = tl.arange(0, DIM)
        here = (row * HEADS + head) * DIM + dims
        if before >= 0:
            query = tl.load(queries + here).to(tl.float32) * scale
            key, value = tl.load(keys + here), tl.load(values + here)
            last = tl.load(table + row * pages + before // TILE).to(tl.pointer_type(tl.bfloat16))
            last += (before % TILE) * token + part + head * DIM
            tl.store(last + dims, key)
            tl.store(last + HEADS * DIM + dims, value)
            best = tl.zeros([1], tl.float32) + tl.sum(query * key.to(tl.float32), 0)
            total = tl.zeros([1], tl.float32) + 1.0
            seen = value.to(tl.float32)
            tokens = tl.arange(0, TILE)
            for page in range(0, tl.cdiv(before, TILE)):
                first = tl.load(table + row * pages + page).to(tl.pointer_type(tl.bfloat16))
                there = tokens[:, None] * token + part + head * DIM + dims[None, :]
                is_there = page * TILE + tokens < before
                k = tl.load(first + there, mask=is_there[:, None], other=0.0).to(tl.float32)
                v = tl.load(first + there + HEADS * DIM, mask=is_there[:, None],
                            other=0.0).to(tl.float32)
                scores = tl.where(is_there, tl.sum(k * query[None, :], 1), float("-inf"))
                new_best = tl.maximum(best, tl.max(scores, 0))
                weights = tl.exp(scores - new_best)
                shrink = tl.exp(best - new_best)
                total = total * shrink + tl.sum(weights, 0)
                seen = seen * shrink + tl.sum(weights[:, None] * v, 0)
                best = new_best
            tl.store(out + here, (seen / total).to(tl.bfloat16))


class Shape:
    """Sizes of the model and of the batch."""

    def __init__(self, on_gpu, rows, max_tokens, prefetch=None):
        self.device = torch.device("cuda" if on_gpu else "cpu")
        self.dtype = torch.bfloat16 if on_gpu else torch.float32
        self.layers, self.heads, self.dim = (8, 8, 64) if on_gpu else (2, 4, 64)
        self.vocabulary = 4096 if on_gpu else 128
        self.width, self.rows, self.max_tokens = self.heads * self.dim, rows, max_tokens
        self.pages, self.prefetch = -(-max_tokens // PAGE), prefetch
        self.token_bytes = 2 * self.layers * self.width * (2 if on_gpu else 4)

    def empty(self, *counts):
        """Memory of tokens, each of which has the keys and the values of all layers."""
        return torch.empty(*counts, 2 * self.layers, self.heads, self.dim, dtype=self.dtype,
                           device=self.device)


class Model:
    """A transformer that decodes one token of each row."""

    def __init__(self, shape):
        self.shape = shape
        values = torch.Generator(shape.device).manual_seed(1)

        def weights(*sizes):
            made = torch.randn(*sizes, generator=values, device=shape.device)
            return (made / math.sqrt(sizes[-2])).to(shape.dtype)

        width = shape.width
        self.embed = weights(shape.vocabulary, width) * math.sqrt(shape.vocabulary)
        self.head = self.embed.float().t().contiguous()
        self.layers = [(weights(width, 3 * width), weights(width, width),
                        weights(width, 4 * width), weights(4 * width, width))
                       for _ in range(shape.layers)]
        self.angles = 10000 ** (-torch.arange(shape.dim // 2, device=shape.device) / shape.dim * 2)

    def step(self, tokens, lengths, attend):
        """The next token of each row."""
        shape = self.shape
        turn = (lengths - 1)[:, None, None] * self.angles
        sine, cosine = turn.sin().to(shape.dtype), turn.cos().to(shape.dtype)

        def rotated(x):
            a, b = x.chunk(2, -1)
            return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)

        def normal(x):
            return x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype)

        x = self.embed[tokens]
        for layer, (inside, joined, wide, narrow) in enumerate(self.layers):
            q, k, v = (normal(x) @ inside).view(-1, 3, shape.heads, shape.dim).unbind(1)
            seen = attend(layer, rotated(q), rotated(k), v.contiguous())
            x = x + seen.reshape(x.shape) @ joined
            x = x + torch.nn.functional.gelu(normal(x) @ wide) @ narrow
        return (normal(x).float() @ self.head).argmax(-1)


def attend_by_kernel(shape, store, rows, lengths):
    """Attention on a GPU: the table of this step, and the kernel of each layer."""
    bytes_of_page = PAGE * shape.token_bytes
    if isinstance(store, Paged):
        table = store.memory.data_ptr() + store.table.to(shape.device) * bytes_of_page
    else:
        first = [0] * shape.rows
        for row in rows:
            first[row] = store.address(row)
        table = (torch.tensor(first, device=shape.device)[:, None]
                 + torch.arange(shape.pages, device=shape.device) * bytes_of_page)
    lengths = lengths.to(torch.int32)

    def attend(layer, q, k, v):
        out = torch.zeros_like(q)
        attention[(shape.rows, shape.heads)](
            q, k, v, out, lengths, table, shape.pages, 2 * shape.layers * shape.width,
            2 * layer * shape.width, shape.dim ** -0.5, HEADS=shape.heads, DIM=shape.dim, TILE=PAGE)
        return out
    return attend


def attend_on_host(shape, store, rows, lengths):
    """The same without a GPU, one sequence after the other."""
    def attend(layer, q, k, v):
        out = torch.zeros_like(q)
        for row in rows:
            length = int(lengths[row])
            if isinstance(store, Paged):
                last = store.memory[store.pages[row][(length - 1) // PAGE], (length - 1) % PAGE]
            else:
                last = store.tokens(row)[length - 1]
            last[2 * layer], last[2 * layer + 1] = k[row], v[row]
            both = store.tokens(row)[:length, 2 * layer:2 * layer + 2].contiguous()
            scores = (both[:, 0] * q[row]).sum(-1) * shape.dim ** -0.5
            out[row] = (scores.softmax(0)[:, :, None] * both[:, 1]).sum(0)
        return out
    return attend


class Request:
    """Tokens so far, how many there will be, and of how many keys and values are there."""

    def __init__(self, values, shape):
        prompt = values.randint(8, 2 * PAGE)
        self.tokens = [values.randrange(shape.vocabulary) for _ in range(prompt)]
        self.total = min(shape.max_tokens, prompt + 16 + int(values.expovariate(1 / 300)))
        self.done = 0


def serve(model, store, requests):
    """Computes all requests. Returns the measurements."""
    shape = model.shape
    attention_of = attend_by_kernel if shape.device.type == "cuda" else attend_on_host
    waiting, active, free = deque(requests), {}, list(range(shape.rows))
    growth, batches, memory, preempted, generated, is_full = [], [], [], 0, 0, False
    began = time.perf_counter()
    while waiting or active:
        while waiting and free and not is_full:
            try:  # with memory for its prompt and a page more, so that it is not sent away soon
                store.begin(free[-1], min(len(waiting[0].tokens) + PAGE, shape.max_tokens))
            except Full:
                break
            active[free.pop()] = waiting.popleft()
        before = time.perf_counter()
        while active:
            try:
                store.grow(list(active))
                break
            except Full:  # the last one is computed again later
                row, request = active.popitem()
                store.end(row)
                free.append(row)
                request.done = 0
                waiting.appendleft(request)
                preempted, is_full = preempted + 1, True  # until one ends
        growth.append(time.perf_counter() - before)
        if not active:
            sys.exit("the budget has no room for one sequence")
        tokens, lengths = [0] * shape.rows, [0] * shape.rows
        for row, request in active.items():
            tokens[row] = request.tokens[request.done]
            request.done += 1
            lengths[row] = request.done
        batches.append(len(active))
        if len(batches) % 8 == 0:
            memory.append((store.held_bytes(), sum(lengths) * shape.token_bytes))
        given = torch.tensor([tokens, lengths]).to(shape.device)
        chosen = model.step(*given, attention_of(shape, store, active, given[1])).tolist()
        for row, request in list(active.items()):
            if request.done < len(request.tokens):
                continue
            request.tokens.append(chosen[row])
            generated += 1
            if len(request.tokens) == request.total:
                store.end(row)
                free.append(row)
                del active[row]
                is_full = False
    seconds = time.perf_counter() - began
    growth.sort()
    held, used = map(sum, zip(*memory))
    return {
        "tokens_per_second": round(generated / seconds), "generated_tokens": generated,
        "seconds": round(seconds, 3), "steps": len(batches), "preempted": preempted,
        "sequences_at_most": max(batches), "sequences_mean": round(sum(batches) / len(batches), 1),
        "held_bytes_at_most": max(memory)[0], "wasted_bytes_mean": (held - used) // len(memory),
        "growth_p50_us": round(1e6 * growth[len(growth) // 2], 1),
        "growth_p99_us": round(1e6 * growth[len(growth) * 99 // 100], 1), **store.blocks()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    on_gpu = triton is not None and torch.cuda.is_available()
    parser.add_argument("--steps", type=int, default=512 if on_gpu else 6, help="requests")
    parser.add_argument("--rows", type=int, default=256 if on_gpu else 8, help="of a batch")
    parser.add_argument("--max-tokens", type=int, default=2048 if on_gpu else 1024)
    parser.add_argument("--budget", type=int, default=1024 if on_gpu else 12, help="MiB")
    parser.add_argument("--prefetch", type=int, help="blocks ready behind each sequence (growing)")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--csv", metavar="FILE")
    options = parser.parse_args()
    if (hipvmm.provider() == "host") == on_gpu:
        sys.exit(f"PyTorch {torch.__version__} and hipvmm's provider {hipvmm.provider()} do not fit")
    shape = Shape(on_gpu, options.rows, options.max_tokens, options.prefetch)
    rows, expected = [], None
    with torch.no_grad():
        model = Model(shape)
        for name in options.ways.split(","):
            store = WAYS[name](shape, options.budget << 20)
            serve(model, store, [Request(random.Random(2), shape)])  # compiles, and warms up
            values = random.Random(3)
            requests = [Request(values, shape) for _ in range(options.steps)]
            found = serve(model, store, requests)
            tokens = [request.tokens for request in requests]
            expected = expected or tokens
            row = {"way": name, **found, "same_tokens": tokens == expected,
                   "budget_bytes": options.budget << 20, "rows": options.rows,
                   "max_tokens": options.max_tokens, "torch": torch.__version__,
                   "device": torch.cuda.get_device_name() if on_gpu else "host provider"}
            rows.append(row)
            out = csv.DictWriter(sys.stdout, row, lineterminator="\n")
            if len(rows) == 1:
                out.writeheader()
            out.writerow(row)
            sys.stdout.flush()
            del store
            gc.collect()
            if on_gpu:
                torch.cuda.empty_cache()
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            out = csv.DictWriter(file, rows[0], lineterminator="\n")
            out.writeheader()
            out.writerows(rows)
    return 0 if all(row["same_tokens"] for row in rows) else "the ways differ in their tokens"


if __name__ == "__main__":
    sys.exit(main())
