# SPDX-License-Identifier: MIT
"""Memory that sleeps: its device gets it back, its addresses stay, and it wakes there."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any

from ._errors import InvalidArgumentError
from ._library import TagStatistics as _CTagStatistics
from ._library import get_size, lib, options_text
from .device import stream_value

__all__ = ["TagStatistics", "resume", "suspend", "tag_statistics"]

_KEEPS = ("contents", "nothing")


@dataclass(frozen=True)
class TagStatistics:
    """What a tag's memory is like, all objects together; sizes are in bytes."""

    objects: int
    bytes_asleep: int
    bytes_on_host: int
    bytes_on_disk: int
    is_asleep: bool


def suspend(tag: str, keep: str = "contents", *, storage: str = "pinned",
            folder: Any = None, stream: Any = None) -> int:
    """Releases all memory of a tag to the devices, keeps its addresses, and returns the bytes.

    >>> weights = hipvmm.GrowableArray("float16", sleep_tag="weights")
    >>> hipvmm.suspend("weights")
    >>> hipvmm.resume("weights")

    tag: the name that objects were made with, by their option sleep_tag.
    keep: "contents", which go to the host and come back by resume(), or "nothing".
    storage: "pinned" memory of the host, "pinned_kept", which is kept for the next time, or
        "pageable", or "file", in `folder` of a local disk.
    stream: all work that uses the memory is ordered before the call in it, and it alone is waited
        for. Without one, all work of every device with access is.

    Until resume(), what needs the memory raises InvalidStateError, and work of devices that uses
    the addresses fails. 0 where the tag sleeps already. After a failure all is awake. Raises
    InvalidArgumentError for a name that nothing was made with, and what suspend() in C++ throws.
    """
    if keep not in _KEEPS:
        raise InvalidArgumentError(f"keep is {keep!r}; allowed: contents, nothing")
    options = options_text({"storage": storage, "folder": None if folder is None else os.fspath(folder)})
    name = tag_bytes(tag)
    if stream is None:
        return get_size(lib().suspend, name, _KEEPS.index(keep), options)
    return get_size(lib().suspend_in_stream, name, _KEEPS.index(keep), options,
                    stream_value(stream))


def resume(tag: str) -> int:
    """Backs all memory of a tag again, at the same addresses, and copies kept contents back.

    Returns the bytes; 0 where the tag is awake. After a failure, such as OutOfMemoryError, all is
    asleep and nothing is lost: call it again.
    """
    return get_size(lib().resume, tag_bytes(tag))


def tag_statistics(tag: str) -> TagStatistics:
    """What the memory of a tag is like now."""
    now = _CTagStatistics(struct_size=ctypes.sizeof(_CTagStatistics))
    lib().tag_get_statistics(tag_bytes(tag), ctypes.byref(now))
    return TagStatistics(now.objects, now.bytes_asleep, now.bytes_on_host, now.bytes_on_disk,
                         bool(now.is_asleep))


def tag_bytes(tag: str) -> bytes:
    """A tag as the library takes it."""
    if "\0" in tag:
        raise InvalidArgumentError(f"the tag {tag!r} has a zero in it")
    return tag.encode()
