# SPDX-License-Identifier: MIT
"""ReservedTensor: a tensor of PyTorch over reserved addresses, whose first rows have memory."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, Callable, Optional, Sequence

from ._dtype import torch_bytes_of
from ._errors import (
    InvalidArgumentError,
    InvalidHandleError,
    OutOfMemoryError,
    OutOfRangeError,
    UnsupportedError,
)
from .device import capability, ordinal_in_torch
from .growable import GrowableArray
from .slots import SlotView

__all__ = ["ReservedTensor", "elements", "reserve", "returns_with_addresses", "with_memory"]

_SLACK = 4 << 20  # bytes beyond an eighth of the rows that stay backed
_FIXED = {"max", "mr", "past_max", "step_limit", "without_vmm"}  # options that the tensor sets


@functools.lru_cache(maxsize=None)
def returns_with_addresses(device: int) -> bool:
    """Whether unmapped memory stays held until its addresses are freed: ROCm 6.1 to 7.2."""
    return "quirk re_reserve" in capability(device)


def elements(array: GrowableArray, dtype: Any, nbytes: int) -> Any:
    """A flat tensor over the first addresses of an array, which it keeps alive. Nobody waits.

    Its storage ends there too: copy, pickle and torch.compile may take all of a tensor's storage.
    """
    import torch

    nbytes -= nbytes % torch.empty(0, dtype=dtype).element_size()
    every = SlotView(array, array.ptr, (nbytes,), "|u1",  # type: ignore[arg-type]
                     has_memory=False)
    with torch.inference_mode(False):  # else writes outside of it are refused
        return torch.from_dlpack(every).view(dtype)


def with_memory(is_cuda: bool, call: Callable[[int], Any], nbytes: int) -> Any:
    """Calls a function that needs memory, and again without what PyTorch keeps if there is none."""
    try:
        return call(nbytes)
    except OutOfMemoryError:
        import torch

        if not is_cuda:
            raise
        torch.cuda.empty_cache()  # memory that PyTorch keeps and no tensor uses
        return call(nbytes)


class ReservedTensor:
    """A tensor of its full shape from the beginning; memory is committed and decommitted by rows.

    >>> keys = hipvmm.torch.reserve((1_000_000, 8, 128), torch.bfloat16)
    >>> keys.commit(4096)                      # the first rows have memory
    >>> keys.tensor[:4096].zero_()
    >>> keys.decommit(1024)                    # all rows but the first 1024 lose theirs

    `tensor` has the same address for good, so kernels, views and captured graphs may keep it: a graph
    that was captured while few rows had memory runs on as many as have memory at its launch. Rows
    without memory must not be touched, by printing the tensor neither: GPUs report an illegal
    address, and with the host provider the process ends. New rows have no particular value.

    Rows are committed in whole chunks of the device. One thread at a time commits and decommits.
    Memory ends with this object, or close(), and the last tensor of it.
    """

    def __init__(self, shape: Sequence[int], dtype: Any = None, device: Any = None,
                 **options: Any) -> None:
        import torch

        refused = sorted(set(options) & _FIXED)
        if refused:
            raise InvalidArgumentError(
                f"{refused[0]} is no option of a reserved tensor: the shape says how many addresses "
                "there are, and commit() and decommit() when they have memory")
        lengths = tuple(operator.index(length) for length in shape)
        dtype = torch.get_default_dtype() if dtype is None else dtype
        self._row_bytes = math.prod(lengths[1:]) * torch_bytes_of(dtype)
        if not lengths or min(lengths) < 1:
            raise InvalidArgumentError(
                f"the shape is {lengths}, and must have one axis or more, each of length 1 or more")
        self._device = ordinal_in_torch(device)
        nbytes = lengths[0] * self._row_bytes
        try:
            self._array = GrowableArray("uint8", device=self._device, max=nbytes, past_max="refuse",
                                        without_vmm="refuse", step_limit=0, **options)
        except UnsupportedError as why:
            raise UnsupportedError(
                f"device {self._device} cannot reserve addresses without memory: use torch.empty() "
                f"({why})") from why
        except OutOfMemoryError as why:
            if why.exhausted != "addresses":
                raise
            failure = OutOfMemoryError(
                f"{nbytes} bytes of addresses for a tensor of the shape {lengths} are more than the "
                f"process gets in one piece: make it shorter ({why})")
            failure.exhausted, failure.device = "addresses", self._device
            failure.bytes_requested = nbytes
            raise failure from why
        with torch.inference_mode(False):
            self.tensor = elements(self._array, dtype, nbytes).view(lengths)
        self._committed = 0
        self._keeps_memory = returns_with_addresses(self._device)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self._row_bytes

    @property
    def committed(self) -> int:
        """How many rows have memory."""
        return self._committed

    @property
    def held_bytes(self) -> int:
        """Bytes of the device behind the tensor: whole chunks, so at least those of the rows."""
        return self._array.capacity

    def first_rows(self, rows: int) -> Any:
        """A tensor of the first rows whose storage ends with them, at the same address.

        torch.compile, copy.deepcopy and pickle may read all of a tensor's storage, and that of a
        slice of `tensor` has addresses without memory. Raises OutOfRangeError for more rows than
        have memory.
        """
        if self._checked(rows) > self._committed:
            raise OutOfRangeError(f"{rows} rows of which {self._committed} have memory: commit() them")
        import torch

        with torch.inference_mode(False):
            return elements(self._array, self.tensor.dtype, rows * self._row_bytes).view(
                rows, *self.tensor.shape[1:])

    def commit(self, rows: int) -> None:
        """Backs the first rows at least; those that have memory keep it, and their contents.

        The rows can be used when the call returns. If memory is lacking, it is asked of PyTorch's
        cache once. Raises OutOfMemoryError, OutOfRangeError for more rows than the tensor has,
        InvalidStateError while the memory sleeps; then nothing has changed.
        """
        rows = self._checked(rows)
        if rows <= self._committed:
            return
        with_memory(self.tensor.is_cuda, self._array.resize_uninitialized, rows * self._row_bytes)
        self._committed = rows

    def decommit(self, rows: int = 0, stream: Any = None) -> int:
        """Releases the memory behind the first rows, and returns how many bytes.

        It is released once the work so far of `stream` has passed: by default PyTorch's current
        one. If other streams have work on these rows, let that stream wait for them first. Whole
        chunks are released; if the last one is mostly unused, a smaller one takes its place, with a
        copy of the remaining rows, and the call waits for the stream. ROCm 6.1 to 7.2 return memory
        with its addresses only: there it stays for the next commit(), and the result is 0. Raises as
        commit(); then `committed` and `held_bytes` have the remaining rows and bytes.
        """
        rows = self._checked(rows)
        if rows >= self._committed:
            return 0
        before, self._committed = self._committed, rows
        self._array.resize_uninitialized(rows * self._row_bytes)
        if self._keeps_memory:
            return 0
        if stream is None and self.tensor.is_cuda:
            import torch

            stream = torch.cuda.current_stream(self._device)
        try:
            released = self._array.shrink_to_fit(stream)
            unused = self._array.capacity - rows * self._row_bytes
            if unused > max(_SLACK, rows * self._row_bytes // 8):
                released += self._array.shrink_to_fit(stream, replace_tail=True)
            return released
        except BaseException:
            self._committed = min(before, self._array.capacity // self._row_bytes)
            self._array.resize_uninitialized(self._committed * self._row_bytes)
            raise

    def close(self) -> None:
        """Ends the tensor's use of memory, which ends with the last other tensor of it."""
        self.tensor, self._committed = None, 0
        self._array.close()

    def __enter__(self) -> "ReservedTensor":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def _checked(self, rows: int) -> int:
        if self.tensor is None:
            raise InvalidHandleError("this ReservedTensor was closed")
        self._array._require_awake()
        rows, most = operator.index(rows), self.tensor.shape[0]
        if not 0 <= rows <= most:
            raise OutOfRangeError(f"{rows} rows of a tensor that has {most}")
        return rows

    def __reduce__(self) -> Any:
        raise TypeError("a ReservedTensor cannot be copied or pickled, because rows may have no memory: "
                        "copy tensor[:committed].clone()")

    def __repr__(self) -> str:  # of the tensor, it would read rows without memory
        if self.tensor is None:
            return "ReservedTensor(closed)"
        return (f"ReservedTensor(shape={tuple(self.tensor.shape)}, dtype={self.tensor.dtype}, "
                f"committed={self._committed})")


def reserve(shape: Sequence[int], dtype: Any = None, device: Optional[Any] = None,
            **options: Any) -> ReservedTensor:
    """Reserves addresses for a tensor of that shape, without memory: see ReservedTensor.

    dtype: PyTorch's default by default. device: as PyTorch names it, the current one by default.
    options: those of GrowableArray, such as sleep_tag="cache".
    """
    return ReservedTensor(shape, dtype, device, **options)
