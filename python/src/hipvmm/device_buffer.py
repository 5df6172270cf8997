# SPDX-License-Identifier: MIT
"""DeviceBuffer: untyped memory of a device, by RMM's name."""

from __future__ import annotations

import contextlib
import ctypes
import operator
import os
import threading
from typing import Any, Dict, Iterator, Optional, Tuple

from ._errors import (
    HipError, HipvmmError, InvalidArgumentError, InvalidHandleError, OutOfRangeError)
from ._handle import HeldHandle, finalizers
from ._host import device_source, host_source, host_target
from ._library import get_int, lib
from .device import (
    current_device,
    is_closed_stream,
    is_default_stream,
    of_default,
    provider,
    stream_value,
    synchronize,
    synchronize_last,
)
from .mr import MemoryResource, get_current_device_resource, is_of_host, required_resource

__all__ = ["DeviceBuffer"]


class _Block:
    """An allocation, which is freed in the stream of its last use, with its last reference."""

    def __init__(self, nbytes: int, stream: Any, resource: MemoryResource) -> None:
        self.nbytes = nbytes
        # A stream object is kept, so that there is a stream to free in.
        self.last_stream = [stream]
        self._lock = threading.Lock()
        with finalizers:
            self._held = resource._hold()
            self._ptr = resource.allocate(nbytes, stream)
            self._finalizer = finalizers.add(
                self, _free, self._lock, resource, self._held, self._ptr, nbytes,
                self.last_stream, os.getpid())

    @property
    def ptr(self) -> int:
        self._held.require_own("DeviceBuffer")
        return self._ptr

    @property
    def device(self) -> Optional[int]:
        """The device of the memory, also once its resource was closed; None if it has none."""
        ordinal = get_int(lib().resource_device, self._held.value)
        return None if ordinal < 0 else ordinal

    @contextlib.contextmanager
    def use(self) -> Iterator[int]:
        """The address, which is not freed meanwhile by the end of the interpreter."""
        ptr = self.ptr  # a child of fork() must not wait for the lock
        with self._lock:
            if not self._finalizer.alive:
                raise InvalidHandleError("the memory of this DeviceBuffer was freed at exit")
            lib().require_awake(ptr)
            yield ptr


def _free(lock: threading.Lock, resource: MemoryResource, held: HeldHandle, ptr: int, nbytes: int,
          last_stream: Any, process: int) -> None:
    # `resource` may have been closed.
    if not ptr or os.getpid() != process:
        return
    with lock:
        try:
            if is_closed_stream(last_stream[0]):
                # Its work may go on.
                lib().deallocate_sync(held.value, ptr, nbytes, 0)
            else:
                lib().deallocate(held.value, ptr, nbytes, 0, stream_value(last_stream[0]))
        except HipvmmError:
            pass  # the library reports failures by itself


def _rebuild(content: bytes) -> "DeviceBuffer":
    return DeviceBuffer.to_device(content)


class DeviceBuffer:
    """Memory of the current device's resource, not initialized.

    >>> buffer = hipvmm.DeviceBuffer(size=100)
    >>> buffer.size
    100

    ptr: an address to copy from, of the host or a device; 0 for none.
    size: in bytes. stream: in which it is allocated, and by default freed. mr: the resource; by
    default the one in use for the current device.
    """

    def __init__(self, *, ptr: int = 0, size: int = 0, stream: Any = None,
                 mr: Optional[MemoryResource] = None) -> None:
        self._resource = (get_current_device_resource() if mr is None
                          else required_resource(mr, "mr"))
        self._size = operator.index(size)
        self._block = _Block(self._size, stream, self._resource)
        if ptr and size:
            with of_default(stream, self._block.device):
                lib().copy_async(self.ptr, ptr, self._size, stream_value(stream))
                if stream is None:
                    lib().synchronize(0)

    @staticmethod
    def to_device(b: Any, stream: Any = None, mr: Optional[MemoryResource] = None
                  ) -> "DeviceBuffer":
        """Copies bytes of the host, as bytes or an array has them, to a new buffer."""
        address, nbytes, keep = host_source(b)
        made = DeviceBuffer(size=nbytes, stream=stream, mr=mr)
        if nbytes:
            with of_default(stream, made._block.device):
                lib().copy(made.ptr, address, nbytes, stream_value(stream))
        del keep
        return made

    @property
    def size(self) -> int:
        """Bytes in use."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._size

    @property
    def ptr(self) -> int:
        """The address on the device; 0 for an empty buffer."""
        return self._block.ptr

    @property
    def mr(self) -> MemoryResource:
        """The resource of the memory."""
        return self._resource

    def capacity(self) -> int:
        """Bytes allocated."""
        return self._block.nbytes

    def __len__(self) -> int:
        return self._size

    def __sizeof__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"DeviceBuffer(size={self._size}, ptr=0x{self._block._ptr:x}, mr={type(self.mr).__name__})"

    def __bytes__(self) -> bytes:
        return self.tobytes()

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        lib().require_awake(self.ptr)
        return {
            "data": (self.ptr, False),
            "shape": (self._size,),
            "strides": None,
            "typestr": "|u1",
            "version": 3,
            "stream": self._protocol_stream(),
        }

    def __dlpack_device__(self) -> Tuple[int, int]:
        from ._dlpack import device_of

        device = self._block.device
        return device_of(current_device() if device is None else device, is_of_host(self.mr))

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        """A capsule of the same memory, which keeps it, also when the buffer is resized."""
        from ._dlpack import capsule, require_no_copy

        own = self.__dlpack_device__()
        require_no_copy(own, dl_device, copy)
        block = self._block
        lib().require_awake(block.ptr)
        if stream != -1:
            synchronize_last(block.last_stream[0], block.device)
        return capsule(block, block.ptr, (self._size,), "|u1", own)

    def __reduce__(self) -> Any:
        return _rebuild, (self.tobytes(),)

    def __copy__(self) -> "DeviceBuffer":
        return self.copy()

    def __deepcopy__(self, memo: Any) -> "DeviceBuffer":
        return self.copy()

    def copy(self, stream: Any = None) -> "DeviceBuffer":
        """A new buffer of the same resource with the same bytes."""
        made = DeviceBuffer(size=self._size, stream=stream, mr=self._resource)
        self._copy_to(made._block, stream)
        return made

    def _copy_to(self, block: _Block, stream: Any) -> None:
        """Copies all bytes to another block of the same resource."""
        if self._size:
            with self._use(stream) as (ptr, value):
                lib().copy_async(block.ptr, ptr, self._size, value)

    @contextlib.contextmanager
    def _use(self, stream: Any) -> Iterator[Tuple[int, int]]:
        """The address, and the stream of a use, which frees the memory unless another follows.

        A use in the default stream leaves the memory to its stream: each is waited for.
        """
        value, last = stream_value(stream), self._block.last_stream
        with self._block.use() as ptr, of_default(stream, device := self._block.device):
            waits = stream is None and last[0] is not None
            if waits:
                synchronize_last(last[0], device)
            elif stream is not None:
                last[0] = stream
            try:
                yield ptr, value
            except HipError:  # maybe there is no such stream to free in
                last[0] = None
                synchronize(device)
                raise
            if waits:
                lib().synchronize(0)

    def reserve(self, new_capacity: int, stream: Any = None) -> None:
        """Allocates at least that many bytes, and copies the bytes if they move."""
        new_capacity = operator.index(new_capacity)
        if new_capacity < 0:
            raise InvalidArgumentError(f"the size is {new_capacity}, and must be 0 or more")
        if new_capacity <= self._block.nbytes:
            return
        block = _Block(new_capacity, stream, self._resource)
        self._copy_to(block, stream)
        self._block = block

    def resize(self, new_size: int, stream: Any = None) -> None:
        """Changes the size. New bytes have no particular value; memory is kept when it shrinks."""
        self.reserve(new_size, stream)
        self._size = operator.index(new_size)

    def copy_to_host(self, ary: Any = None, stream: Any = None) -> Any:
        """Copies the bytes to an array of the host that can be written, and waits for the stream.

        Without one, returns a new numpy array of bytes, or a bytearray without numpy.
        """
        if ary is None:
            ary = _new_host_array(self._size)
        address, nbytes, keep = host_target(ary)
        if nbytes < self._size:
            raise InvalidArgumentError(
                f"the array has {nbytes} bytes, less than the buffer, which has {self._size}")
        if self._size:
            with self._use(stream) as (ptr, value):
                lib().copy(address, ptr, self._size, value)
        del keep
        return ary

    def copy_from_host(self, ary: Any, stream: Any = None) -> None:
        """Overwrites the first bytes by those of an array of the host."""
        address, nbytes, keep = host_source(ary)
        self._require_room(nbytes)
        if nbytes:
            with self._use(stream) as (ptr, value):
                lib().copy(ptr, address, nbytes, value)
        del keep

    def copy_from_device(self, cuda_ary: Any, stream: Any = None) -> None:
        """Overwrites the first bytes by those of an array of a device."""
        address, nbytes, _ = device_source(cuda_ary, stream_value(stream), self._block.device)
        self._require_room(nbytes)
        if nbytes:
            with self._use(stream) as (ptr, value):
                lib().copy_async(ptr, address, nbytes, value)

    def _require_room(self, nbytes: int) -> None:
        if nbytes > self._size:
            raise OutOfRangeError(
                f"the array has {nbytes} bytes, more than the buffer, which has {self._size}")

    def tobytes(self, stream: Any = None) -> bytes:
        """The bytes, copied to the host."""
        content = ctypes.create_string_buffer(self._size)
        if self._size:
            with self._use(stream) as (ptr, value):
                lib().copy(content, ptr, self._size, value)
        return content.raw

    def _protocol_stream(self) -> Optional[int]:
        """The stream of the last use as the CUDA array interface has it: 0 is not allowed and
        1 is the default; None once it was waited for."""
        stream, device = self._block.last_stream[0], self._block.device
        # On AMD packages differ in the meaning of a stream's number.
        if provider() == "amd" or is_closed_stream(stream) or (
                is_default_stream(stream_value(stream)) and device not in (None, current_device())):
            synchronize_last(stream, device)
            return None
        return stream_value(stream) or 1


def _new_host_array(nbytes: int) -> Any:
    try:
        import numpy
    except ImportError:
        return bytearray(nbytes)
    return numpy.empty(nbytes, dtype=numpy.uint8)
