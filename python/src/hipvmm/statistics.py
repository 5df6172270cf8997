# SPDX-License-Identifier: MIT
"""Statistics of the current device's resource, by the names of rmm.statistics."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional

from .mr import (
    Statistics,
    StatisticsResourceAdaptor,
    get_current_device_resource,
    set_current_device_resource,
)

__all__ = [
    "Statistics",
    "enable_statistics",
    "get_statistics",
    "pop_statistics",
    "push_statistics",
    "statistics",
]


def enable_statistics() -> None:
    """Counts what the current device's resource allocates from now on. A second call does
    nothing."""
    used = get_current_device_resource()
    if not isinstance(used, StatisticsResourceAdaptor):
        set_current_device_resource(StatisticsResourceAdaptor(used))


def get_statistics() -> Optional[Statistics]:
    """The counters of the innermost level; None where nothing is counted."""
    used = get_current_device_resource()
    return used.allocation_counts if isinstance(used, StatisticsResourceAdaptor) else None


def push_statistics() -> Optional[Statistics]:
    """Begins a level, and returns the counters of the one around it; None where nothing is
    counted."""
    used = get_current_device_resource()
    return used.push_counters() if isinstance(used, StatisticsResourceAdaptor) else None


def pop_statistics() -> Optional[Statistics]:
    """Ends the level and returns its counters; None where nothing is counted."""
    used = get_current_device_resource()
    return used.pop_counters() if isinstance(used, StatisticsResourceAdaptor) else None


@contextlib.contextmanager
def statistics() -> Iterator[None]:
    """Counts within a with statement, and as before behind it.

    A resource that is set in between stays set.
    """
    before = get_current_device_resource()
    enable_statistics()
    during = get_current_device_resource()
    push_statistics()
    try:
        yield
    finally:
        now = get_current_device_resource()
        if now is during:
            pop_statistics()
            if during is not before:
                set_current_device_resource(before)
