# SPDX-License-Identifier: MIT
"""Memory that sleeps: its device gets it back, its addresses stay, and it wakes there."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Iterable, Tuple

from ._errors import InvalidArgumentError
from ._host import device_source
from ._library import SuspendRange
from ._library import TagStatistics as _CTagStatistics
from ._library import get_size, get_struct, lib, options_text, text_bytes
from .device import stream_value
from .growable import GrowableArray

__all__ = ["TagStatistics", "prepare_suspend", "resume", "suspend", "tag_statistics"]

_KEEPS = ("contents", "nothing", "zeros", "mapped")


@dataclass(frozen=True)
class TagStatistics:
    """The state of a tag's memory, all objects together; sizes are in bytes."""

    objects: int
    bytes_asleep: int
    bytes_on_host: int
    bytes_on_disk: int
    is_asleep: bool
    bytes_mapped: int


def suspend(tag: str, keep: str = "contents", *, storage: str = "pinned",
            folder: Any = None, stream: Any = None, contents: Iterable[Any] = (),
            nothing: Iterable[Any] = (), zeros: Iterable[Any] = (),
            mapped: Iterable[Any] = ()) -> int:
    """Releases all memory of a tag to the devices, keeps its addresses, and returns the bytes.

    >>> weights = hipvmm.GrowableArray("float16", sleep_tag="weights")
    >>> hipvmm.suspend("weights")
    >>> hipvmm.resume("weights")

    tag: the name that objects were made with, by their option sleep_tag.
    keep: "contents", which go to the host and come back by resume(), or "nothing"; "zeros" are
        dropped, and zero after resume(); "mapped" chunks stay, and work may use them meanwhile.
    storage: "pinned" memory of the host, "pinned_kept", which is kept for the next time, or
        "pageable", or "file", in `folder` of a local disk.
    stream: all work that uses the memory is ordered before the call in it, and it alone is waited
        for. Without one, all work of every device with access is.
    contents, nothing, zeros, mapped: memory of the tag for which this is done in place of `keep`:
        arrays of a device, of a GrowableArray its whole capacity, or pairs of an address and bytes.
        An array without memory names none.
        No byte is in two of them. A chunk stays only if all its bytes are to be mapped.

    Until resume(), calls that need the memory raise InvalidStateError, and work of devices that uses
    the addresses fails. 0 if the tag sleeps already. After a failure all is awake. Raises
    InvalidArgumentError for a name without objects, and the exceptions of suspend() in C++.
    """
    options = options_text({"storage": storage, "folder": folder})
    plan = _plan(tag, keep, contents, nothing, zeros, mapped)
    in_stream = None if stream is None else ctypes.byref(ctypes.c_void_p(stream_value(stream)))
    return get_size(lib().suspend_ranges, *plan, options, in_stream)


def prepare_suspend(tag: str, keep: str = "contents", *, contents: Iterable[Any] = (),
                    nothing: Iterable[Any] = (), zeros: Iterable[Any] = (),
                    mapped: Iterable[Any] = ()) -> int:
    """Makes and pins the memory of the host that suspend() with the same arguments would.

    suspend(storage="pinned") and "pinned_kept" then have only to copy, and to make the rest for
    memory that is backed in between. Returns the bytes that are there then, which
    tag_statistics(tag).bytes_on_host counts; keep="nothing" frees all. After a failure there is as
    much as before. Raises InvalidStateError while the tag sleeps.
    """
    return get_size(lib().prepare_suspend, *_plan(tag, keep, contents, nothing, zeros, mapped))


def _plan(tag: str, keep: str, *treated: Iterable[Any]) -> Tuple[Any, ...]:
    """The first arguments of both; `treated` are in the order of _KEEPS."""
    require_keep(keep)
    ranges = [SuspendRange(*_range(each), what)
              for what, parts in enumerate(treated) for each in parts
              if isinstance(each, tuple) or _range(each)[1] != 0]
    return (tag_bytes(tag), _KEEPS.index(keep), (SuspendRange * len(ranges))(*ranges), len(ranges))


def require_keep(keep: str) -> None:
    """Raises InvalidArgumentError if suspend() has no such way."""
    if keep not in _KEEPS:
        raise InvalidArgumentError(f"keep is {keep!r}; allowed: {', '.join(_KEEPS)}")


def _range(part: Any) -> Tuple[int, int]:
    """Address and bytes of memory of a device."""
    if isinstance(part, tuple):
        address, nbytes = part
        return address, nbytes
    if isinstance(part, GrowableArray):
        return part.ptr, get_size(lib().buffer_capacity, part.handle)
    return device_source(part)[:2]


def resume(tag: str) -> int:
    """Backs all memory of a tag again, at the same addresses, and copies kept contents back.

    Returns the bytes; 0 if the tag is awake. After a failure, such as OutOfMemoryError, all is
    asleep and nothing is lost: call it again.
    """
    return get_size(lib().resume, tag_bytes(tag))


def tag_statistics(tag: str) -> TagStatistics:
    """The present state of a tag's memory."""
    now = get_struct(_CTagStatistics, lib().tag_get_statistics, tag_bytes(tag))
    return TagStatistics(now.objects, now.bytes_asleep, now.bytes_on_host, now.bytes_on_disk,
                         bool(now.is_asleep), now.bytes_mapped)


def tag_bytes(tag: str) -> bytes:
    """A tag as the library takes it."""
    return text_bytes("the tag", tag)
