# SPDX-License-Identifier: MIT
"""Memory of the host and of devices in objects of other packages."""

from __future__ import annotations

import ctypes
from typing import Any, Optional, Tuple

from ._dtype import numpy_or_none
from ._errors import InvalidArgumentError, UnsupportedError
from .device import current_device, is_default_stream, synchronize_stream


class _PyBuffer(ctypes.Structure):
    """Py_buffer, for read-only objects, whose address ctypes does not give otherwise."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_SIMPLE = 0
_WRITABLE = 1
_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_get.restype = ctypes.c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_PyBuffer)]
_release.restype = None


class _HostMemory:
    """The contiguous memory of an object, which cannot move or end as long as this lives."""

    def __init__(self, source: Any, flags: int) -> None:
        self._view = _PyBuffer()
        self._held = False
        _get(source, ctypes.byref(self._view), flags)  # raises the object's exceptions
        self._held = True
        self.address = self._view.buf or 0
        self.nbytes = self._view.len

    def __del__(self) -> None:
        if self._held:
            _release(ctypes.byref(self._view))


def _memory_of(source: Any, flags: int, what: str) -> Tuple[int, int, Any]:
    try:
        memory = _HostMemory(source, flags)
    except (TypeError, ValueError, BufferError) as failure:
        raise InvalidArgumentError(
            f"{type(source).__name__} has no contiguous memory of the host {what}: {failure}"
        ) from failure
    return memory.address, memory.nbytes, memory


def host_source(source: Any) -> Tuple[int, int, Any]:
    """Address and size of an object's bytes, and their owner: bytes, numpy arrays, ..."""
    return _memory_of(source, _SIMPLE, "to read")


def host_target(target: Any) -> Tuple[int, int, Any]:
    """The same for an object whose bytes are written."""
    return _memory_of(target, _WRITABLE, "to write")


def device_source(source: Any, stream: int = 0, device: Optional[int] = None
                  ) -> Tuple[int, int, str]:
    """Address, size in bytes and typestr of a contiguous array of a device, which is complete for
    work in `stream` of `device`: another stream that the array names as its own is waited for."""
    try:
        interface = source.__cuda_array_interface__
    except AttributeError:
        raise InvalidArgumentError(
            f"{type(source).__name__} is no array of a device: it has no "
            "__cuda_array_interface__") from None
    typestr = interface["typestr"]
    if typestr[1] not in "biufc":
        raise InvalidArgumentError(f"elements of {typestr} cannot be copied")
    itemsize = int(typestr[2:])
    strides = interface.get("strides")
    expected = itemsize
    count = 1
    for index in range(len(interface["shape"]) - 1, -1, -1):
        length = interface["shape"][index]
        if strides is not None and length > 1 and strides[index] != expected:
            raise InvalidArgumentError("the array of a device is not contiguous: copy it first")
        expected *= length
        count *= length
    if interface.get("mask") is not None:
        raise InvalidArgumentError("the array of a device has a mask, which is not supported")
    own = interface.get("stream")
    if count and own is not None:
        own = 0 if own == 1 else int(own)  # 1 is the default stream
        device = current_device() if device is None else device
        own_device = _device_of(source) if is_default_stream(own) else device
        if (own, own_device) != (stream, device):
            synchronize_stream(own, own_device)
    return int(interface["data"][0]), count * itemsize, typestr


def numpy_for_views(device: int, is_accessible: bool, other_way: str) -> Any:
    """numpy, if there is one, and host code may use the memory. Raises UnsupportedError."""
    numpy = numpy_or_none()
    if numpy is None:
        raise UnsupportedError("numpy is not installed")
    if not is_accessible:
        raise UnsupportedError(f"host code may not use memory of device {device}{other_way}")
    return numpy


class HostView:
    """Memory as numpy takes it; keeps its owner."""

    def __init__(self, owner: Any, typestr: str, read_only: bool = False) -> None:
        self._owner = owner
        self.__array_interface__ = {"data": (owner.ptr, read_only), "shape": owner.shape,
                                    "strides": None, "typestr": typestr, "version": 3}


def _device_of(source: Any) -> int:
    """The device whose default stream an array names: its own if it says that, as hipvmm's and
    CuPy's, else the current one."""
    named = getattr(source, "device", None)
    named = getattr(named, "id", named)
    return named if isinstance(named, int) else current_device()
