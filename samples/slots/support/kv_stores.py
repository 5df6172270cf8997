# SPDX-License-Identifier: MIT
"""An engine's stores of keys and values: four ways, in the same bytes, with the same calls.

- begin(row, tokens), end(row): a sequence of the batch, with memory for its first tokens; raises Full;
- grow(rows): one token more for each of these, all or none; raises Full;
- address(row), or the table of pages: the place of its tokens; tokens(row): the same as a tensor;
- held_bytes(): memory of the device that no one else can use;
- blocks(): how many were made in a step, made ahead, and moved from one sequence to another.
"""

from __future__ import annotations

import torch

import hipvmm
import hipvmm.torch

PAGE = 64  # tokens


class Full(Exception):
    """There is no memory for a step of the batch."""


class Store:
    """A way without blocks that move."""

    def blocks(self):
        return {"grown_blocks": "", "prefetched_blocks": "", "moved_blocks": ""}


class Growing(Store):
    """hipvmm: a slot for each sequence."""

    def __init__(self, shape, budget):
        self.cache = hipvmm.torch.KVCache(
            shape.layers, shape.heads, shape.dim, slots=shape.rows, max_tokens=shape.max_tokens,
            dtype=shape.dtype, block_tokens=PAGE, budget=budget, prefetch=shape.prefetch)
        self.base, self.stride = self.cache.arena.ptr, self.cache.arena.slot_stride
        self.slots, self.lengths = {}, {}

    def begin(self, row, tokens):
        if self.cache.slots_that_fit(tokens) == 0:
            raise Full
        slot = self.cache.acquire()
        try:
            self.cache.append([slot], tokens)
        except hipvmm.OutOfMemoryError as why:
            self.cache.release(slot)
            raise Full from why
        self.slots[row], self.lengths[row] = slot, 0

    def grow(self, rows):
        slots = [self.slots[row] for row in rows
                 if self.lengths[row] == self.cache.length(self.slots[row])]
        try:
            self.cache.append(slots)
        except hipvmm.OutOfMemoryError as why:
            raise Full from why
        for row in rows:
            self.lengths[row] += 1

    def end(self, row):
        self.cache.release(self.slots.pop(row))

    def address(self, row):
        return self.base + self.slots[row] * self.stride

    def tokens(self, row):
        return self.cache.tensor[0, self.slots[row]]

    def held_bytes(self):
        return self.cache.statistics().held_bytes

    def blocks(self):
        now = self.cache.statistics()
        return {name: getattr(now, name)
                for name in ("grown_blocks", "prefetched_blocks", "moved_blocks")}


class Preallocated(Store):
    """The longest context for each sequence."""

    def __init__(self, shape, budget):
        self.places = min(shape.rows, budget // (shape.max_tokens * shape.token_bytes))
        self.memory = shape.empty(self.places, shape.max_tokens)
        self.base, self.stride = self.memory.data_ptr(), shape.max_tokens * shape.token_bytes
        self.free, self.used = list(range(self.places)), {}

    def begin(self, row, tokens):
        if not self.free:
            raise Full
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


class Paged(Store):
    """Pages of one pool, and the table of them on the device."""

    def __init__(self, shape, budget):
        self.memory = shape.empty(budget // (PAGE * shape.token_bytes), PAGE)
        self.table = torch.zeros(shape.rows, shape.pages, dtype=torch.int64)
        self.free, self.pages, self.lengths = list(range(len(self.memory))), {}, {}

    def begin(self, row, tokens):
        if len(self.free) * PAGE < tokens:
            raise Full
        self.pages[row], self.lengths[row] = [], 0
        for _ in range(-(-tokens // PAGE)):
            self._add_page(row)

    def grow(self, rows):
        needy = [row for row in rows if self.lengths[row] == PAGE * len(self.pages[row])]
        if len(needy) > len(self.free):
            raise Full
        for row in needy:
            self._add_page(row)
        for row in rows:
            self.lengths[row] += 1

    def _add_page(self, row):
        self.table[row, len(self.pages[row])] = self.free[-1]
        self.pages[row].append(self.free.pop())

    def end(self, row):
        self.free += self.pages.pop(row)

    def tokens(self, row):
        return self.memory[self.pages[row]].flatten(0, 1)  # a copy

    def held_bytes(self):
        return self.memory.nelement() * self.memory.element_size()


class Concatenated(Store):
    """A tensor for each sequence, which is copied at every step."""

    def __init__(self, shape, budget):
        self.blank, self.budget, self.token_bytes = shape.empty(1), budget, shape.token_bytes
        self.memory, self.first = {}, {}
        self.before = torch.cuda.memory_reserved() if self.blank.is_cuda else 0

    def _taken(self):
        return sum(max(len(self.memory[row]), self.first[row]) for row in self.memory)

    def begin(self, row, tokens):
        if (self._taken() + 2 * tokens) * self.token_bytes > self.budget:
            raise Full
        self.memory[row], self.first[row] = self.blank[:0], tokens

    def grow(self, rows):
        tokens = self._taken() + len(rows)
        if (tokens + max(len(self.memory[row]) for row in rows)) * self.token_bytes > self.budget:
            raise Full
        for row in rows:
            self.memory[row] = torch.cat([self.memory[row], self.blank])

    def end(self, row):
        del self.memory[row], self.first[row]

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
