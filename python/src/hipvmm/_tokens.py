# SPDX-License-Identifier: MIT
"""Tokens: keys and values of one layer in memory that grows in place, as tensors of PyTorch."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ._errors import OutOfMemoryError, UnsupportedError
from ._handle import finalizers
from ._shared_rows import SharedRows, current_stream
from .device import capability, ordinal_in_torch, provider
from .growable import GrowableArray
from .reserved import _SLACK, elements, returns_with_addresses, with_memory

_SHARED = 4 << 20  # bytes from which on a copy shares blocks
_SCRATCH = 16 << 20  # bytes that select() copies at a time
_ROWS = 64
_Tensor = torch.Tensor
_in_inference_mode = torch.is_inference_mode_enabled


def kind_of(keys: Any, values: Any) -> Optional[Tuple[Any, ...]]:
    """Types and shapes that tokens of one memory share; None if the tensors are no tokens."""
    if keys is None or values is None or keys.dim() != 4 or values.dim() != 4:
        return None
    batch, heads, count, width = keys.shape
    value_batch, value_heads, value_count, value_width = values.shape
    if count != value_count:
        return None
    return (keys.dtype, values.dtype, (batch, heads, width),
            (value_batch, value_heads, value_width))


def views_of(every: Any, kind: Tuple[Any, ...]) -> Tuple[Any, Any]:
    """Keys and values of all tokens that a flat tensor has rows for."""
    (batch, heads, width), (_, value_heads, value_width) = kind[2:]
    split = batch * heads * width
    row = split + batch * value_heads * value_width
    most = every.numel() // row
    return (
        every.as_strided((batch, heads, most, width), (heads * width, width, row, 1)),
        every.as_strided((batch, value_heads, most, value_width),
                         (value_heads * value_width, value_width, row, 1), split))


def rows_of(keys: Any, values: Any) -> Optional[Any]:
    """The flat tensor whose rows keys and values are; None if they are not rows of one."""
    kind = kind_of(keys, values)
    if kind is None or keys.dtype != values.dtype or keys.shape[0] != values.shape[0]:
        return None
    (batch, heads, width), (_, value_heads, value_width) = kind[2:]
    split = batch * heads * width
    row = split + batch * value_heads * value_width
    nbytes = split * keys.element_size()
    if (keys.device != values.device or keys.requires_grad or values.requires_grad
            or keys.stride() != (heads * width, width, row, 1)
            or values.stride() != (value_heads * value_width, value_width, row, 1)
            or values.data_ptr() != keys.data_ptr() + nbytes
            or storage_of(keys).data_ptr() != storage_of(values).data_ptr()):
        return None
    return keys.as_strided((keys.shape[2] * row,), (1,), keys.storage_offset())


def storage_of(tensor: Any) -> Any:
    """The storage of a tensor, untyped if PyTorch can tell."""
    return getattr(tensor, "untyped_storage", tensor.storage)()


def ordinal_of(device: Any) -> Optional[int]:
    """The number that hipvmm has for a device of PyTorch; None for one that it does not serve."""
    served = "cpu" if provider() == "host" else "cuda"
    return ordinal_in_torch(device) if device.type == served else None


class Tokens:
    """Memory of one layer: a row for each token, with the keys of all sequences, then the values.

    So a layer wastes less than a block and a 32nd of its size, at any batch. Memory ends with this
    object and the last tensor of it.
    """

    def __init__(self, device: int, keys: Any, values: Any,
                 rows: Optional[SharedRows] = None) -> None:
        self._device, self._is_shared = device, rows is not None
        try:  # the address is promised for good, because callers keep tensors
            self._array: Any = rows or GrowableArray(
                "uint8", device=device, past_max="refuse", without_vmm="refuse", step_limit=0)
        except UnsupportedError as why:
            raise UnsupportedError(
                f"keys and values cannot grow in place on device {device}: use transformers' "
                f"DynamicCache ({why})") from why
        self.returns_with_addresses = returns_with_addresses(device)
        # If it cannot sleep, the library is asked once, not at each token.
        self._may_sleep = rows is None and "sleeps by the tag" in self._array.explain()
        # finalizers.era at the last look that found the memory awake and whole; None: look again.
        self._sure: Any = None
        # By the bytes that had memory: all elements, and how many bytes of them were shown.
        self._backed: Dict[int, List[Any]] = {}
        self._shown = self._count = 0  # tokens that views() has returned: at most, and last
        self._lay_out(kind_of(keys, values))

    def _lay_out(self, kind: Any) -> None:
        """Makes the tensors of all tokens that have room, for a batch, heads and widths."""
        capacity = self._array.capacity
        if self._shown:
            before = self._backed[self._capacity]
            before[1] = max(before[1], self._shown * self.row_bytes)
        if capacity not in self._backed:
            self._backed[capacity] = [elements(self._array, kind[0], capacity), 0]
        self._elements, self._capacity, self.kind = self._backed[capacity][0], capacity, kind
        self._latest: Tuple[Any, Any] = (None, None)  # of views()
        begin = self._elements.data_ptr()
        self._addresses = begin, begin + capacity
        (batch, heads, width), (_, value_heads, value_width) = kind[2:]
        self._split = batch * heads * width
        self._row = self._split + batch * value_heads * value_width
        self.row_bytes = self._row * self._elements.element_size()
        most = self._elements.numel() // self._row
        self._keys, self._values = views_of(self._elements, kind)
        self._bases: Any = [(self._keys, self._values), None]  # by is_inference_mode_enabled()
        # If keys and values have one shape, write_next() writes a row of these by one kernel.
        self._one, self._dtype = (batch, heads, 1, width), kind[0]
        self._steps = most if kind[2] == kind[3] else 0
        self._rows = self._elements.data.as_strided(
            (self._steps, 2 * batch, heads, 1, width),
            (self._row, heads * width, width, width, 1))
        self._page = -_ROWS  # the first of _ROWS rows, taken apart at once: each costs less then
        self._page_rows: Any = ()

    @property
    def held_bytes(self) -> int:
        """Bytes of the device that are backed."""
        return self._array.held_bytes if self._is_shared else self._array.capacity

    def views(self, count: int) -> Tuple[Any, Any]:
        """Keys and values of the first tokens, (batch, heads, count, head_dim)."""
        self._shown, self._count = max(self._shown, count), count
        keys, values = self._bases[_in_inference_mode()] or self._inference_bases()
        self._latest = keys.narrow(2, 0, count), values.narrow(2, 0, count)
        return self._latest

    def rows(self, count: int) -> Any:
        """The first tokens as a flat tensor whose storage ends with them: see views_of()."""
        return elements(self._array, self.kind[0], count * self.row_bytes)

    def _inference_bases(self) -> Tuple[Any, Any]:
        """All keys and values as tensors of inference mode, of which a view costs half. As with
        DynamicCache the mode's results are such tensors."""
        made = self._bases[True] = tuple(
            torch.empty(0, dtype=each.dtype, device=each.device).set_(each)
            for each in (self._keys, self._values))
        return made

    def are_views(self, keys: Any, values: Any) -> bool:
        """Whether views() returns such tensors for some number of tokens."""
        if keys is self._latest[0] and values is self._latest[1]:
            return True
        return kind_of(keys, values) == self.kind and all(
            one.data_ptr() == of.data_ptr() and one.stride() == of.stride()
            for one, of in ((keys, self._keys), (values, self._values)))

    def require_awake(self) -> None:
        """Raises InvalidStateError while the memory sleeps, UnsupportedError after fork()."""
        if self._sure != finalizers.era:
            self._array._require_awake()
            self._sure = None if self._may_sleep else finalizers.era

    def write_next(self, keys: Any, values: Any, new_keys: Any,
                   new_values: Any) -> Optional[Tuple[Any, Any]]:
        """Writes one token behind the tokens of views(), and returns the views with it.

        None if more is to be done or decided, such as growth: it is the step of a loop.
        """
        latest, first, one, dtype = self._latest, self._count, self._one, self._dtype
        # cat() itself refuses tensors of another device.
        if (keys is not latest[0] or values is not latest[1] or first >= self._steps
                or type(new_keys) is not _Tensor or new_keys.dtype is not dtype
                or type(new_values) is not _Tensor or new_values.dtype is not dtype
                or new_keys.shape != one or new_values.shape != one
                or torch.is_grad_enabled() and (
                    keys.requires_grad or values.requires_grad
                    or new_keys.requires_grad or new_values.requires_grad)):
            return None
        if self._sure != finalizers.era:
            self.require_awake()
        if first < self._shown:
            begin, end = self._addresses
            device = self._elements.device
            if (begin <= new_keys.data_ptr() < end or begin <= new_values.data_ptr() < end
                    or new_keys.device != device or new_values.device != device):
                return None
            self._rewrite(first)
        row = first - self._page
        if not 0 <= row < _ROWS:
            row = first % _ROWS
            self._page = first - row
            self._page_rows = self._rows[self._page:][:_ROWS].unbind()
        torch.cat((new_keys, new_values), out=self._page_rows[row])
        self._count = count = first + 1
        if count > self._shown:
            self._shown = count
        own_keys, own_values = self._bases[_in_inference_mode()] or self._inference_bases()
        self._latest = latest = own_keys.narrow(2, 0, count), own_values.narrow(2, 0, count)
        return latest

    def write(self, first: int, keys: Any, values: Any) -> None:
        """Writes tokens from one on, and makes room for them before; or changes nothing."""
        count = keys.shape[2]
        self._make_room((first + count) * self.row_bytes)
        with torch.no_grad():
            if first < self._shown:
                self._rewrite(first)
            # Autograd does not count writes to data.
            rows = rows_of(keys, values) if kind_of(keys, values) == self.kind else None
            begin, end = self._addresses
            if rows is not None and not begin <= rows.data_ptr() < end:  # one copy, as it is
                self._elements.data[first * self._row:(first + count) * self._row].copy_(rows)
                return
            self._keys.data.narrow(2, first, count).copy_(keys)
            self._values.data.narrow(2, first, count).copy_(values)

    def _rewrite(self, first: int) -> None:
        """Before tokens are written that were shown: copies keep theirs, and autograd refuses
        gradients of all that it has saved."""
        if self._is_shared:
            self._sure = None
            self._with_memory(self._array.make_own, first * self.row_bytes)
        begin = first * self.row_bytes
        for every, shown in self._backed.values():
            if shown > begin or every is self._elements:  # others show no byte that changes
                every[:0].zero_()

    def _with_memory(self, call: Callable[[int], Any], nbytes: int) -> Any:
        return with_memory(self._elements.is_cuda, call, nbytes)

    def _make_room(self, nbytes: int) -> None:
        """Backs so many bytes, and a 32nd more if there is as much."""
        if nbytes <= self._capacity:
            return
        most = self._array.max_size
        if nbytes > most:
            failure = OutOfMemoryError(
                f"{nbytes} bytes of keys and values in a layer are more than the {most} bytes of "
                "addresses that it got: shorten the context, or have fewer caches at a time")
            failure.exhausted, failure.device = "addresses", self._device
            failure.bytes_requested = nbytes
            raise failure
        self._sure = None
        try:
            more = 0 if self._is_shared else nbytes // 32  # else a block is as much
            self._array.resize_uninitialized(min(nbytes + more, most))
        except OutOfMemoryError:
            self._with_memory(self._array.resize_uninitialized, nbytes)
        self._lay_out(self.kind)

    def shareable(self, count: int) -> Optional["Tokens"]:
        """Memory with the first tokens that twin() can share: this, or other if this cannot be.

        None if it is too little to share, or the device cannot use memory at two addresses.
        """
        nbytes = count * self.row_bytes
        if self._is_shared:
            return self
        if self._may_sleep or nbytes < _SHARED or "quirk no_aliases" in capability(self._device):
            return None
        try:
            rows = SharedRows.beside(self._array, nbytes)
        except OutOfMemoryError as why:
            if why.exhausted != "addresses":
                raise
            return None
        made = Tokens(self._device, self._keys, self._values, rows)
        made.write(0, self._keys.narrow(2, 0, count), self._values.narrow(2, 0, count))
        return made

    def twin(self, count: int) -> Optional["Tokens"]:
        """Other memory with the first tokens, whose whole blocks are this one's too; None if so
        many copies share them already."""
        nbytes = count * self.row_bytes
        self._sure = None
        rows = self._with_memory(self._array.share, nbytes)
        if rows is None:
            return None
        made = Tokens(self._device, self._keys, self._values, rows)
        size = self._elements.element_size()
        with torch.no_grad():
            made._elements.data[rows.shared // size:nbytes // size].copy_(
                self._elements[rows.shared // size:nbytes // size])
        return made

    def has_slack(self, count: int) -> bool:
        """Whether much more is backed than so many tokens need.

        If memory returns with its addresses only, it takes as much as they need: another memory of
        so many tokens is then to be had before this one ends.
        """
        needed = count * self.row_bytes
        slack = needed if self.returns_with_addresses else needed // 8
        return self._capacity - needed > slack + _SLACK

    def trim(self, count: int) -> None:
        """Releases memory far beyond so many tokens, once the present work has passed."""
        # Whole chunks without a wait; if a long prompt has a larger one, a smaller one for that.
        for replaces_tail in (False, True):
            if not self.has_slack(count):
                return
            stream = current_stream(self._device)
            self._sure = None
            try:
                self._array.resize_uninitialized(count * self.row_bytes)
                self._array.shrink_to_fit(stream, replace_tail=replaces_tail)
            finally:
                self._lay_out(self.kind)

    def select(self, indices: Any, count: int) -> None:
        """Replaces sequence i of the batch by sequence indices[i], or changes nothing."""
        batch = self.kind[2][0]
        old_row, row = self._row, self._row // batch * len(indices)
        old_split, split = self._split, self._split // batch * len(indices)
        self._make_room(count * row * self._elements.element_size())
        every = self._elements
        step = min(count, max(1, _SCRATCH // (row * every.element_size())))
        with torch.no_grad():
            self._rewrite(0)
            indices = indices.to(every.device)
            scratch = [every.new_empty((step, len(indices), each // batch))
                       for each in (old_split, old_row - old_split)]
            starts = range(0, count, step)
            # No row is written before it was read.
            for first in (reversed(starts) if row > old_row else starts):
                some = min(step, count - first)
                for one, offset in zip(scratch, (0, old_split)):
                    of = every.as_strided((some, batch, one.shape[2]), (old_row, one.shape[2], 1),
                                          first * old_row + offset)
                    torch.index_select(of, 1, indices, out=one[:some])
                for one, offset in zip(scratch, (0, split)):
                    every.as_strided((some, *one.shape[1:]), (row, one.shape[2], 1),
                                     first * row + offset).copy_(one[:some])
        self._lay_out((*self.kind[:2], *((len(indices), *each[1:]) for each in self.kind[2:])))
