# SPDX-License-Identifier: MIT
"""Memory resources, by the names of RMM's and hipMM's rmm.mr, and which one a device uses.

A resource allocates device memory for a stream: ``allocate(nbytes, stream)`` returns an address,
and ``deallocate(address, nbytes, stream)`` frees it behind the work of the stream. Adaptors add
something to the resource that they are made of, and keep it alive. All are thread-safe.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import operator
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Union

from ._errors import HipvmmError, InvalidArgumentError
from ._handle import Owner
from ._library import (
    ADDRESSES,
    AllocateCallback,
    Counters,
    DeallocateCallback,
    FailureCallback,
    PoolStatistics as _CPoolStatistics,
    access_array,
    get_address,
    get_int,
    get_size,
    get_struct,
    get_text,
    in_range,
    keep_callback_error,
    lib,
    milliseconds,
    not_zero,
    options_text,
    path_bytes,
    right_name,
    right_value,
)
from .device import current, current_device, device_or_current, provider, stream_value

__all__ = [
    "ArenaMemoryResource",
    "BinningMemoryResource",
    "CallbackMemoryResource",
    "CudaAsyncMemoryResource",
    "CudaAsyncViewMemoryResource",
    "CudaMemoryResource",
    "DeviceMemoryResource",
    "FailureCallbackResourceAdaptor",
    "FixedSizeMemoryResource",
    "HipAsyncMemoryResource",
    "HipMemoryResource",
    "LimitingResourceAdaptor",
    "LoggingResourceAdaptor",
    "ManagedMemoryResource",
    "MemoryResource",
    "PinnedHostMemoryResource",
    "Pool",
    "PoolMemoryResource",
    "PoolStatistics",
    "PrefetchResourceAdaptor",
    "Statistics",
    "SamHeadroomMemoryResource",
    "StatisticsResourceAdaptor",
    "SystemMemoryResource",
    "TrackingResourceAdaptor",
    "UpstreamResourceAdaptor",
    "available_device_memory",
    "disable_logging",
    "enable_logging",
    "get_current_device_resource",
    "get_current_device_resource_type",
    "get_log_filenames",
    "get_per_device_resource",
    "get_per_device_resource_type",
    "is_initialized",
    "set_current_device_resource",
    "set_per_device_resource",
]

# Bytes as a number, or as text such as "1GiB" or "80%".
Size = Union[int, str]
FileName = Union[None, str, "os.PathLike[str]"]


class MemoryResource(Owner):
    """The base of all memory resources. Not made itself."""

    _destroy_function = "resource_destroy"

    def allocate(self, nbytes: int, stream: Any = None) -> int:
        """Allocates for work that is submitted to the stream afterwards; 0 for no bytes."""
        return get_address(lib().allocate, self.handle, nbytes, 0, stream_value(stream))

    def deallocate(self, ptr: int, nbytes: int, stream: Any = None) -> None:
        """Frees an allocation of that many bytes behind the work that is in the stream."""
        lib().deallocate(self.handle, ptr, nbytes, 0, stream_value(stream))

    @property
    def kind(self) -> str:
        """The kind of resource, as the C interface names it."""
        value = ctypes.c_char_p()
        lib().resource_kind(self.handle, ctypes.byref(value))
        return (value.value or b"").decode()

    @property
    def device(self) -> Optional[int]:
        """The device that owns the memory; None if no single one does."""
        ordinal = get_int(lib().resource_device, self.handle)
        return None if ordinal < 0 else ordinal

    @property
    def is_host_accessible(self) -> bool:
        """Whether host code may use the memory through its address."""
        return bool(get_int(lib().resource_is_host_accessible, self.handle))

    def is_equal(self, other: "MemoryResource") -> bool:
        """Whether memory of one may be freed by the other."""
        other = required_resource(other, "other resource")
        return bool(get_int(lib().resource_is_equal, self.handle, other.handle))


# The name of the base class in RMM.
DeviceMemoryResource = MemoryResource


@contextlib.contextmanager
def owned(handle: int) -> Iterator[int]:
    """The handle of a resource, which ends with the statement."""
    try:
        yield handle
    finally:
        lib().resource_destroy(handle)


class _ForeignMemoryResource(MemoryResource):
    """A resource that was set for a device by other code than this package."""


class CudaMemoryResource(MemoryResource):
    """Memory of hipMalloc. The default of devices unless another resource is set."""

    def __init__(self, device: Optional[int] = None) -> None:
        super().__init__(get_address(lib().hip_create, device_or_current(device)))


HipMemoryResource = CudaMemoryResource


class ManagedMemoryResource(MemoryResource):
    """Memory of hipMallocManaged, which migrates between the host and devices."""

    def __init__(self) -> None:
        super().__init__(get_address(lib().managed_create))


class PinnedHostMemoryResource(MemoryResource):
    """Pinned memory of the host (hipHostMalloc)."""

    def __init__(self, *, portable: bool = False, mapped: bool = False,
                 write_combined: bool = False) -> None:
        options = options_text(
            {"portable": portable, "mapped": mapped, "write_combined": write_combined})
        super().__init__(get_address(lib().pinned_create, options))


class SystemMemoryResource(MemoryResource):
    """Ordinary memory of the host, for devices that reach all of it."""

    def __init__(self, device: Optional[int] = None) -> None:
        super().__init__(get_address(lib().system_create, device_or_current(device)))


class SamHeadroomMemoryResource(MemoryResource):
    """Ordinary memory of the host, of which `headroom` bytes of the device's memory stay free."""

    def __init__(self, headroom: int, *, device: Optional[int] = None) -> None:
        super().__init__(get_address(lib().sam_headroom_create, device_or_current(device),
                                     headroom))


class CudaAsyncViewMemoryResource(MemoryResource):
    """A pool of HIP's own that others have made, and which must outlive this.

    pool_handle: the hipMemPool_t (cudaMemPool_t), as a number.
    """

    def __init__(self, pool_handle: Any, *, device: Optional[int] = None) -> None:
        super().__init__(get_address(lib().async_view_create, device_or_current(device),
                                     int(pool_handle)))


class CudaAsyncMemoryResource(MemoryResource):
    """A pool of HIP's own (hipMallocFromPoolAsync).

    enable_ipc: other processes may import it, by a file descriptor.
    """

    def __init__(self, initial_pool_size: Optional[Size] = None,
                 release_threshold: Optional[Size] = None, enable_ipc: bool = False, *,
                 device: Optional[int] = None) -> None:
        options = options_text(
            {"initial": initial_pool_size, "release_threshold": release_threshold,
             "shareable": "posix_fd" if enable_ipc else None})
        super().__init__(get_address(lib().async_create, device_or_current(device), options))


HipAsyncMemoryResource = CudaAsyncMemoryResource


@dataclass(frozen=True)
class PoolStatistics:
    """Statistics of a pool; sizes are in bytes."""

    reserved_current: int
    reserved_high: int
    used_current: int
    used_high: int
    address_bytes: int
    mapped_bytes: int
    largest_now: int
    largest_moved: int
    largest_possible: int
    chunks_created: int
    chunks_moved: int
    callbacks: int


class _AnyPool(MemoryResource):
    """The functions of pools and arenas."""

    def statistics(self) -> PoolStatistics:
        """The held and used bytes."""
        now = get_struct(_CPoolStatistics, lib().pool_get_statistics, self.handle)
        return PoolStatistics(*(getattr(now, name) for name, _ in now._fields_[1:]))

    def report(self) -> str:
        """The memory held, its place, and the requests that would still fit, for people."""
        return get_text(lib().pool_report, self.handle)

    def trim(self, bytes_to_keep: int = 0, timeout: float = 0.0) -> int:
        """Releases idle memory until that much is held, and returns how much was released.

        timeout: seconds to wait for work that still uses free memory.
        """
        return get_size(lib().pool_trim, self.handle, bytes_to_keep, milliseconds(timeout))

    def note_stream_wait(self, waiter: Any, other: Any) -> None:
        """Declares that a stream waits for an event recorded on another after all calls so far.

        For streams and events of other packages; those of hipvmm declare it themselves.
        """
        lib().pool_note_stream_wait(self.handle, stream_value(waiter), stream_value(other))

    def forget_stream(self, stream: Any) -> None:
        """Declares that a stream of another package will be destroyed."""
        lib().pool_forget_stream(self.handle, stream_value(stream))


class Pool(_AnyPool):
    """hipvmm's stream-ordered pool, which stays dense by remapping free memory.

    initial, maximum, release_threshold: bytes, or text such as "4GiB" or "80%" of the device.
    shareable: "posix_fd" for memory that can be exported to other processes.
    options: others by name, as docs/guides/c_api.md lists them, such as reuse_opportunistic=False.
    HIPVMM_CONF sets defaults.
    """

    def __init__(self, device: Optional[int] = None, *, initial: Optional[Size] = None,
                 maximum: Optional[Size] = None, release_threshold: Optional[Size] = None,
                 shareable: Optional[str] = None, **options: Any) -> None:
        not_zero("maximum", maximum, "all of the device's memory")
        text = options_text({"initial": initial, "maximum": maximum,
                             "release_threshold": release_threshold, "shareable": shareable,
                             **options})
        super().__init__(get_address(lib().pool_create, device_or_current(device), text))

    def deallocate_by_address(self, ptr: int) -> None:
        """Frees an allocation behind the work in its own stream."""
        lib().pool_deallocate(self.handle, ptr)

    def explain(self) -> str:
        """Which kind of memory the pool uses, and why."""
        return get_text(lib().pool_explain, self.handle)

    def reset_peaks(self) -> None:
        """Sets both high-water marks to the current values."""
        lib().pool_reset_peaks(self.handle)

    @property
    def release_threshold(self) -> int:
        """Idle memory beyond this many bytes is released soon."""
        return get_size(lib().pool_release_threshold, self.handle)

    @release_threshold.setter
    def release_threshold(self, nbytes: int) -> None:
        lib().pool_set_release_threshold(self.handle, nbytes)

    def grant(self, device: int, right: str = "read_write") -> None:
        """Sets the right of a device to all memory: "none", "read" or "read_write"."""
        lib().pool_grant(self.handle, device, right_value(right))

    def set_access(self, rights: Dict[int, str]) -> None:
        """Replaces the rights of all devices at once."""
        lib().pool_set_access(self.handle, *access_array(rights))

    def access(self, device: int) -> str:
        """The right of a device."""
        return right_name(get_int(lib().pool_access, self.handle, device))


class UpstreamResourceAdaptor(MemoryResource):
    """A resource that is made of another one, its upstream."""

    def __init__(self, handle: int, upstream: MemoryResource) -> None:
        super().__init__(handle)
        self._upstream = upstream

    @property
    def upstream_mr(self) -> MemoryResource:
        """The upstream."""
        return self._upstream

    def get_upstream(self) -> MemoryResource:
        """The upstream."""
        return self._upstream


def required_resource(resource: Any, name: str = "upstream") -> MemoryResource:
    if not isinstance(resource, MemoryResource):
        raise InvalidArgumentError(
            f"the {name} is {type(resource).__name__}, and must be a MemoryResource")
    return resource


def is_of_host(resource: MemoryResource) -> bool:
    """Whether the memory is that of the host for other packages: on GPUs pinned memory alone."""
    if provider() == "host":
        return resource.is_host_accessible
    while isinstance(resource, UpstreamResourceAdaptor):
        resource = resource.upstream_mr
    return isinstance(resource, PinnedHostMemoryResource)


class PoolMemoryResource(UpstreamResourceAdaptor, _AnyPool):
    """A pool by RMM's name.

    Over a CudaMemoryResource it is hipvmm's own pool of that device: it maps memory itself and
    takes none from the upstream; over any other it is an arena. The sizes are bytes or text such as
    "1GiB". Differs from RMM: by default it begins empty, as it can grow without fragments.
    """

    def __init__(self, upstream_mr: MemoryResource, initial_pool_size: Optional[Size] = None,
                 maximum_pool_size: Optional[Size] = None) -> None:
        upstream = required_resource(upstream_mr)
        not_zero("maximum_pool_size", maximum_pool_size, "as much as there is")
        options = options_text({"initial": initial_pool_size, "maximum": maximum_pool_size})
        if isinstance(upstream, CudaMemoryResource):
            handle = get_address(lib().pool_create, upstream.device, options)
        else:
            if maximum_pool_size is None:
                options = options_text({"initial": initial_pool_size, "maximum": "unlimited"})
            handle = get_address(lib().arena_create, upstream.handle, options)
        super().__init__(handle, upstream)

    def pool_size(self) -> int:
        """Bytes held."""
        return self.statistics().reserved_current


class ArenaMemoryResource(UpstreamResourceAdaptor, _AnyPool):
    """A pool in memory of another resource, in large superblocks.

    arena_size: most bytes held; by default half of the memory that is free now.
    """

    def __init__(self, upstream_mr: MemoryResource, arena_size: Optional[Size] = None,
                 dump_log_on_failure: bool = False) -> None:
        upstream = required_resource(upstream_mr)
        not_zero("arena_size", arena_size, "half of the free memory")
        options = options_text({"maximum": arena_size, "dump_log_on_failure": dump_log_on_failure})
        super().__init__(get_address(lib().arena_create, upstream.handle, options), upstream)


class FixedSizeMemoryResource(UpstreamResourceAdaptor):
    """Equal blocks of block_size bytes, allocated many at a time from the upstream."""

    def __init__(self, upstream_mr: MemoryResource, block_size: Size = 1 << 20,
                 blocks_to_preallocate: int = 128) -> None:
        upstream = required_resource(upstream_mr)
        options = options_text({"block_size": block_size, "blocks": blocks_to_preallocate})
        super().__init__(get_address(lib().fixed_size_create, upstream.handle, options), upstream)

    def get_block_size(self) -> int:
        """Bytes of a block, and the largest request."""
        return get_size(lib().fixed_size_block, self.handle)


class BinningMemoryResource(UpstreamResourceAdaptor):
    """Forwards each request to a bin by its size, and to the upstream if none is large enough.

    With both exponents, bins of equal blocks for 2**min to 2**max bytes are made.
    """

    def __init__(self, upstream_mr: MemoryResource, min_size_exponent: int = -1,
                 max_size_exponent: int = -1) -> None:
        upstream = required_resource(upstream_mr)
        options = None
        if (min_size_exponent, max_size_exponent) != (-1, -1):
            options = options_text(
                {"min_exponent": min_size_exponent, "max_exponent": max_size_exponent})
        super().__init__(get_address(lib().binning_create, upstream.handle, options), upstream)
        self._bins: List[MemoryResource] = []

    def add_bin(self, allocation_size: int, bin_resource: Optional[MemoryResource] = None) -> None:
        """Adds a bin for requests of up to that many bytes: a resource, or equal blocks."""
        if bin_resource is None:
            lib().binning_add_bin(self.handle, allocation_size)
        else:
            lib().binning_add_bin_resource(self.handle, allocation_size,
                                           required_resource(bin_resource, "bin").handle)
            self._bins.append(bin_resource)

    @property
    def bin_mrs(self) -> List[MemoryResource]:
        """The resources that were added as bins."""
        return list(self._bins)


# The library may call them after the resource of Python: for memory that outlives it.
_thunks: List[Any] = []
_lending: Set["_Functions"] = set()


class _Functions:
    """The functions of a resource, which live as long as it and memory from them."""

    def __init__(self, allocate_func: Callable[[int, int], int],
                 deallocate_func: Callable[[int, int, int], None]) -> None:
        self._allocate, self._deallocate = allocate_func, deallocate_func
        self._lent = 0
        self._lock = threading.RLock()  # a collection meanwhile may free blocks

    def allocate(self, nbytes: int, stream: int) -> int:
        ptr = in_range(self._allocate(nbytes, stream) or 0, "the address of a callback", *ADDRESSES)
        if ptr:
            self._count(1)
        return ptr

    def deallocate(self, ptr: int, nbytes: int, stream: int) -> None:
        try:
            self._deallocate(ptr, nbytes, stream)
        finally:
            self._count(-1)

    def _count(self, blocks: int) -> None:
        with self._lock:
            self._lent += blocks
            (_lending.add if self._lent else _lending.discard)(self)


class CallbackMemoryResource(MemoryResource):
    """Memory from two functions of the program.

    allocate_func(nbytes, stream) returns an address, or 0 without memory; its exceptions leave
    allocate(), or if that gets other memory, go to sys.unraisablehook. An interrupt always leaves
    it. deallocate_func(address, nbytes, stream) must not raise. They run in the threads that use
    the resource.
    """

    def __init__(self, allocate_func: Callable[[int, int], int],
                 deallocate_func: Callable[[int, int, int], None]) -> None:
        if not (callable(allocate_func) and callable(deallocate_func)):
            raise InvalidArgumentError("both arguments must be functions")

        self._functions = _Functions(allocate_func, deallocate_func)
        weak = weakref.ref(self._functions)

        def allocate(nbytes: int, stream: Optional[int], _: Any) -> int:
            try:
                functions = weak()
                return functions.allocate(nbytes, stream or 0) if functions else 0
            except BaseException as error:  # it comes out of the call
                keep_callback_error(error)
                return 0

        def deallocate(ptr: int, nbytes: int, stream: Optional[int], _: Any) -> None:
            functions = weak()
            if functions:
                functions.deallocate(ptr, nbytes, stream or 0)

        thunks = (AllocateCallback(allocate), DeallocateCallback(deallocate))
        _thunks.extend(thunks)
        super().__init__(get_address(lib().callback_create, *thunks, None))


class FailureCallbackResourceAdaptor(UpstreamResourceAdaptor):
    """Calls a function when the upstream has no memory: callback(nbytes) returns whether to retry.

    Its exceptions leave allocate().
    """

    def __init__(self, upstream_mr: MemoryResource, callback: Callable[[int], bool]) -> None:
        if not callable(callback):
            raise InvalidArgumentError("the callback must be a function")

        weak = weakref.ref(self)

        def call(nbytes: int, _: Any) -> int:
            try:
                adaptor = weak()
                return 1 if adaptor and adaptor._callback(nbytes) else 0
            except BaseException as error:  # it comes out of the call
                keep_callback_error(error)
                return 0

        upstream = required_resource(upstream_mr)
        self._callback, thunk = callback, FailureCallback(call)
        _thunks.append(thunk)
        super().__init__(
            get_address(lib().failure_callback_create, upstream.handle, thunk, None),
            upstream)


class LimitingResourceAdaptor(UpstreamResourceAdaptor):
    """Refuses requests beyond a number of bytes allocated at a time."""

    def __init__(self, upstream_mr: MemoryResource, allocation_limit: int) -> None:
        upstream = required_resource(upstream_mr)
        super().__init__(
            get_address(lib().limiting_create, upstream.handle, allocation_limit, None), upstream)
        self._limit = operator.index(allocation_limit)

    def get_allocated_bytes(self) -> int:
        """Bytes counted against the limit."""
        return get_size(lib().limiting_allocated, self.handle)

    def get_allocation_limit(self) -> int:
        """The limit in bytes."""
        return self._limit


class LoggingResourceAdaptor(UpstreamResourceAdaptor):
    """Writes a row of CSV for each call, which hipvmm-replay and RMM's replay read.

    log_file_name: by default the value of HIPVMM_LOG_FILE or RMM_LOG_FILE. As in RMM ".dev0" is put
    before the ending of the name, for device 0. Raises ValueError if no name is known.
    """

    def __init__(self, upstream_mr: MemoryResource,
                 log_file_name: FileName = None, *,
                 auto_flush: bool = False) -> None:
        upstream = required_resource(upstream_mr)
        device = upstream.device
        self._file = _log_name(log_file_name, current_device() if device is None else device)
        super().__init__(
            get_address(lib().logging_create, upstream.handle, path_bytes(self._file),
                        options_text({"auto_flush": auto_flush})), upstream)

    def flush(self) -> None:
        """Writes the rows that are held back."""
        lib().logging_flush(self.handle)

    def get_file_name(self) -> str:
        """The file."""
        return self._file


def _log_name(name: FileName, device: int) -> str:
    chosen = name or os.environ.get("HIPVMM_LOG_FILE") or os.environ.get("RMM_LOG_FILE")
    if not chosen:
        raise InvalidArgumentError(
            "a log needs a file: name it, or set HIPVMM_LOG_FILE or RMM_LOG_FILE")
    base, ending = os.path.splitext(os.fsdecode(chosen))
    return f"{base}.dev{device}{ending}"


@dataclass(frozen=True)
class Statistics:
    """Bytes and allocations: now, most at a time, and in all."""

    current_bytes: int
    current_count: int
    peak_bytes: int
    peak_count: int
    total_bytes: int
    total_count: int


class StatisticsResourceAdaptor(UpstreamResourceAdaptor):
    """Counts its requests, on levels that can be nested."""

    def __init__(self, upstream_mr: MemoryResource) -> None:
        upstream = required_resource(upstream_mr)
        super().__init__(get_address(lib().statistics_create, upstream.handle), upstream)

    def _counters(self, function: Callable[..., None]) -> Statistics:
        now = get_struct(Counters, function, self.handle)
        return Statistics(now.current_bytes, now.current_count, now.peak_bytes, now.peak_count,
                          now.total_bytes, now.total_count)

    @property
    def allocation_counts(self) -> Statistics:
        """The counters of the innermost level."""
        return self._counters(lib().statistics_counters)

    def push_counters(self) -> Statistics:
        """Begins a level, and returns the counters of the one around it."""
        return self._counters(lib().statistics_push)

    def pop_counters(self) -> Statistics:
        """Ends the level and returns its counters. Raises IndexError if none was begun."""
        return self._counters(lib().statistics_pop)


class TrackingResourceAdaptor(UpstreamResourceAdaptor):
    """Keeps a list of the allocations, with call stacks of native code if requested."""

    def __init__(self, upstream_mr: MemoryResource, capture_stacks: bool = False) -> None:
        upstream = required_resource(upstream_mr)
        options = options_text({"stacks": capture_stacks})
        super().__init__(get_address(lib().tracking_create, upstream.handle, options), upstream)

    def get_allocated_bytes(self) -> int:
        """Bytes allocated now."""
        return get_size(lib().tracking_allocated, self.handle)

    def get_outstanding_allocations_str(self) -> str:
        """A line for each block that is allocated."""
        return get_text(lib().tracking_outstanding, self.handle)

    def log_outstanding_allocations(self) -> None:
        """Writes these lines to the debug log, as info."""
        lib().log(b"info", self.get_outstanding_allocations_str().encode())


class PrefetchResourceAdaptor(UpstreamResourceAdaptor):
    """Prefetches each allocation to its device: for managed memory."""

    def __init__(self, upstream_mr: MemoryResource) -> None:
        upstream = required_resource(upstream_mr)
        super().__init__(get_address(lib().prefetch_create, upstream.handle), upstream)


# The resources that this package has set, so that the getter returns the same object.
_lock = threading.RLock()
_set: Dict[int, MemoryResource] = {}
_set_by = os.getpid()  # the process that has set them


def get_per_device_resource(device: int) -> MemoryResource:
    """The resource in use for a device: the object that was set, or a wrapper for another's."""
    used = _ForeignMemoryResource(get_address(lib().get_device_resource, device))
    with _lock:
        known = _set.get(device)
    if known is not None and not known.closed and known.is_equal(used):
        used.close()
        return known
    initial = CudaMemoryResource(device)
    if initial.is_equal(used):
        used.close()
        return initial
    return used


def set_per_device_resource(device: int, mr: Optional[MemoryResource]) -> None:
    """Sets the resource for a device, which lives as long as it is set; None: hipMalloc.

    Memory that was allocated from the previous one stays its own: each DeviceBuffer knows its own.
    """
    global _set_by
    with _lock:
        _set_by = os.getpid()
        if mr is None:
            lib().reset_device_resource(device)
            _set.pop(device, None)
        else:
            lib().set_device_resource(device, required_resource(mr, "resource").handle)
            _set[device] = mr


def get_current_device_resource() -> MemoryResource:
    """The resource in use for the current device."""
    return get_per_device_resource(current_device())


def set_current_device_resource(mr: Optional[MemoryResource]) -> None:
    """Sets the resource for the current device; None: hipMalloc."""
    set_per_device_resource(current_device(), mr)


def get_per_device_resource_type(device: int) -> type:
    """The class of the resource in use for a device."""
    return type(get_per_device_resource(device))


def get_current_device_resource_type() -> type:
    """The class of the resource in use for the current device."""
    return type(get_current_device_resource())


def is_initialized() -> bool:
    """Whether each device has a resource: always, for hipMalloc is there from the start."""
    return True


def available_device_memory() -> Any:
    """Free and total memory of the current device in bytes."""
    from .device import device_memory

    return device_memory()


def initialize(pool_allocator: bool, managed_memory: bool, initial_pool_size: Optional[Size],
               maximum_pool_size: Optional[Size], devices: Union[int, Sequence[int]], logging: bool,
               log_file_name: FileName) -> None:
    """Makes and sets resources for devices; all of them, or none.

    A log that writes the same file ends first, and the file begins anew.
    """
    ordinals = list(devices) if isinstance(devices, Iterable) else [devices]
    made: Dict[int, MemoryResource] = {}
    for ordinal in ordinals:
        resource: MemoryResource
        with current(ordinal):  # a resource of memory without a device is of this one
            resource = ManagedMemoryResource() if managed_memory else CudaMemoryResource(ordinal)
            if pool_allocator:
                resource = PoolMemoryResource(resource, initial_pool_size, maximum_pool_size)
        made[ordinal] = resource
    if logging:
        made = _logged(made, log_file_name)
    previous: Dict[int, MemoryResource] = {}
    try:
        for ordinal, resource in made.items():
            before = get_per_device_resource(ordinal)
            set_per_device_resource(ordinal, resource)
            previous[ordinal] = before
    except HipvmmError:
        for ordinal, before in previous.items():
            set_per_device_resource(ordinal, before)
        raise


def _end_log(ordinal: int) -> MemoryResource:
    """The resource of a device, without its log, whose rows are in the file then."""
    used = get_per_device_resource(ordinal)
    if not isinstance(used, LoggingResourceAdaptor):
        return used
    set_per_device_resource(ordinal, used.upstream_mr)
    used.flush()
    return used.upstream_mr


def _logged(resources: Dict[int, MemoryResource], name: FileName) -> Dict[int, MemoryResource]:
    """Logs of resources for devices. Logs in use end only if they write the same file, and then
    after all others are made: a file has one log at a time."""
    made: Dict[int, MemoryResource] = {}
    with _lock:
        files = get_log_filenames()
        for ends in (False, True):
            for ordinal, resource in resources.items():
                owner = resource.device
                own = _log_name(name, ordinal if owner is None else owner)
                if (files.get(ordinal) == own) == ends:
                    if ends:
                        _end_log(ordinal)
                    with current(ordinal):  # its file is named by it
                        made[ordinal] = LoggingResourceAdaptor(resource, name)
    return made


def enable_logging(log_file_name: FileName = None) -> None:
    """Logs the calls of the resource of each device for which this package has set one, and of the
    current device, as LoggingResourceAdaptor."""
    with _lock:
        below = {}
        for ordinal in sorted({current_device(), *_set}):
            used = get_per_device_resource(ordinal)
            below[ordinal] = used.upstream_mr if isinstance(used, LoggingResourceAdaptor) else used
        del used  # a log ends with its last user
        for ordinal, log in _logged(below, log_file_name).items():
            _end_log(ordinal)
            set_per_device_resource(ordinal, log)


def disable_logging() -> None:
    """Ends the logging of enable_logging() and reinitialize(logging=True)."""
    with _lock:
        for ordinal in list(_set):
            _end_log(ordinal)


def get_log_filenames() -> Dict[int, Optional[str]]:
    """The file of each device's log; None for a device without."""
    with _lock:
        return {
            ordinal: used.get_file_name() if isinstance(used, LoggingResourceAdaptor) else None
            for ordinal, used in _set.items()
        }


def _end_at_exit() -> None:
    """At the interpreter's exit: the resources set for devices end, so that logs are complete."""
    if os.getpid() != _set_by:
        return  # a child of fork() leaves objects of its parent
    with _lock:
        for ordinal in list(_set):
            try:
                set_per_device_resource(ordinal, None)
            except HipvmmError:
                pass


# Behind the finalizers of buffers: the first of them registers their function.
atexit.register(_end_at_exit)
