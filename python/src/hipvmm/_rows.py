# SPDX-License-Identifier: MIT
"""Rows: the slices of a GrowableArray."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from ._dtype import array_without_numpy, numpy_or_none
from ._errors import InvalidArgumentError, OutOfRangeError
from ._host import host_target
from ._library import lib
from .device import current_device, is_default_stream, provider

if TYPE_CHECKING:
    from .growable import GrowableArray


def row_range(rows: Any, which: Any) -> Tuple[int, int]:
    """The first row of a slice, and how many it has."""
    if not isinstance(which, slice):
        raise TypeError(
            f"{type(rows).__name__} is sliced by rows, as in array[2:5], and {which!r} is no slice: "
            "index a copy of the host, array[2:5].copy_to_host(), or a view of another library "
            "such as cupy.asarray(array)")
    first, last, step = which.indices(len(rows))
    if step != 1:
        raise TypeError(
            f"the step of a slice is {step}, and must be 1: slice a view of another library such as "
            "cupy.asarray(array)")
    return first, max(0, last - first)


class Rows:
    """Rows of a GrowableArray that follow each other: a view, which copies nothing.

    It keeps the array, and finds its rows again where growth has moved them. Raises OutOfRangeError
    once the array has become too short.
    """

    def __init__(self, owner: GrowableArray, first: int, count: int) -> None:
        self._owner = owner
        self._first = first
        self._count = count

    @property
    def dtype(self) -> Any:
        """The type of elements: numpy's, or its typestr without numpy."""
        return self._owner.dtype

    @property
    def typestr(self) -> str:
        """The type of elements in the array interface, such as "<f4"."""
        return self._owner.typestr

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._owner.itemsize

    @property
    def device(self) -> int:
        """The device of the memory."""
        return self._owner.device

    def __len__(self) -> int:
        return self._count

    @property
    def shape(self) -> Tuple[int, ...]:
        """Rows, and the shape of a row."""
        return (self._count,) + self._owner._row_shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._owner.ndim

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._count * self._owner._row_bytes

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.nbytes // self.itemsize

    @property
    def ptr(self) -> int:
        """The address of the first element."""
        return self._owner.ptr + self._offset()

    def __repr__(self) -> str:
        return f"Rows(shape={self.shape}, dtype={self.typestr}, device={self.device})"

    def __getitem__(self, rows: slice) -> Rows:
        first, count = row_range(self, rows)
        return Rows(self._owner, self._first + first, count)

    def tobytes(self, stream: Any = None) -> bytes:
        """The bytes of the elements, copied to the host."""
        content = ctypes.create_string_buffer(self.nbytes)
        self._read(content, stream)
        return content.raw

    def copy_to_host(self, ary: Any = None, stream: Any = None) -> Any:
        """Copies the elements to an array of the host, as GrowableArray.copy_to_host() does."""
        owner = self._owner
        if ary is None:
            numpy = numpy_or_none()
            if numpy is None:
                return array_without_numpy(owner._dtype, self.tobytes(stream))
            ary = numpy.empty(self.shape, dtype=self.dtype)
        nbytes = self.nbytes
        address, room, keep = host_target(ary)
        if room < nbytes:
            raise InvalidArgumentError(
                f"the array has {room} bytes, less than this one, which has {nbytes}")
        owner._require_elements(ary)
        self._read(address, stream)
        del keep
        return ary

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("rows of a GrowableArray are copied by copy_to_host()")

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        owner = self._owner
        owner._require_awake()
        value = owner._only_stream()
        # On AMD packages differ in the meaning of a stream's number.
        if value is None or provider() == "amd" or (
                is_default_stream(value) and owner.device != current_device()):
            owner._synchronize()
            value = None
        return {
            "data": (self.ptr if self._count else 0, False),
            "shape": self.shape,
            "strides": None,
            "typestr": self.typestr,
            "version": 3,
            # 0 is not allowed, and 1 the default stream.
            "stream": 1 if value == 0 else value,
        }

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._owner.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        """A capsule of the same memory, as GrowableArray.__dlpack__() makes it."""
        from ._dlpack import capsule, require_no_copy

        self._owner._require_awake()
        own = self.__dlpack_device__()
        require_no_copy(own, dl_device, copy)
        if stream != -1:
            self._owner._synchronize()
        return capsule(self, self.ptr, self.shape, self.typestr, own)

    def _offset(self) -> int:
        owner = self._owner
        if self._first + self._count > len(owner):
            raise OutOfRangeError(
                f"rows {self._first} to {self._first + self._count} of an array that has "
                f"{len(owner)} now: it became shorter after it was sliced")
        return self._first * owner._row_bytes

    def _read(self, target: Any, stream: Any) -> None:
        offset = self._offset()
        if self._count:
            owner = self._owner
            owner._submit(stream, lib().buffer_read, offset, target, self.nbytes)
