# SPDX-License-Identifier: MIT
"""hipvmm as the allocator of CuPy's device memory, on CUDA and on ROCm builds.

    import hipvmm.cupy
    hipvmm.cupy.install()

or, for a part of one thread's work that uses CuPy's own pool else::

    with hipvmm.cupy.pool():
        ...

Memory comes from the resource that was set for the device (``hipvmm.mr.set_per_device_resource``,
``hipvmm.reinitialize``); otherwise from one pool for each device, with the options in
HIPVMM_CONF. It is allocated in CuPy's current stream and freed in the same, without Python, so that
arrays may end at any time of the interpreter's exit. Out of memory is CuPy's own
``cupy.cuda.memory.OutOfMemoryError``, and hipvmm's.

Not honoured: CuPy's memory hooks and the limits of its own pool, of which CuPy asks nothing here.
Memory that is allocated while a stream is captured must live as long as the graph.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ._errors import HipvmmError, OutOfMemoryError
from ._library import (
    PoolStatistics,
    get_address,
    get_struct,
    get_text,
    lib,
    report_callback_error,
    take_callback_error,
)
from .device import devices
from .device_buffer import DeviceBuffer
from .mr import owned

__all__ = [
    "MemoryStatistics",
    "allocator",
    "empty_cache",
    "forget_stream",
    "install",
    "is_installed",
    "memory_statistics",
    "pool",
    "report",
    "rmm_cupy_allocator",
    "uninstall",
]


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as failure:
        raise ModuleNotFoundError(
            "hipvmm.cupy needs CuPy, which cannot be imported: " + str(failure)) from failure
    return cupy


@dataclass(frozen=True)
class MemoryStatistics:
    """Bytes of one device.

    used, peak_used: the memory of arrays in the device's pool, now and at most.
    reserved, peak_reserved: the device memory that the pool holds for them.
    """

    used: int
    peak_used: int
    reserved: int
    peak_reserved: int


class _Stream:
    """A stream that memory was allocated in: its CFunctionAllocator, and its owner."""

    __slots__ = ("malloc", "kept", "allocator")

    def __init__(self, stream: Any) -> None:
        library = lib().loaded
        allocate, free = library.hipvmm_device_allocate, library.hipvmm_device_deallocate
        # Streams that CuPy does not destroy have the device -1: the default ones.
        self.kept = stream if stream.device_id != -1 else None
        self.allocator = _cupy().cuda.CFunctionAllocator(
            int(stream.ptr), ctypes.cast(allocate, ctypes.c_void_p).value,
            ctypes.cast(free, ctypes.c_void_p).value, library)
        self.malloc = self.allocator.malloc


_lock = threading.RLock()  # a stream that ends may be the end of more
_streams: Dict[int, _Stream] = {}
_out_of_memory: List[type] = []
_previous: List[Any] = []
_bound: List[Tuple[Any, Callable[[int], Any]]] = []


def _forget_unused() -> None:
    """Lets streams end that nothing but this module has: the pool must know before they do."""
    for value, known in list(_streams.items()):
        # The references of `known` and of the call.
        if known.kept is None or sys.getrefcount(known.kept) > 2:
            continue
        with contextlib.suppress(HipvmmError):  # tried again then
            lib().device_forget_stream(value)
            del _streams[value]


def _note(stream: Any) -> _Stream:
    with _lock:
        _forget_unused()
        value = int(stream.ptr)
        known = _streams.get(value)
        if known is None or (known.kept is None and stream.device_id != -1):
            known = _streams[value] = _Stream(stream)
        return known


def _error_type() -> type:
    """A class for both: CuPy's programs catch the one, hipvmm's the other."""
    if not _out_of_memory:
        theirs = _cupy().cuda.memory.OutOfMemoryError

        class CupyOutOfMemoryError(theirs, OutOfMemoryError):  # type: ignore[misc, valid-type]
            """The device, or a limit, has no memory left for an array."""

            def __init__(self, size: int, total: int, limit: int = 0, text: str = "") -> None:
                theirs.__init__(self, size, total, limit)
                self._text = text

            def __str__(self) -> str:
                return self._text or super().__str__()

            def __reduce__(self) -> Tuple[Any, ...]:
                return theirs, (self._size, self._total, self._limit)

        _out_of_memory.append(CupyOutOfMemoryError)
    return _out_of_memory[0]


def _fail(nbytes: int) -> None:
    """Raises the error of a failed allocation."""
    from . import report as report_of_resource

    try:
        lib().throw_last()
    except OutOfMemoryError as failure:
        text = str(failure)
        used = 0
        with contextlib.suppress(HipvmmError):
            text += "\n" + (report_of_resource(failure.device) or report(failure.device))
            used = memory_statistics(failure.device).used
        error = _error_type()(nbytes, used, text=text)
        for name in ("exhausted", "device", "bytes_requested", "bytes_free"):
            setattr(error, name, getattr(failure, name))
        raise error from None


def _allocate() -> Callable[[int], Any]:
    """The function that CuPy allocates by."""
    cupy = _cupy()
    if _bound and _bound[0][0] is cupy:
        return _bound[0][1]
    current, streams = cupy.cuda.get_current_stream, _streams

    def allocate(nbytes: int) -> Any:
        stream = current()
        known = streams.get(stream.ptr)
        if known is None or (known.kept is None and stream.device_id != -1):
            known = _note(stream)
        pointer = known.malloc(nbytes)
        if nbytes and not pointer.ptr:
            gc.collect()  # arrays in circles, as CuPy's own pool does
            report_callback_error(take_callback_error())  # of this call, or of one that succeeded
            pointer = known.malloc(nbytes)
            if not pointer.ptr:
                _fail(nbytes)
        return pointer

    _streams.clear()
    _bound[:] = [(cupy, allocate)]
    return allocate


def install() -> None:
    """Makes hipvmm CuPy's allocator in all threads. Arrays that exist keep their memory.

    Raises ValueError, from CuPy, within one of its ``using_allocator()`` blocks. A second call does
    nothing.
    """
    cuda, allocate = _cupy().cuda, _allocate()
    before = cuda.get_allocator()
    cuda.set_allocator(allocate)
    if before is not allocate:
        _previous[:] = [before]


def uninstall() -> None:
    """Restores CuPy's allocator from before install(); else its own pool."""
    cupy = _cupy()
    cupy.cuda.set_allocator(_previous.pop() if _previous else cupy.get_default_memory_pool().malloc)


def is_installed() -> bool:
    """Whether CuPy's allocator in this thread is hipvmm, by install() or pool()."""
    return _cupy().cuda.get_allocator() is _allocate()


@contextlib.contextmanager
def pool() -> Iterator[None]:
    """Makes hipvmm CuPy's allocator in the block, in the calling thread."""
    with _cupy().cuda.using_allocator(_allocate()):
        yield


def forget_stream(stream: Any) -> None:
    """Declares that a stream which another package owns will be destroyed.

    Needed for ``cupy.cuda.ExternalStream`` only: streams of CuPy live until the pools know.
    """
    with _lock:
        value = int(stream.ptr)
        lib().device_forget_stream(value)
        _streams.pop(value, None)


def _device(device: Optional[int]) -> int:
    return int(_cupy().cuda.device.get_device_id() if device is None else device)


def memory_statistics(device: Optional[int] = None) -> MemoryStatistics:
    """The used and held memory of a device's pool; CuPy's current device by default.

    Arrays in memory of a resource that was set are not included: query that resource.
    """
    with owned(get_address(lib().device_pool, _device(device))) as handle:
        now = get_struct(PoolStatistics, lib().pool_get_statistics, handle)
    return MemoryStatistics(now.used_current, now.used_high, now.reserved_current,
                            now.reserved_high)


def report(device: Optional[int] = None) -> str:
    """A device's pool in lines for people: its memory, and the requests that would still fit."""
    with owned(get_address(lib().device_pool, _device(device))) as handle:
        return get_text(lib().pool_report, handle)


def empty_cache() -> None:
    """Releases memory that no array uses to the devices, as free_all_blocks() of CuPy's pool."""
    with _lock:
        _forget_unused()
    for device in devices():
        with owned(get_address(lib().device_pool, device)) as handle:
            lib().pool_trim(handle, 0, 0, None)


def allocator(nbytes: int) -> Any:
    """RMM's ``rmm_cupy_allocator``: memory of the current device's resource, hipMalloc unless set.

    For ``cupy.cuda.set_allocator``; install() is quicker, and pools by itself.
    """
    cupy = _cupy()
    buffer = DeviceBuffer(size=nbytes, stream=cupy.cuda.get_current_stream())
    # An address of no bytes is on no device that CuPy could ask for.
    device = cupy.cuda.device.get_device_id()
    memory = cupy.cuda.UnownedMemory(
        ptr=buffer.ptr, size=buffer.size, owner=buffer, device_id=device)
    return cupy.cuda.MemoryPointer(memory, 0)


# The name in RMM.
rmm_cupy_allocator = allocator
