# SPDX-License-Identifier: MIT
"""Finds libhipvmm.so, declares its C interface, and makes exceptions of its failures."""

from __future__ import annotations

import ctypes
import operator
import os
import re
import threading
import time
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_int64, c_void_p
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _errors
from ._version import __version__

# HIPVMM_C_VERSION of the oldest library with all functions of this package.
NEEDED_C_VERSION = 1


class Failure(ctypes.Structure):
    """hipvmm_failure."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("status", c_int),
        ("exhausted", c_int),
        ("hip_code", c_int),
        ("device", c_int),
        ("bytes_requested", c_size_t),
        ("bytes_free", c_size_t),
    ]


class Access(ctypes.Structure):
    """hipvmm_access."""

    _fields_ = [("device", c_int), ("right", c_int)]


class BufferStatistics(ctypes.Structure):
    """hipvmm_buffer_statistics."""

    _fields_ = [(name, c_size_t) for name in (
        "struct_size", "growth_steps", "base_moves", "chunks", "peak_bytes", "ahead_bytes",
        "ahead_hits", "ahead_misses", "copied_bytes")]


class PoolStatistics(ctypes.Structure):
    """hipvmm_pool_statistics."""

    _fields_ = [(name, c_size_t) for name in (
        "struct_size", "reserved_current", "reserved_high", "used_current", "used_high",
        "address_bytes", "mapped_bytes", "largest_now", "largest_moved", "largest_possible")] + [
        (name, c_uint64) for name in ("chunks_created", "chunks_moved", "callbacks")]


class Counters(ctypes.Structure):
    """hipvmm_counters."""

    _fields_ = [("struct_size", c_size_t)] + [(name, c_int64) for name in (
        "current_bytes", "peak_bytes", "total_bytes", "current_count", "peak_count",
        "total_count")]


class SlotLayout(ctypes.Structure):
    """hipvmm_slot_arena_layout."""

    _fields_ = [("struct_size", c_size_t), ("base", c_void_p)] + [(name, c_size_t) for name in (
        "slots", "planes", "bytes_per_slot", "slot_stride", "plane_stride", "block_bytes")] + [
        ("device", c_int)]


class SlotStatistics(ctypes.Structure):
    """hipvmm_slot_arena_statistics."""

    _fields_ = [(name, c_size_t) for name in (
        "struct_size", "slots_in_use", "used_bytes", "needed_bytes", "spare_bytes", "kept_bytes",
        "held_bytes", "peak_held_bytes", "shared_bytes", "budget_bytes", "reserved_bytes")] + [
        (name, c_uint64) for name in (
            "prefetched_blocks", "failed_prefetches", "grown_blocks", "moved_blocks",
            "evictions")]


class TagStatistics(ctypes.Structure):
    """hipvmm_tag_statistics."""

    _fields_ = [(name, c_size_t) for name in (
        "struct_size", "objects", "bytes_asleep", "bytes_on_host", "bytes_on_disk")] + [
            ("is_asleep", c_int), ("bytes_mapped", c_size_t)]


class SuspendRange(ctypes.Structure):
    """hipvmm_suspend_range."""

    _fields_ = [("address", c_void_p), ("bytes", c_size_t), ("keep", c_int)]


class BudgetStatistics(ctypes.Structure):
    """hipvmm_budget_statistics."""

    _fields_ = [(name, c_size_t) for name in (
        "struct_size", "limit", "bytes", "own_bytes", "holders")]


class IdleStatistics(ctypes.Structure):
    """hipvmm_idle_statistics."""

    _fields_ = [("struct_size", c_size_t), ("asked", c_uint64), ("refused", c_uint64),
                ("moved_bytes", c_size_t), ("released_bytes", c_size_t), ("nanoseconds", c_uint64)]


class MemoryChange(ctypes.Structure):
    """hipvmm_memory_change."""

    _fields_ = [("kind", c_int), ("holder", c_int), ("object", c_uint64), ("bytes", c_size_t),
                ("stream", c_void_p), ("thread", c_uint64), ("nanoseconds", c_int64)]


class PressureNote(ctypes.Structure):
    """hipvmm_pressure_note."""

    _fields_ = [("struct_size", c_size_t)] + [(name, c_int) for name in (
        "level", "previous", "bound", "device")] + [(name, c_size_t) for name in (
            "total_bytes", "free_bytes", "held_bytes", "idle_bytes", "largest_request")] + [
                ("reason", MemoryChange)]


class BudgetHolder(ctypes.Structure):
    """hipvmm_budget_holder."""

    _fields_ = [("process", c_int), ("priority", c_int), ("bytes", c_size_t),
                ("waiting_for", c_size_t), ("program", ctypes.c_char * 32)]


class EvictableStatistics(ctypes.Structure):
    """hipvmm_evictable_statistics."""

    _fields_ = [("struct_size", c_size_t), ("evictions", c_uint64), ("returns", c_uint64),
                ("evicted_bytes", c_size_t), ("returned_bytes", c_size_t),
                ("refused_in_use", c_uint64), ("refused_by_failure", c_uint64)]


FailureCallback = ctypes.CFUNCTYPE(c_int, c_size_t, c_void_p)
EvictCallback = ctypes.CFUNCTYPE(c_int, c_size_t, c_void_p)
TrimCallback = ctypes.CFUNCTYPE(None, c_size_t, c_void_p)
FillCallback = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
PressureCallback = ctypes.CFUNCTYPE(None, POINTER(PressureNote), c_void_p)
AllocateCallback = ctypes.CFUNCTYPE(c_void_p, c_size_t, c_void_p, c_void_p)
DeallocateCallback = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_void_p, c_void_p)

# How parameters are abbreviated below: h a handle, H if one is written; p an address, P if
# one is written; s a text, S if its address is written; z bytes, Z; i an int, I; u unsigned;
# U uint64_t*; t a text that is copied, of three parameters; v a list of bytes or numbers.
_TYPES: Dict[str, Sequence[Any]] = {
    "h": (c_void_p,),
    "H": (POINTER(c_void_p),),
    "p": (c_void_p,),
    "P": (POINTER(c_void_p),),
    "s": (c_char_p,),
    "S": (POINTER(c_char_p),),
    "z": (c_size_t,),
    "Z": (POINTER(c_size_t),),
    "v": (POINTER(c_size_t),),
    "i": (c_int,),
    "I": (POINTER(c_int),),
    "u": (c_uint,),
    "t": (c_char_p, c_size_t, POINTER(c_size_t)),
    "A": (POINTER(Access),),
    "B": (POINTER(BufferStatistics),),
    "L": (POINTER(PoolStatistics),),
    "C": (POINTER(Counters),),
    "N": (POINTER(SlotLayout),),
    "T": (POINTER(SlotStatistics),),
    "Q": (POINTER(TagStatistics),),
    "W": (POINTER(SuspendRange),),
    "F": (FailureCallback,),
    "E": (EvictCallback,),
    "J": (POINTER(BudgetStatistics),),
    "K": (POINTER(BudgetHolder),),
    "Y": (POINTER(IdleStatistics),),
    "U": (POINTER(c_uint64),),
    "R": (TrimCallback,),
    "G": (POINTER(PressureNote),),
    "V": (PressureCallback,),
    "f": (FillCallback,),
    "O": (POINTER(EvictableStatistics),),
    "X": (POINTER(MemoryChange),),
    "M": (AllocateCallback,),
    "D": (DeallocateCallback,),
}

# Every function that returns a status and that the package calls.
FUNCTIONS: Dict[str, str] = {
    "live_handles": "Z",
    "set_logging_level": "s",
    "logging_level": "S",
    "log": "ss",
    "flush_log": "",
    "provider": "S",
    "device_count": "I",
    "device_current": "I",
    "device_make_current": "i",
    "device_name": "it",
    "device_uuid": "it",
    "device_memory": "iZZ",
    "device_can_access_peer": "iiI",
    "device_is_host_accessible": "iI",
    "device_capability": "it",
    "device_synchronize": "i",
    "stream_create": "iH",
    "stream_destroy": "h",
    "stream_get": "hP",
    "event_create": "iH",
    "event_destroy": "h",
    "event_get": "hP",
    "event_record": "hp",
    "event_is_done": "hI",
    "event_synchronize": "h",
    "stream_wait": "ph",
    "synchronize": "p",
    "per_thread_stream": "P",
    "copy_async": "ppzp",
    "copy": "ppzp",
    "fill_async": "pizp",
    "drain_retired_memory": "",
    "buffer_create": "isH",
    "buffer_create_on": "hsH",
    "buffer_destroy": "h",
    "buffer_size": "hZ",
    "buffer_capacity": "hZ",
    "buffer_max_size": "hZ",
    "buffer_data": "hP",
    "buffer_device": "hI",
    "buffer_is_address_stable": "hI",
    "buffer_reserve": "hz",
    "buffer_resize": "hzp",
    "buffer_resize_uninitialized": "hz",
    "buffer_append": "hpzp",
    "buffer_append_from_device": "hpzp",
    "buffer_erase_front": "hzp",
    "buffer_shrink": "hipZ",
    "buffer_read": "hzpzp",
    "buffer_write": "hzpzp",
    "buffer_get_statistics": "hB",
    "buffer_explain": "ht",
    "buffer_grant": "hii",
    "buffer_set_access": "hAz",
    "buffer_access": "hiI",
    "buffer_publish": "hssH",
    "publication_keep": "sssH",
    "publication_destroy": "h",
    "publication_announce": "hhp",
    "publication_importers": "hZ",
    "attach": "ssH",
    "attachment_destroy": "h",
    "attachment_refresh": "hpZ",
    "attachment_wait": "hzupI",
    "attachment_data": "hP",
    "attachment_size": "hZ",
    "attachment_device": "hI",
    "attachment_is_open": "hI",
    "hip_create": "iH",
    "managed_create": "H",
    "pinned_create": "sH",
    "system_create": "iH",
    "async_create": "isH",
    "async_view_create": "ipH",
    "sam_headroom_create": "izH",
    "pool_create": "isH",
    "arena_create": "hsH",
    "fixed_size_create": "hsH",
    "binning_create": "hsH",
    "binning_add_bin": "hz",
    "binning_add_bin_resource": "hzh",
    "logging_create": "hssH",
    "logging_flush": "h",
    "statistics_create": "hH",
    "tracking_create": "hsH",
    "limiting_create": "hzsH",
    "failure_callback_create": "hFpH",
    "prefetch_create": "hH",
    "callback_create": "MDpH",
    "resource_destroy": "h",
    "resource_kind": "hS",
    "resource_device": "hI",
    "resource_is_host_accessible": "hI",
    "resource_is_equal": "hhI",
    "resource_upstream": "hH",
    "allocate": "hzzpP",
    "deallocate": "hpzzp",
    "allocate_sync": "hzzP",
    "deallocate_sync": "hpzz",
    "get_device_resource": "iH",
    "set_device_resource": "ih",
    "reset_device_resource": "i",
    "device_forget_stream": "p",
    "device_pool": "iH",
    "pool_deallocate": "hp",
    "pool_trim": "hzuZ",
    "pool_get_statistics": "hL",
    "pool_reset_peaks": "h",
    "pool_report": "ht",
    "pool_explain": "ht",
    "pool_release_threshold": "hZ",
    "pool_set_release_threshold": "hz",
    "pool_grant": "hii",
    "pool_set_access": "hAz",
    "pool_access": "hiI",
    "pool_note_stream_wait": "hpp",
    "pool_forget_stream": "hp",
    "statistics_counters": "hC",
    "statistics_push": "hC",
    "statistics_pop": "hC",
    "tracking_allocated": "hZ",
    "tracking_outstanding": "ht",
    "limiting_allocated": "hZ",
    "fixed_size_block": "hZ",
    "slot_arena_create": "isH",
    "slot_arena_destroy": "h",
    "slot_arena_acquire": "hpZ",
    "slot_arena_commit": "hvvzp",
    "slot_arena_release": "hzp",
    "slot_arena_truncate": "hzzp",
    "slot_arena_share_prefix": "hzvzzp",
    "slot_arena_make_writable": "hzzzp",
    "slot_arena_pointer": "hzzP",
    "slot_arena_length": "hzZ",
    "slot_arena_capacity": "hzZ",
    "slot_arena_in_use": "hzI",
    "slot_arena_slots_that_fit": "hzZ",
    "slot_arena_set_eviction": "hEp",
    "slot_arena_set_budget": "hz",
    "slot_arena_trim": "hZ",
    "slot_arena_get_layout": "hN",
    "slot_arena_get_statistics": "hT",
    "suspend": "sisZ",
    "suspend_in_stream": "sispZ",
    "suspend_ranges": "siWzsPZ",
    "prepare_suspend": "siWzZ",
    "resume": "sZ",
    "tag_get_statistics": "sQ",
    "require_awake": "p",
    "checkpoint_save": "sssPZ",
    "checkpoint_load": "sisH",
    "checkpoint_notes": "ht",
    "checkpoint_destroy": "h",
    "evictable_create": "sisfpH",
    "evictable_destroy": "h",
    "evictable_use": "hpi",
    "evictable_done": "hp",
    "evictable_prefetch": "hp",
    "evictable_get_statistics": "hO",
    "evictable_reason": "ht",
    "budget_join": "issRpH",
    "budget_leave": "h",
    "budget_set_limit": "hz",
    "budget_make_room": "hzI",
    "budget_get_statistics": "hJ",
    "budget_get_holders": "hKzZ",
    "idle_get_statistics": "Y",
    "pressure_subscribe": "isVpH",
    "pressure_end": "h",
    "pressure_now": "hG",
    "pressure_wait": "huGI",
    "pressure_get_reasons": "hXzZ",
    "python_begin": "pppppU",
}

CALLBACK_RAISED = 10  # the status returned by a callback that raised

_STATUS_ERRORS = {
    1: _errors.InvalidArgumentError,
    2: _errors.InvalidHandleError,
    3: _errors.OutOfMemoryError,
    4: _errors.UnsupportedError,
    5: _errors.OutOfRangeError,
    6: _errors.HipError,
    7: _errors.IpcError,
    8: _errors.SystemFailureError,
    11: _errors.InvalidStateError,
}
_EXHAUSTED = ("", "device_memory", "addresses", "descriptors", "host_memory", "limit", "budget",
              "fragmentation", "alignment")


def parameter_types(signature: str) -> List[Any]:
    """The ctypes of an abbreviated list of parameters."""
    return [each for letter in signature for each in _TYPES[letter]]


# C would silently truncate these: the values of the parameters that are numbers.
ADDRESSES = (0, ctypes.c_size_t(-1).value)
_RANGES = {
    "z": ADDRESSES,
    "p": ADDRESSES,
    "h": ADDRESSES,
    "i": (-(1 << 31), (1 << 31) - 1),
    "u": (0, (1 << 32) - 1),
}


# What they are called in messages: in Python, where the caller does not see C's names.
_ARGUMENTS = {"z": "size", "p": "address or stream", "h": "handle", "i": "device", "u": "timeout"}
_OF_A_SLOT = {"slot_arena_" + each for each in (
    "release", "truncate", "share_prefix", "make_writable", "pointer", "length", "capacity",
    "in_use")}


def _number_ranges(name: str, signature: str) -> List[Tuple[int, str, int, int, bool]]:
    """Index, name, least and greatest value of each parameter that may be a number; whether it may
    be None."""
    ranges = []
    index = 0
    for letter in signature:
        if letter in _RANGES:
            is_slot = name in _OF_A_SLOT and index == 1
            ranges.append((index, "slot" if is_slot else _ARGUMENTS[letter], *_RANGES[letter],
                           letter in "ph"))
        index += len(_TYPES[letter])
    return ranges


def in_range(value: Any, name: str, least: int, most: int, or_none: bool = False) -> Any:
    """The value as an int, or as it is if it is memory. Raises InvalidArgumentError, TypeError."""
    if (value is None and or_none) or isinstance(value, (ctypes.Array, ctypes._SimpleCData)):
        return value
    if value is None:
        raise TypeError(f"{name} is None, and must be from {least} to {most}")
    number = operator.index(value)
    if not least <= number <= most:
        raise _errors.InvalidArgumentError(
            f"{name} is {value}, and must be from {least} to {most}")
    return number


def candidates() -> List[Tuple[str, str]]:
    """The places to search for the library, in order: the name to load, and a description."""
    named = os.environ.get("HIPVMM_LIBRARY")
    if named:
        if os.sep in named:  # PyTorch and keepers load it again, maybe from another folder
            named = os.path.abspath(named)
        return [(named, "HIPVMM_LIBRARY")]
    major, minor = __version__.split(".")[:2]
    names = (f"libhipvmm.so.{major}.{minor}", "libhipvmm.so")
    package = Path(__file__).resolve().parent
    found = [(str(package / name), "beside the package") for name in names]
    return found + [(name, "the loader's path") for name in names]


def _load() -> Tuple[ctypes.CDLL, str]:
    tried = []
    for name, place in candidates():
        if place == "beside the package" and not os.path.exists(name):
            tried.append(f"  {name} ({place}): no such file")
            continue
        try:
            return ctypes.CDLL(name), name
        except OSError as failure:
            tried.append(f"  {name} ({place}): {failure}")
    raise _errors.LibraryNotFoundError(
        "libhipvmm.so was not found; set HIPVMM_LIBRARY to its path, or install it in a folder of "
        "the loader (LD_LIBRARY_PATH, ldconfig). A build of hipvmm makes it with "
        "-DBUILD_SHARED_LIBS=ON only, because the default is a static library. Places searched:\n"
        + "\n".join(tried))


class _Library:
    """The loaded library: a function of C as an attribute, which raises if it fails."""

    def __init__(self) -> None:
        self.loaded, self.path = _load()
        for name in ("hipvmm_version", "hipvmm_version_text", "hipvmm_last_error"):
            if not hasattr(self.loaded, name):
                raise _errors.LibraryNotFoundError(
                    f"{self.path} has no {name}: it is no libhipvmm with a C interface")
        self.loaded.hipvmm_version_text.restype = c_char_p
        self.loaded.hipvmm_last_error.restype = c_char_p
        self.loaded.hipvmm_last_failure.argtypes = [POINTER(Failure)]
        allocate = self.loaded.hipvmm_device_allocate_sync
        allocate.argtypes, allocate.restype = [c_size_t, c_int], c_void_p
        self.loaded.hipvmm_device_deallocate_sync.argtypes = [c_void_p]
        self.loaded.hipvmm_device_deallocate_sync.restype = None
        self.version: str = self.loaded.hipvmm_version_text().decode()
        self.c_version: int = self.loaded.hipvmm_version()
        if self.c_version < NEEDED_C_VERSION:
            raise _errors.LibraryNotFoundError(
                f"{self.path} is hipvmm {self.version}, whose C interface is of version "
                f"{self.c_version}; this package needs {NEEDED_C_VERSION} or newer")

    def __getattr__(self, name: str) -> Callable[..., None]:
        try:
            signature = FUNCTIONS[name]
        except KeyError:
            raise AttributeError(name) from None
        function = getattr(self.loaded, "hipvmm_" + name)
        function.argtypes = parameter_types(signature)
        function.restype = c_int
        ranges = _number_ranges(name, signature)

        def call(*values: Any) -> None:
            args = list(values)
            for index, *range_of in ranges:
                args[index] = in_range(args[index], *range_of)
            # A callback may call functions itself: each call gets its own callbacks' exceptions.
            outer = take_callback_error()
            try:
                status = function(*args)
            finally:
                raised = take_callback_error()
                if outer is not None:
                    keep_callback_error(outer)
            if status != 0:
                self.throw(status, raised)
            if raised is not None:
                report_callback_error(raised)

        call.__name__ = name
        setattr(self, name, call)
        return call

    def throw_last(self) -> None:
        """Raises the same if a function has no status to return."""
        details = Failure(struct_size=ctypes.sizeof(Failure))
        self.loaded.hipvmm_last_failure(ctypes.byref(details))
        self.throw(details.status, take_callback_error())

    def throw(self, status: int, raised: Optional[BaseException] = None) -> None:
        """Raises the exception of this thread's last failure, or that of a callback."""
        text = self.loaded.hipvmm_last_error().decode(errors="replace")
        # The caller knows neither the function of C that failed nor another by its name in C.
        text = re.sub(r"^hipvmm_\w+: ", "", text).replace("hipvmm_resume", "hipvmm.resume()")
        details = Failure(struct_size=ctypes.sizeof(Failure))
        self.loaded.hipvmm_last_failure(ctypes.byref(details))
        error = _STATUS_ERRORS.get(status, _errors.InternalError)(text)
        if isinstance(error, _errors.OutOfMemoryError):
            error.exhausted = _EXHAUSTED[details.exhausted]
            error.device = details.device
            error.bytes_requested = details.bytes_requested
            error.bytes_free = details.bytes_free
        elif isinstance(error, _errors.HipError):
            error.code = details.hip_code
        if raised is not None:
            raise raised from error
        raise error


_lock = threading.Lock()
_library: Optional[_Library] = None


def lib() -> Any:
    """The library, which is loaded by the first call. Raises LibraryNotFoundError."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _Library()
    return _library


# An exception of a callback cannot pass through C: it waits here for the call to come back.
_of_thread = threading.local()


def keep_callback_error(error: BaseException) -> None:
    """Keeps the exception of a callback, for the call in the same thread."""
    _of_thread.error = error


def take_callback_error() -> Optional[BaseException]:
    """The exception of a callback of this thread since the last call, if any."""
    error = getattr(_of_thread, "error", None)
    _of_thread.error = None
    return error


class _Reported:
    """Raises an exception at its end, where Python gives it to sys.unraisablehook."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def report_callback_error(error: Optional[BaseException]) -> None:
    """Reports what a callback raised though its call has succeeded; raises an interrupt."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    # Without memory other memory was had, as a resource may well do.
    if error is not None and not isinstance(error, MemoryError):
        _Reported(error)


def get_size(function: Callable[..., None], *args: Any) -> int:
    """Calls a function whose last parameter is a size_t*."""
    value = c_size_t()
    function(*args, ctypes.byref(value))
    return value.value


def get_int(function: Callable[..., None], *args: Any) -> int:
    """Calls a function whose last parameter is an int*."""
    value = c_int()
    function(*args, ctypes.byref(value))
    return value.value


def get_address(function: Callable[..., None], *args: Any) -> int:
    """Calls a function whose last parameter is a void**, or a handle that is written."""
    value = c_void_p()
    function(*args, ctypes.byref(value))
    return value.value or 0


def get_struct(kind: Any, function: Callable[..., None], *args: Any) -> Any:
    """Calls a function whose last parameter is a structure that begins with its size."""
    now = kind(struct_size=ctypes.sizeof(kind))
    function(*args, ctypes.byref(now))
    return now


def get_text(function: Callable[..., None], *args: Any) -> str:
    """Calls a function that copies a text, which may grow from one call to the next."""
    length = c_size_t()
    function(*args, None, 0, ctypes.byref(length))
    while True:
        room = length.value + 64
        text = ctypes.create_string_buffer(room)
        try:
            function(*args, text, room, ctypes.byref(length))
        except _errors.HipvmmError:
            if length.value < room:
                raise
            continue
        return text.raw[:length.value].decode(errors="replace")


def text_bytes(name: str, text: Any) -> bytes:
    """A text or path as the library takes it."""
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        raise _errors.InvalidArgumentError(f"{name} {text!r} cannot be encoded") from None
    if b"\0" in encoded:
        raise _errors.InvalidArgumentError(f"{name} {text!r} has a zero in it")
    return encoded


def path_bytes(path: Any) -> bytes:
    """A path as the library takes it."""
    return text_bytes("the path", path)


def milliseconds(seconds: float) -> int:
    """A timeout as the library takes it. Infinity is as long as it can wait, 49 days."""
    if not seconds >= 0:
        raise _errors.InvalidArgumentError(f"the timeout is {seconds}, and must be 0 or more")
    return int(min(seconds * 1000, _RANGES["u"][1]))


_SLICE = 0.1  # seconds that the interpreter handles no signal


def wait_in_slices(seconds: float, wait: Callable[[int], Any], is_vain: Callable[[], bool]) -> Any:
    """Calls `wait(milliseconds)` until it has a result, or so long, or further calls are vain."""
    milliseconds(seconds)  # raises
    end = time.monotonic() + seconds
    while True:
        left = max(0.0, end - time.monotonic())
        found = wait(milliseconds(min(left, _SLICE)))
        if found or left <= _SLICE or is_vain():
            return found


def option_milliseconds(name: str, seconds: Optional[float]) -> Optional[int]:
    """A time as options have it. Infinity is the longest, a day."""
    most = 86400
    if seconds is None:
        return None
    if seconds == float("inf"):
        seconds = most
    if not 0 <= seconds <= most:
        raise _errors.InvalidArgumentError(
            f"{name} is {seconds} seconds, and must be from 0 to {most}, or infinity for the most")
    return int(seconds * 1000)


def options_text(options: Dict[str, Any]) -> Optional[bytes]:
    """Options as the library takes them. None is left out; True and False are on and off."""
    parts = []
    for name, value in options.items():
        if value is None:
            continue
        if value is True or value is False:
            value = "on" if value else "off"
        if isinstance(value, (bytes, os.PathLike)):
            value = os.fsdecode(value)
        if any(each in str(value) for each in ",\0"):
            raise _errors.InvalidArgumentError(f"the value of {name} has a comma or a zero in it")
        # The library leaves these spaces out, which makes another name of a name.
        if name in ("folder", "sleep_tag", "tag") and str(value) != str(value).strip(" \t\n"):
            raise _errors.InvalidArgumentError(
                f"{name} is {str(value)!r}, and must neither begin nor end with a space")
        parts.append(f"{name}={value}")
    return text_bytes("the options", ",".join(parts)) if parts else None


def not_zero(name: str, size: Any, default: str) -> None:
    """Refuses 0 as a size, which the library takes as the default."""
    if re.fullmatch(r"[\s.]*0[0.]*\s*(%|[a-zA-Z]*)\s*", str(size)):
        raise _errors.InvalidArgumentError(f"{name} is {size}: leave it out for {default}")


def access_array(rights: Dict[int, str]) -> Tuple[Any, int]:
    """Rights by device as an array of hipvmm_access, and its length."""
    if not hasattr(rights, "items"):
        raise TypeError(f"rights are {type(rights).__name__}, and must be a dict such as "
                        '{1: "read"}')
    entries = (Access * len(rights))()
    for entry, (device, right) in zip(entries, rights.items()):
        entry.device = in_range(device, "device", *_RANGES["i"])
        entry.right = right_value(right)
    return entries, len(rights)


_RIGHTS = ("none", "read", "read_write")


def right_value(right: str) -> int:
    """The hipvmm_right of a name."""
    if right not in _RIGHTS:
        raise _errors.InvalidArgumentError(
            f"the right is {right!r}; allowed: none, read, read_write")
    return _RIGHTS.index(right)


def right_name(right: int) -> str:
    """The name of a hipvmm_right."""
    return _RIGHTS[right]
