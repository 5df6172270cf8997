# SPDX-License-Identifier: MIT
"""KVCache: keys and values of many sequences in PyTorch's tensors, which grow in place."""

from __future__ import annotations

import collections.abc
import contextlib
import operator
from typing import Any, Callable, Iterable, List, Optional, Sequence, Union

from ._dtype import torch_bytes_of
from ._errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from .device import ordinal_in_torch, provider, stream_value, synchronize_stream
from .mr import Size
from .slots import SlotArena, SlotStatistics

__all__ = ["KVCache"]

_BLOCK_UNIT = 2 << 20  # a multiple of every device's granularity


class KVCache:
    """Keys and values of many sequences, each in a slot that grows in place.

    >>> cache = hipvmm.torch.KVCache(32, 8, 128, slots=256, max_tokens=8192, budget="80%")
    >>> slot = cache.acquire()
    >>> first, = cache.append([slot], 5)               # room for five tokens from `first` on
    >>> cache.keys(0, slot)[first:] = keys             # of layer 0, (5, 8, 128)
    >>> seen = attention(queries, cache.keys(0, slot), cache.values(0, slot))
    >>> cache.release(slot)

    layers, heads, head_dim: a token has 2 * layers matrices of (heads, head_dim), heads being those
        of keys and values. dtype: torch.bfloat16 by default.
    slots: sequences at a time; max_tokens: the most tokens of each. Both cost addresses only.
    device: as PyTorch names it; the current one by default.
    planes: in how many ranges the matrices of a token are. 1, the default, wastes least: memory
        comes in blocks, and half a block of each plane is unused on average. With 2 * layers the
        tokens of a layer are contiguous. It divides 2 * layers.
    block_tokens: the least tokens that a block has room for.
    budget, prefetch, layout, access, sleep_tag: as for SlotArena.
    evict: see set_eviction().

    Tensors are views of one memory, at addresses that never change: kernels and graphs may keep
    them. The addresses behind the length of a slot may have no memory: do not read them, nor print
    `tensor`. On the host provider they are tensors of the CPU.

    Work is in the order of PyTorch's current stream of the device, or of the stream that is given.
    One thread at a time. Memory ends with the cache and the last tensor of it.
    """

    def __init__(self, layers: int, heads: int, head_dim: int, *, slots: int, max_tokens: int,
                 dtype: Any = None, device: Any = None, planes: int = 1, block_tokens: int = 64,
                 budget: Optional[Size] = None, prefetch: Optional[int] = None,
                 layout: Optional[str] = None, access: Optional[str] = None,
                 sleep_tag: Optional[str] = None,
                 evict: Optional[Callable[[int], None]] = None) -> None:
        import torch

        numbers = {"layers": layers, "heads": heads, "head_dim": head_dim, "slots": slots,
                   "max_tokens": max_tokens, "planes": planes, "block_tokens": block_tokens}
        for name, value in numbers.items():
            numbers[name] = operator.index(value)  # a tensor may change later
            if numbers[name] < 1:
                raise InvalidArgumentError(f"{name} is {value}, and must be 1 or more")
        layers, heads, head_dim, slots, max_tokens, planes, block_tokens = numbers.values()
        if (2 * layers) % planes:
            raise InvalidArgumentError(
                f"planes is {planes}, and must divide 2 * layers, {2 * layers}")
        self._torch = torch
        self.dtype = torch.bfloat16 if dtype is None else dtype
        self.layers, self.heads, self.head_dim = layers, heads, head_dim
        self.max_tokens = max_tokens
        self._parts = 2 * layers // planes  # matrices of a token in each plane
        itemsize = torch_bytes_of(self.dtype)
        self._token_bytes = self._parts * heads * head_dim * itemsize
        block = -(-block_tokens * self._token_bytes // _BLOCK_UNIT) * _BLOCK_UNIT
        self.arena = SlotArena(
            slots, max_tokens * self._token_bytes, planes, device=ordinal_in_torch(device),
            block=block, budget=budget, prefetch=prefetch, layout=layout, access=access,
            sleep_tag=sleep_tag, evict=evict)
        self._on_host = provider() == "host"
        self._lengths = [0] * slots
        row = head_dim * heads
        with torch.inference_mode(False):  # else writes outside of it are refused
            self.tensor = torch.as_strided(
                torch.from_dlpack(self.arena.addresses()).view(self.dtype),
                (planes, slots, max_tokens, self._parts, heads, head_dim),
                (self.arena.plane_stride // itemsize, self.arena.slot_stride // itemsize,
                 self._parts * row, row, head_dim, 1))
            self._views = [self.tensor[each // self._parts, :, :, each % self._parts]
                           for each in range(2 * layers)]

    # The tensors.

    def keys(self, layer: int, slot: Optional[int] = None) -> Any:
        """The keys of a sequence in a layer: (length, heads, head_dim), without a copy.

        Of all slots without one: (slots, max_tokens, heads, head_dim), for kernels that read no
        further than the lengths.
        """
        return self._view(2 * self._layer(layer), slot)

    def values(self, layer: int, slot: Optional[int] = None) -> Any:
        """The same for values."""
        return self._view(2 * self._layer(layer) + 1, slot)

    def write(self, layer: int, slots: Any, positions: Any, keys: Any, values: Any) -> None:
        """Writes one token of each of several sequences: the result of a step of a batch.

        slots, positions: tensors of int64 on the device; keys, values: (batch, heads, head_dim).
        Raises InvalidStateError while the memory sleeps, as keys() and values() do.
        """
        self.arena._require_awake()
        self._views[2 * self._layer(layer)][slots, positions] = keys
        self._views[2 * layer + 1][slots, positions] = values

    # How sequences begin, grow and end.

    def acquire(self, stream: Any = None) -> int:
        """Takes a free slot, without tokens. Raises OutOfMemoryError if all are in use."""
        return self.arena.acquire(self._stream(stream))

    def append(self, slots: Iterable[int], tokens: Union[int, Iterable[int]] = 1,
               stream: Any = None) -> List[int]:
        """Makes room for more tokens of each sequence of a batch, or changes nothing.

        slots, tokens: lists, or arrays of numpy and tensors of PyTorch, whose numbers are read on
        the host; tokens may be one number for all.

        Returns their first positions, the former lengths. New tokens have no particular contents until
        they are written. Raises OutOfMemoryError if they do not fit: release() sequences and
        call it again, or set_eviction(); and the exceptions of that function.
        """
        slots = [operator.index(each) for each in slots]
        counts = _whole_numbers(tokens)
        if _is_one(tokens):
            counts *= len(slots)
        if min(counts, default=0) < 0:
            raise InvalidArgumentError(
                f"{min(counts)} tokens of a sequence are to be appended, and there is no fewer than "
                "0: truncate() takes tokens away")
        if len(counts) != len(slots) or len(set(slots)) != len(slots):
            raise InvalidArgumentError(
                f"{len(slots)} slots and {len(counts)} numbers of tokens: name each slot "
                "once, and one number for each or for all")
        firsts = [self._length_in_use(each) for each in slots]
        lengths = [first + count for first, count in zip(firsts, counts)]
        if max(lengths, default=0) > self.max_tokens:
            raise OutOfRangeError(
                f"{max(lengths)} tokens of a sequence are more than max_tokens, {self.max_tokens}")
        self.arena.commit(slots, [each * self._token_bytes for each in lengths],
                          self._stream(stream))
        for slot, length in zip(slots, lengths):
            self._lengths[slot] = length
        return firsts

    def set_eviction(self, evict: Optional[Callable[[int], None]]) -> None:
        """Has evict(missing_bytes) called if append() does not fit, which is then tried again.

        It may release() and truncate() sequences that the append does not name. Its exceptions
        leave append(), which has changed nothing. More: SlotArena.set_eviction().
        """
        self.arena.set_eviction(evict)

    def truncate(self, slot: int, tokens: int, stream: Any = None) -> None:
        """Drops tokens at the end of a sequence, so that so many are left."""
        tokens = operator.index(tokens)
        length = self._length_in_use(slot)
        if not 0 <= tokens <= length:
            raise InvalidArgumentError(
                f"truncate to {tokens} tokens of a sequence that has {length}")
        self.arena.truncate(slot, tokens * self._token_bytes, self._stream(stream))
        self._lengths[slot] = tokens

    def release(self, slots: Union[int, Iterable[int]], stream: Any = None) -> None:
        """Ends sequences: others use their memory once the stream has passed. Does not wait.

        If one of several is wrong, none ends.
        """
        value = self._stream(stream)
        slots = _whole_numbers(slots)
        if len(set(slots)) != len(slots):
            raise InvalidArgumentError(f"release: a slot is named twice among {slots}")
        for slot in slots:
            if not self.arena.in_use(slot):
                raise InvalidArgumentError(f"release: slot {slot} is free")
        for slot in slots:
            self.arena.release(slot, value)
            self._lengths[slot] = 0

    def share_prefix(self, from_slot: int, to: Sequence[int], tokens: int,
                     stream: Any = None) -> bool:
        """Gives sequences without tokens the first ones of another.

        Whole blocks are the same memory, and True is returned: do not write to these tokens, not in
        from_slot either, before make_writable(). If the device cannot map memory twice, or
        slots are packed, tokens are copied, and False is returned.
        """
        tokens = operator.index(tokens)
        length = self._length_in_use(from_slot)
        if not 0 <= tokens <= length:
            raise OutOfRangeError(f"{tokens} tokens of a sequence that has {length}")
        for slot in to:
            self._length_in_use(slot)
        try:
            self.arena.share_prefix(from_slot, to, tokens * self._token_bytes,
                                    self._stream(stream))
            is_shared = True
            if self._on_host:  # the last block is copied in the stream, and read by the processor
                synchronize_stream(stream, self.arena.device)
        except UnsupportedError:
            if any(self.length(each) for each in to):
                raise
            is_shared = False
            self.arena.commit(to, [tokens * self._token_bytes] * len(to), self._stream(stream))
            with self._in(stream):
                for slot in to:
                    self.tensor[:, slot, :tokens] = self.tensor[:, from_slot, :tokens]
        for slot in to:
            self._lengths[slot] = tokens
        return is_shared

    def make_writable(self, slot: int, first: int, tokens: int, stream: Any = None) -> None:
        """Gives a sequence its own copy of shared blocks with these tokens; waits for the stream."""
        first, tokens = operator.index(first), operator.index(tokens)
        length = self._length_in_use(slot)
        if first < 0 or tokens < 0 or first + tokens > length:
            raise OutOfRangeError(f"make_writable: {tokens} tokens from {first} on of a sequence "
                                  f"that has {length}")
        self.arena.make_writable(slot, first * self._token_bytes, tokens * self._token_bytes,
                                 self._stream(stream))

    # Its contents.

    def length(self, slot: int) -> int:
        """Tokens of a sequence."""
        if not 0 <= slot < len(self._lengths):
            raise OutOfRangeError(f"slot {slot} of {len(self._lengths)}")
        return self._lengths[slot]

    def capacity(self, slot: int) -> int:
        """Tokens that a sequence can have without another block."""
        return self.arena.capacity(slot) // self._token_bytes

    @property
    def bytes_per_token(self) -> int:
        """Bytes of a token, in all planes."""
        return self._token_bytes * self.arena.planes

    @property
    def tokens_per_block(self) -> int:
        """Tokens that a sequence grows by."""
        return self.arena.block_bytes // self._token_bytes

    def slots_that_fit(self, tokens: int) -> int:
        """How many more sequences of so many tokens fit, now."""
        tokens = operator.index(tokens)
        if tokens > self.max_tokens:
            raise OutOfRangeError(
                f"{tokens} tokens of a sequence are more than max_tokens, {self.max_tokens}")
        return self.arena.slots_that_fit(tokens * self._token_bytes)

    def set_budget(self, nbytes: int) -> None:
        """Changes the budget; memory beyond it that no sequence needs is released to the device."""
        self.arena.set_budget(nbytes)

    def trim(self) -> int:
        """Releases to the device all that no sequence needs, and returns its bytes."""
        return self.arena.trim()

    def statistics(self) -> SlotStatistics:
        """The used, needed and held bytes."""
        return self.arena.statistics()

    def close(self) -> None:
        """Ends the cache. The memory ends with the last tensor of it."""
        self._views, self.tensor = [], None
        self.arena.close()

    def __enter__(self) -> "KVCache":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def _layer(self, layer: int) -> int:
        if not 0 <= layer < self.layers:
            raise OutOfRangeError(f"layer {layer} of {self.layers}")
        return layer

    def _view(self, index: int, slot: Optional[int]) -> Any:
        self.arena._require_awake()  # and raises after close()
        if slot is None:
            return self._views[index]
        return self._views[index][slot, :self._length_in_use(slot)]

    def _length_in_use(self, slot: int) -> int:
        """Tokens of a sequence; refuses a free slot, which others would get and use as well."""
        length = self.length(slot)
        if not length and not self.arena.in_use(slot):
            raise InvalidArgumentError(f"slot {slot} is free: acquire() takes one")
        return length

    def _stream(self, stream: Any) -> Any:
        if stream is not None or self._on_host:
            return stream
        return self._torch.cuda.current_stream(self.arena.device).cuda_stream

    def _in(self, stream: Any) -> Any:
        """Makes PyTorch's work inside `with` that of a stream; None is its current one."""
        if self._on_host:  # the processor works at once
            synchronize_stream(stream, self.arena.device)
        if stream is None or self._on_host:
            return contextlib.nullcontext()
        value = stream_value(stream)
        return self._torch.cuda.stream(
            self._torch.cuda.ExternalStream(value, device=self.arena.device))


def _is_one(value: Any) -> bool:
    """Whether it is one number, such as a tensor without dimensions."""
    return getattr(value, "ndim", 1) == 0 or not isinstance(value, collections.abc.Iterable)


def _whole_numbers(values: Any) -> List[int]:
    return [operator.index(each) for each in ([values] if _is_one(values) else values)]
