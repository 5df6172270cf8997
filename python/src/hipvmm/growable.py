# SPDX-License-Identifier: MIT
"""GrowableArray: an array in memory of a device that grows in place."""

from __future__ import annotations

import array as _array
import functools
import math
import numbers
import operator
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._dtype import (
    DType,
    dtype_of,
    numpy_or_none,
    require_elements,
    row_bytes_of,
    row_shape_of,
)
from ._errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from ._handle import Owner
from ._host import HostView, device_source, host_source, numpy_for_views
from ._library import (
    BufferStatistics as _CBufferStatistics,
    access_array,
    get_address,
    get_int,
    get_size,
    get_struct,
    get_text,
    lib,
    not_zero,
    options_text,
    right_name,
    right_value,
)
from ._rows import Rows, row_range
from .device import (
    device_or_current,
    is_closed_stream,
    is_host_accessible,
    stream_value,
    synchronize_last,
    synchronize_stream,
)
from .mr import MemoryResource, Size, is_of_host, required_resource

__all__ = ["GrowableArray", "GrowthStatistics"]

_MOST_OWNERS = 8  # of pinned memory, for each stream, until this is waited for


@dataclass(frozen=True)
class GrowthStatistics:
    """Statistics of growth; sizes are in bytes."""

    growth_steps: int
    base_moves: int
    chunks: int
    peak_bytes: int
    ahead_bytes: int
    ahead_hits: int
    ahead_misses: int
    copied_bytes: int


class GrowableArray(Owner):
    """Elements in memory of a device, to which rows are appended without moving the others.

    >>> numbers = hipvmm.GrowableArray("float32")
    >>> numbers.append([1, 2, 3])
    >>> numbers.resize(1_000_000)

    dtype: the elements, as numpy names them. row_shape: the shape behind the first axis, which is
        the one that grows: () for a plain array, (3,) for points.
    device: by default the current one. mr: a resource to take the memory from instead, for small
        arrays; then growth copies.
    max: bytes of addresses to reserve, or text such as "8GiB" or "80%" of the device.
    shareable: "posix_fd" for an array that publish() shows to other processes.
    options: others by name, as docs/guides/c_api.md lists them, such as step_limit="64MiB".

    Work goes to the stream that is given; None is the default stream of the array's device.
    Threads may share an array: each call is whole.
    """

    _destroy_function = "buffer_destroy"

    def __init__(self, dtype: Any = "uint8", row_shape: Sequence[int] = (), *,
                 device: Optional[int] = None, mr: Optional[MemoryResource] = None,
                 max: Optional[Size] = None,  # noqa: A002  (as the option is called)
                 shareable: Optional[str] = None, **options: Any) -> None:
        self._dtype = dtype_of(dtype)
        self._row_shape = row_shape_of(row_shape)
        self._row_bytes = row_bytes_of(self._dtype, self._row_shape)
        not_zero("max", max, "addresses for all of the device's memory")
        text = options_text({"max": max, "shareable": shareable, **options})
        if mr is None:
            super().__init__(get_address(lib().buffer_create, device_or_current(device), text))
        else:
            super().__init__(get_address(lib().buffer_create_on,
                                         required_resource(mr, "mr").handle, text))
        self._mr = mr
        self._device = get_int(lib().buffer_device, self.handle)
        # Streams with work on the elements that was not waited for, by their values, each with
        # the owners of pinned memory that the work may still read.
        self._streams: Dict[int, Tuple[Any, List[Any]]] = {}
        self._streams_lock = threading.RLock()

    # Its properties.

    @property
    def dtype(self) -> Any:
        """The type of elements: numpy's, or its typestr without numpy."""
        numpy = numpy_or_none()
        return self._dtype.typestr if numpy is None else numpy.dtype(self._dtype.typestr)

    @property
    def typestr(self) -> str:
        """The type of elements in the array interface, such as "<f4"."""
        return self._dtype.typestr

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._dtype.itemsize

    @property
    def device(self) -> int:
        """The device of the memory."""
        return self._device

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return get_size(lib().buffer_size, self.handle)

    def __len__(self) -> int:
        return self.nbytes // self._row_bytes

    @property
    def shape(self) -> Tuple[int, ...]:
        """Rows, and the shape of a row."""
        return (len(self),) + self._row_shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return 1 + len(self._row_shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.nbytes // self._dtype.itemsize

    @property
    def capacity(self) -> int:
        """Rows that fit in the memory that is there."""
        return get_size(lib().buffer_capacity, self.handle) // self._row_bytes

    @property
    def max_size(self) -> int:
        """Rows that fit in the addresses that are reserved."""
        return get_size(lib().buffer_max_size, self.handle) // self._row_bytes

    @property
    def ptr(self) -> int:
        """The address of the first element; growth within max_size does not change it."""
        return get_address(lib().buffer_data, self.handle)

    @property
    def is_address_stable(self) -> bool:
        """Whether growth within max_size leaves the address as it is."""
        return bool(get_int(lib().buffer_is_address_stable, self.handle))

    def __repr__(self) -> str:
        if self.closed:
            return "GrowableArray(closed)"
        return f"GrowableArray(shape={self.shape}, dtype={self.typestr}, device={self.device})"

    # How it grows and shrinks.

    def append(self, data: Any, stream: Any = None) -> None:
        """Appends rows: a list of numbers, an array of the host, or one of a device.

        Numbers must fit the dtype, and an array must have the same dtype and the shape of rows, or
        of one row. One of a device is known by its __cuda_array_interface__ and copied by work in
        `stream`, behind the work of the stream that its interface names. Pinned memory must not
        change until `stream` has passed the copy; its owner is kept until then.
        """
        if hasattr(data, "__cuda_array_interface__"):
            address, nbytes, typestr = device_source(data, stream_value(stream), self.device)
            if typestr != self._dtype.typestr:
                raise InvalidArgumentError(
                    f"the elements are {typestr}, those of the array {self._dtype.typestr}")
            self._require_shape(data.__cuda_array_interface__["shape"])
            if nbytes:
                self._submit(stream, lib().buffer_append_from_device, address, nbytes)
            return
        address, nbytes, keep = self._host_rows(data)
        if nbytes:
            self._submit(stream, lib().buffer_append, address, nbytes, owner=_lender(data))
        del keep

    extend = append

    def resize(self, rows: int, stream: Any = None) -> None:
        """Changes the number of rows; new ones are zero."""
        self._submit(stream, lib().buffer_resize, self._bytes_of(rows))

    def resize_uninitialized(self, rows: int) -> None:
        """Changes the number of rows; new ones have no particular value."""
        lib().buffer_resize_uninitialized(self.handle, self._bytes_of(rows))

    def reserve(self, rows: int) -> None:
        """Backs memory for at least that many rows."""
        lib().buffer_reserve(self.handle, self._bytes_of(rows))

    def clear(self) -> None:
        """Makes the array empty; memory stays."""
        lib().buffer_resize_uninitialized(self.handle, 0)

    def erase_front(self, rows: int, stream: Any = None) -> None:
        """Removes the first rows without moving the others: the address moves on."""
        if operator.index(rows) > len(self):
            raise OutOfRangeError(f"erase_front: {rows} rows of an array that has {len(self)}")
        self._submit(stream, lib().buffer_erase_front, self._bytes_of(rows))

    def shrink_to_fit(self, stream: Any = None, *, replace_tail: bool = False) -> int:
        """Releases memory behind the last row, and returns how many bytes.

        Whole chunks are released; with replace_tail the last one gives way to a smaller one, for
        which the call waits for the stream.
        """
        return self._submit(stream, functools.partial(get_size, lib().buffer_shrink),
                            1 if replace_tail else 0)

    # How its elements are read and written.

    def __getitem__(self, rows: slice) -> Rows:
        """Rows as a view, which copies nothing: array[2:5]."""
        return Rows(self, *row_range(self, rows))

    def tobytes(self, stream: Any = None) -> bytes:
        """The bytes of all elements, copied to the host."""
        return self[:].tobytes(stream)

    def copy_to_host(self, ary: Any = None, stream: Any = None) -> Any:
        """Copies all elements to an array of the host, a new one if none is given.

        A new one is numpy's, or the standard library's array.array without numpy. One
        that is given must have the same dtype, or be bytes.
        """
        return self[:].copy_to_host(ary, stream)

    def write(self, row: int, data: Any, stream: Any = None) -> None:
        """Overwrites rows from one on by those of the host; the array does not grow.

        Pinned memory is read as by append().
        """
        address, nbytes, keep = self._host_rows(data)
        offset = self._bytes_of(row)
        if offset + nbytes > self.nbytes:
            raise OutOfRangeError(
                f"write: {nbytes // self._row_bytes} rows from row {row} on of an array that has "
                f"{len(self)}")
        self._submit(stream, lib().buffer_write, offset, address, nbytes, owner=_lender(data))
        del keep

    def numpy_view(self, stream: Any = None) -> Any:
        """A numpy array of the same memory, if host code may use it (the host provider).

        Waits for the streams of all calls so far, and for the one that is given. The view keeps the
        memory, and is good until the array shrinks, moves, sleeps or is closed. Raises
        UnsupportedError on GPUs that do not let host code in.
        """
        numpy = numpy_for_views(self.device, self._host_may_use(), ": use copy_to_host()")
        self._require_awake()
        self._synchronize()
        if stream is not None:
            synchronize_stream(stream, self.device)
        if len(self) == 0:
            return numpy.empty(self.shape, dtype=self.dtype)
        return numpy.asarray(HostView(self, self.typestr))

    def __array__(self, *_: Any, **__: Any) -> Any:
        # Without this numpy would make an array of one object.
        raise TypeError("a GrowableArray is copied by copy_to_host(), and viewed by numpy_view()")

    def _require_awake(self) -> None:
        lib().buffer_read(self.handle, 0, None, 0, None)  # of no bytes

    def _host_may_use(self) -> bool:
        if self._mr is not None and self._mr.is_host_accessible:
            return True
        return is_host_accessible(self.device)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return self[:].__cuda_array_interface__

    def __dlpack_device__(self) -> Tuple[int, int]:
        from ._dlpack import device_of

        return device_of(self.device, self._mr is not None and is_of_host(self._mr))

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule of the same memory for numpy, CuPy, PyTorch and others.

        It is good until the array shrinks, moves, sleeps or is closed. The elements are complete:
        the streams of all calls for this array are waited for.
        """
        return self[:].__dlpack__(**options)

    # Other users.

    def grant(self, device: int, right: str = "read_write") -> None:
        """Sets the right of a device to all elements: "none", "read" or "read_write"."""
        lib().buffer_grant(self.handle, device, right_value(right))

    def set_access(self, rights: Dict[int, str]) -> None:
        """Replaces the rights of all devices at once."""
        lib().buffer_set_access(self.handle, *access_array(rights))

    def access(self, device: int) -> str:
        """The right of a device."""
        return right_name(get_int(lib().buffer_access, self.handle, device))

    def publish(self, path: str, **options: Any) -> Any:
        """Publishes the array at a path, to which other processes attach(): see sharing."""
        from .sharing import Publication

        return Publication(self, path, **options)

    # Reports.

    def statistics(self) -> GrowthStatistics:
        """How it has grown."""
        now = get_struct(_CBufferStatistics, lib().buffer_get_statistics, self.handle)
        return GrowthStatistics(*(getattr(now, name) for name, _ in now._fields_[1:]))

    def explain(self) -> str:
        """How the memory is used and why, in lines for people."""
        return get_text(lib().buffer_explain, self.handle)

    def _submit(self, stream: Any, function: Callable[..., Any], *args: Any,
                owner: Any = None) -> Any:
        """Calls a function that submits work, and notes the stream.

        Not before, for another thread's _synchronize() would forget a stream without the work; and
        also if it fails, for it may have submitted a part.
        """
        handle, value = self.handle, stream_value(stream)
        try:
            return function(handle, *args, value)
        finally:
            with self._streams_lock:
                owners = self._streams.get(value, (None, []))[1]
                self._streams[value] = stream, owners
                if owner is not None:
                    owners.append(owner)
                is_full = len(owners) > _MOST_OWNERS
            if is_full:
                self._synchronize()

    def _only_stream(self) -> Optional[int]:
        """The value of the one stream that may have work to do; None for several, or a closed one.
        """
        streams = dict(self._streams)
        if any(is_closed_stream(each) for each, _ in streams.values()):
            return None
        return next(iter(streams), 0) if len(streams) < 2 else None

    def _synchronize(self) -> None:
        """Waits for all work of calls so far."""
        with self._streams_lock:
            streams, self._streams = self._streams, {}
        try:
            for each, _ in streams.values():
                synchronize_last(each, self.device)
        except BaseException:
            with self._streams_lock:
                for value, (each, owners) in streams.items():
                    self._streams.setdefault(value, (each, []))[1].extend(owners)
            raise

    def _bytes_of(self, rows: int) -> int:
        rows = operator.index(rows)
        if rows < 0:
            raise OutOfRangeError(f"the number of rows is {rows}, and must be 0 or more")
        nbytes = rows * self._row_bytes
        if nbytes >= 1 << 63:
            raise OutOfRangeError(f"{rows} rows of {self._row_bytes} bytes exceed the addresses")
        return nbytes

    def _require_shape(self, shape: Sequence[int]) -> None:
        """Raises InvalidArgumentError unless that is the shape of rows, or of one."""
        wanted, shape = self._row_shape, tuple(shape)
        if wanted in (shape, shape[1:]):
            return
        advice = []
        if math.prod(shape) % math.prod(wanted) == 0:
            advice.append(f"give array.reshape({', '.join(map(str, (-1, *wanted)))})")
        if len(shape) > 1 and 0 not in shape[1:]:
            advice.append(f"row_shape={shape[1:]} to the GrowableArray")
        raise InvalidArgumentError(
            f"the shape {shape} is of no rows of the shape {wanted}"
            + (f": {', or '.join(advice)}" if advice else ""))

    def _host_rows(self, data: Any) -> Tuple[int, int, Any]:
        """Address and size of rows of the host, and their owner."""
        numpy = numpy_or_none()
        if numpy is not None and not isinstance(data, (bytes, bytearray, memoryview)):
            if isinstance(data, (list, tuple, range, numbers.Number)):
                rows = self._converted(numpy, data)
                if rows.shape == (0,):
                    return 0, 0, rows
            else:
                rows = numpy.asarray(data)
                if rows.dtype.kind not in "biufc":
                    raise self._refused(data)
            if rows.dtype != self.dtype:
                raise InvalidArgumentError(
                    f"the elements are {rows.dtype}, those of the array {self.dtype}: convert "
                    "them by astype()")
            self._require_shape(rows.shape)
            rows = numpy.ascontiguousarray(rows)
            address, nbytes, keep = host_source(rows)
            keep = (keep, rows)
        elif isinstance(data, (list, tuple, range, numbers.Number)):
            values, shape = _flattened([data] if isinstance(data, numbers.Number) else data)
            if len(shape) > 1:
                self._require_shape(shape)
            keep = _packed(values, self._dtype)
            address, nbytes, held = host_source(keep)
            keep = (keep, held)
        else:
            if data is None or isinstance(data, (str, set, dict)):
                raise self._refused(data)
            address, nbytes, keep = host_source(data)
            require_elements(data, self._dtype)
            if memoryview(data).ndim > 1:
                self._require_shape(memoryview(data).shape)
        if nbytes % self._row_bytes:
            raise InvalidArgumentError(
                f"{nbytes} bytes are no whole number of rows, which have {self._row_bytes}")
        return address, nbytes, keep

    def _refused(self, data: Any) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{type(data).__name__} cannot be appended: give a list of numbers, bytes, or an array "
            f"of {self._dtype.name}, of numpy or of a device")

    def _require_elements(self, ary: Any) -> None:
        kind = getattr(ary, "dtype", None)
        if kind is None:
            require_elements(ary, self._dtype)
        elif kind.itemsize != 1 and kind != self.dtype:
            raise InvalidArgumentError(
                f"the elements of the array that is given are {kind}, those of the array "
                f"{self.dtype}")

    def _converted(self, numpy: Any, values: Any) -> Any:
        """Numbers of Python as an array of the dtype, which must have room for them."""
        try:
            found = numpy.asarray(values)
            if found.size and self.dtype.kind in "iu":
                limits = numpy.iinfo(self.dtype)
                if found.dtype.kind == "f":  # also of integers, 2**63 beside a smaller one
                    found = numpy.asarray(values, dtype=object)
                if found.dtype.kind not in "biu" or not (
                        limits.min <= int(found.min()) and int(found.max()) <= limits.max):
                    for each in found.flat:
                        if not (isinstance(each, numbers.Integral)
                                and limits.min <= each <= limits.max):
                            raise InvalidArgumentError(
                                f"{each} is no {self.dtype}: it must be an integer from "
                                f"{limits.min} to {limits.max}")
            return numpy.asarray(values, dtype=self.dtype)
        except InvalidArgumentError:
            raise
        except (TypeError, ValueError, OverflowError) as failure:
            raise InvalidArgumentError(f"no list of {self.dtype}: {failure}") from failure


def _lender(data: Any) -> Any:
    """An object whose memory may be pinned, and then is read after the call; None for others."""
    if isinstance(data, (bytes, bytearray, list, tuple, range, _array.array)):
        return None
    return None if getattr(getattr(data, "flags", None), "owndata", False) else data


def _flattened(data: Any) -> Tuple[Sequence[Any], Tuple[int, ...]]:
    """The elements of a list of lists, without numpy, and its shape."""
    if isinstance(data, range) or not any(
            isinstance(each, (list, tuple, range)) for each in data):
        return data, (len(data),)
    parts = [_flattened(each) if isinstance(each, (list, tuple, range)) else ((), ())
             for each in data]
    shape = parts[0][1]
    if any(each != shape for _, each in parts):
        raise InvalidArgumentError("a list of lists of different lengths is no array")
    return [each for values, _ in parts for each in values], (len(data), *shape)


def _packed(values: Sequence[Any], dtype: DType) -> Any:
    code = dtype.struct_code.replace("?", "B")
    if not code:
        raise UnsupportedError(f"there is no list of {dtype.name} without numpy: give bytes")
    try:
        if dtype.typestr[1] == "b":
            values = [_truth(each) for each in values]
        elif dtype.typestr[1] == "f":
            values = [math.nan if each is None else float(each) for each in values]
        return _array.array(code, values)
    except (TypeError, ValueError, OverflowError) as failure:
        for each in values if len(values) > 1 else ():
            _packed([each], dtype)  # raises for the value that does not fit
        raise InvalidArgumentError(
            f"{', '.join(map(repr, values))} is no {dtype.name}: {failure}") from failure


def _truth(value: Any) -> bool:
    """numpy's conversion of a value to a bool."""
    if isinstance(value, (list, tuple, range)):
        raise TypeError(f"{value!r} is no element")
    return bool(value)
