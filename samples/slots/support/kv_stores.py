# SPDX-License-Identifier: MIT
"""Where an engine keeps keys and values: four ways, in the same bytes, with the same calls.

- admits(tokens): whether there is room for one more sequence of so many tokens, now;
- begin(row), end(row): a sequence of the batch; grow(rows): one token more for each of these, all or
  none; raises Full;
- address(row), or the table of pages: where its tokens are; tokens(row): the same as a tensor;
- held_bytes(): memory of the device that no one else can use.
"""

from __future__ import annotations

import torch

import hipvmm
import hipvmm.torch

PAGE = 64  # tokens


class Full(Exception):
    """There is no memory for a step of the batch."""


class Growing:
    """hipvmm: a slot for each sequence."""

    def __init__(self, shape, budget):
        self.cache = hipvmm.torch.KVCache(
            shape.layers, shape.heads, shape.dim, slots=shape.rows, max_tokens=shape.max_tokens,
            dtype=shape.dtype, block_tokens=PAGE, budget=budget)
        self.base, self.stride = self.cache.arena.ptr, self.cache.arena.slot_stride
        self.slots = {}

    def admits(self, tokens):
        return self.cache.slots_that_fit(tokens) > 0

    def begin(self, row):
        self.slots[row] = self.cache.acquire()

    def grow(self, rows):
        try:
            self.cache.append([self.slots[row] for row in rows])
        except hipvmm.OutOfMemoryError as why:
            raise Full from why

    def end(self, row):
        self.cache.release(self.slots.pop(row))

    def address(self, row):
        return self.base + self.slots[row] * self.stride

    def tokens(self, row):
        return self.cache.tensor[0, self.slots[row]]

    def held_bytes(self):
        return self.cache.statistics().held_bytes


class Preallocated:
    """The longest context for each sequence."""

    def __init__(self, shape, budget):
        self.places = min(shape.rows, budget // (shape.max_tokens * shape.token_bytes))
        self.memory = shape.empty(self.places, shape.max_tokens)
        self.base, self.stride = self.memory.data_ptr(), shape.max_tokens * shape.token_bytes
        self.free, self.used = list(range(self.places)), {}

    def admits(self, tokens):
        return bool(self.free)

    def begin(self, row):
        self.used[row] = self.free.pop()

    def grow(self, rows):
        pass

    def end(self, row):
        self.free.append(self.used.pop(row))

    def address(self, row):
        return self.base + self.used[row] * self.stride

    def tokens(self, row):
        return self.memory[self.used[row]]

    def held_bytes(self):
        return self.memory.nelement() * self.memory.element_size()


class Paged:
    """Pages of one pool, and the table of them on the device."""

    def __init__(self, shape, budget):
        self.memory = shape.empty(budget // (PAGE * shape.token_bytes), PAGE)
        self.table = torch.zeros(shape.rows, shape.pages, dtype=torch.int64)
        self.free, self.pages, self.lengths = list(range(len(self.memory))), {}, {}

    def admits(self, tokens):
        return len(self.free) * PAGE >= tokens

    def begin(self, row):
        self.pages[row], self.lengths[row] = [], 0

    def grow(self, rows):
        needy = [row for row in rows if self.lengths[row] == PAGE * len(self.pages[row])]
        if len(needy) > len(self.free):
            raise Full
        for row in needy:
            self.table[row, len(self.pages[row])] = self.free[-1]
            self.pages[row].append(self.free.pop())
        for row in rows:
            self.lengths[row] += 1

    def end(self, row):
        self.free += self.pages.pop(row)

    def tokens(self, row):
        return self.memory[self.pages[row]].flatten(0, 1)  # a copy

    def held_bytes(self):
        return self.memory.nelement() * self.memory.element_size()


class Concatenated:
    """A tensor for each sequence, which is copied at every step."""

    def __init__(self, shape, budget):
        self.blank, self.budget, self.token_bytes = shape.empty(1), budget, shape.token_bytes
        self.memory = {}
        self.before = torch.cuda.memory_reserved() if self.blank.is_cuda else 0

    def admits(self, tokens):
        return (sum(map(len, self.memory.values())) + 2 * tokens) * self.token_bytes <= self.budget

    def begin(self, row):
        self.memory[row] = self.blank[:0]

    def grow(self, rows):
        tokens = sum(map(len, self.memory.values())) + len(rows)
        if (tokens + max(len(self.memory[row]) for row in rows)) * self.token_bytes > self.budget:
            raise Full
        for row in rows:
            self.memory[row] = torch.cat([self.memory[row], self.blank])

    def end(self, row):
        del self.memory[row]

    def address(self, row):
        return self.memory[row].data_ptr()

    def tokens(self, row):
        return self.memory[row]

    def held_bytes(self):
        if self.blank.is_cuda:
            return torch.cuda.memory_reserved() - self.before
        return sum(map(len, self.memory.values())) * self.token_bytes


WAYS = {"growing": Growing, "preallocated": Preallocated, "paged": Paged,
        "concatenated": Concatenated}
