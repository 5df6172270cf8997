# SPDX-License-Identifier: MIT
"""Arrays that other processes of the machine use without a copy."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from ._dtype import (
    array_without_numpy, dtype_of, numpy_or_none, row_bytes_of, row_shape_of)
from ._handle import Owner
from ._host import HostView, numpy_for_views
from ._library import (
    get_address,
    get_int,
    get_size,
    lib,
    options_text,
    path_bytes,
    wait_in_slices,
)
from .device import is_host_accessible, of_default, stream_value, synchronize_stream

__all__ = ["Attachment", "KeptPublication", "Publication", "attach", "keep"]

Path = Union[str, bytes, "os.PathLike[str]"]


class Publication(Owner):
    """An array at a path of the file system, to which other processes attach().

    Nothing is seen there before announce(). The array must be made with shareable="posix_fd".
    Options: patience (milliseconds), max_importers, users ("1000+1001"), tag; element_size and
    element_align for a C++ program's attached_vector, such as 4 and 4 of floats.
    """

    _destroy_function = "publication_destroy"

    def __init__(self, array: Any, path: Path, **options: Any) -> None:
        super().__init__(
            get_address(lib().buffer_publish, array.handle, path_bytes(path),
                        options_text(options)))
        self._array = array
        self.path = os.fsdecode(path)

    def announce(self, stream: Any = None) -> None:
        """All elements may be read elsewhere once the work that is in the stream has passed."""
        lib().publication_announce(self.handle, self._array.handle, stream_value(stream))

    @property
    def importers(self) -> int:
        """Processes that are attached now."""
        return get_size(lib().publication_importers, self.handle)


class KeptPublication(Owner):
    """Memory that another process publishes, kept when that process ends: see keep()."""

    _destroy_function = "publication_destroy"

    def __init__(self, from_path: Path, path: Path, **options: Any) -> None:
        super().__init__(get_address(lib().publication_keep, path_bytes(from_path),
                                     path_bytes(path), options_text(options)))
        self.path = os.fsdecode(path)

    @property
    def importers(self) -> int:
        """Processes that are attached now."""
        return get_size(lib().publication_importers, self.handle)


class Attachment(Owner):
    """Elements that another process publishes, mapped here as far as refresh() has seen them."""

    _destroy_function = "attachment_destroy"

    def __init__(self, path: Path, dtype: Any = "uint8", row_shape: Sequence[int] = (),
                 **options: Any) -> None:
        self._dtype = dtype_of(dtype)
        self._row_shape = row_shape_of(row_shape)
        self._row_bytes = row_bytes_of(self._dtype, self._row_shape)
        super().__init__(get_address(lib().attach, path_bytes(path), options_text(options)))
        self._device = get_int(lib().attachment_device, self.handle)

    def refresh(self, stream: Any = None) -> int:
        """Maps new chunks, and returns the number of rows that may be read."""
        nbytes = get_size(lib().attachment_refresh, self.handle, stream_value(stream))
        return nbytes // self._row_bytes

    def wait(self, rows: int, timeout: float, stream: Any = None) -> bool:
        """Refreshes until that many rows may be read; False after so many seconds, or if the owner
        has gone."""
        return wait_in_slices(
            timeout, lambda part: bool(get_int(lib().attachment_wait, self.handle,
                                               rows * self._row_bytes, part, stream_value(stream))),
            lambda: not self.is_open)

    def __len__(self) -> int:
        return get_size(lib().attachment_size, self.handle) // self._row_bytes

    @property
    def shape(self) -> Tuple[int, ...]:
        """Rows, and the shape of a row."""
        return (len(self),) + self._row_shape

    @property
    def device(self) -> int:
        """The device of the memory in this process."""
        return self._device

    @property
    def ptr(self) -> int:
        """The address of the first element, which does not change."""
        return get_address(lib().attachment_data, self.handle)

    @property
    def is_open(self) -> bool:
        """Whether the owner still publishes, as far as the last calls saw."""
        return bool(get_int(lib().attachment_is_open, self.handle))

    def tobytes(self, stream: Any = None) -> bytes:
        """The bytes of the elements, copied to the host."""
        return self._read(get_size(lib().attachment_size, self.handle), stream)

    def _read(self, nbytes: int, stream: Any = None) -> bytes:
        content = ctypes.create_string_buffer(nbytes)
        if nbytes:
            with of_default(stream, self._device):
                lib().copy(content, self.ptr, nbytes, stream_value(stream))
        return content.raw

    def copy_to_host(self, stream: Any = None) -> Any:
        """The elements as a new array, of numpy or, without it, of the standard library."""
        numpy = numpy_or_none()
        if numpy is None:
            return array_without_numpy(self._dtype, self.tobytes(stream))
        return numpy.frombuffer(bytearray(self.tobytes(stream)),
                                dtype=self._dtype.typestr).reshape(self.shape)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return {
            "data": (self.ptr if len(self) else 0, True),
            "shape": self.shape,
            "strides": None,
            "typestr": self._dtype.typestr,
            "version": 3,
            "stream": None,
        }

    def numpy_view(self, stream: Any = None) -> Any:
        """A read-only numpy array of the same memory, if host code may use it."""
        numpy = numpy_for_views(
            self.device, is_host_accessible(self.device), ": use copy_to_host()")
        synchronize_stream(stream, self.device)
        if len(self) == 0:
            return numpy.empty(self.shape, dtype=self._dtype.typestr)
        return numpy.asarray(HostView(self, self._dtype.typestr, read_only=True))


def keep(from_path: Path, path: Path, **options: Any) -> KeptPublication:
    """Keeps the memory that a process publishes at `from_path`, and publishes it at `path`.

    It stays until the result is closed, also when that process has ended; it costs a descriptor for
    each chunk, and uses no device. Options: patience (milliseconds), max_importers, users. Raises
    IpcError if no process publishes at `from_path`, or `path` is taken.
    """
    return KeptPublication(from_path, path, **options)


def attach(path: Path, dtype: Any = "uint8", row_shape: Sequence[int] = (), *,
           right: Optional[str] = None, device: Optional[int] = None, **options: Any) -> Attachment:
    """Attaches to the publication of another process at a path.

    Options: peers, timeout (milliseconds), users, tag; element_size and element_align if the owner
    publishes elements. Raises IpcError if no process publishes there.
    """
    return Attachment(path, dtype, row_shape, right=right, device=device, **options)
