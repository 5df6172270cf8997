# SPDX-License-Identifier: MIT
"""Statistics of the current device's resource, by the names of rmm.statistics."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from typing import Any, Callable, Dict, Iterator, List, Optional

from ._errors import InvalidArgumentError
from .device import current_device
from .mr import (
    Statistics,
    StatisticsResourceAdaptor,
    get_current_device_resource,
    get_per_device_resource,
    set_current_device_resource,
    set_per_device_resource,
)

__all__ = [
    "ProfilerRecords",
    "Statistics",
    "default_profiler_records",
    "enable_statistics",
    "get_statistics",
    "pop_statistics",
    "profiler",
    "push_statistics",
    "statistics",
]


def enable_statistics() -> None:
    """Counts the allocations of the current device's resource from now on. A second call does
    nothing."""
    used = get_current_device_resource()
    if not isinstance(used, StatisticsResourceAdaptor):
        set_current_device_resource(StatisticsResourceAdaptor(used))


def _counting() -> Optional[StatisticsResourceAdaptor]:
    used = get_current_device_resource()
    return used if isinstance(used, StatisticsResourceAdaptor) else None


def get_statistics() -> Optional[Statistics]:
    """The counters of the innermost level; None without enable_statistics()."""
    used = _counting()
    return used and used.allocation_counts


def push_statistics() -> Optional[Statistics]:
    """Begins a level, and returns the counters of the one around it; None without
    enable_statistics()."""
    used = _counting()
    return used and used.push_counters()


def pop_statistics() -> Optional[Statistics]:
    """Ends the level and returns its counters; None without enable_statistics()."""
    used = _counting()
    return used and used.pop_counters()


@contextlib.contextmanager
def statistics() -> Iterator[None]:
    """Counts within a with statement, and as before behind it.

    A resource that is set in between stays set.
    """
    device = current_device()  # another one may be current at the end
    before = get_per_device_resource(device)
    enable_statistics()
    during = get_per_device_resource(device)
    during.push_counters()
    try:
        yield
    finally:
        if get_per_device_resource(device) is during:
            during.pop_counters()
            if during is not before:
                set_per_device_resource(device, before)


class ProfilerRecords:
    """The counts of profiler(), by name."""

    @dataclasses.dataclass
    class MemoryRecord:
        """The calls of one name: how many, the sum of their bytes, the highest peak of one."""

        num_calls: int = 0
        memory_total: int = 0
        memory_peak: int = 0

        def add(self, memory_total: int, memory_peak: int) -> None:
            self.num_calls += 1
            self.memory_total += memory_total
            self.memory_peak = max(self.memory_peak, memory_peak)

    def __init__(self) -> None:
        self._records: Dict[str, ProfilerRecords.MemoryRecord] = {}

    def add(self, name: str, data: Statistics) -> None:
        """Adds one call."""
        record = self._records.setdefault(name, ProfilerRecords.MemoryRecord())
        record.add(memory_total=data.total_bytes, memory_peak=data.peak_bytes)

    @property
    def records(self) -> Dict[str, ProfilerRecords.MemoryRecord]:
        """A copy of the dictionary."""
        return dict(self._records)

    def report(self, *, ordered_by: str = "memory_peak") -> str:
        """A table, the largest first by "num_calls", "memory_peak" or "memory_total"."""
        if ordered_by not in ("num_calls", "memory_peak", "memory_total"):
            raise InvalidArgumentError(
                f"ordered_by={ordered_by!r}: use num_calls, memory_peak or memory_total")
        lines = [
            "Memory Profiling",
            "================",
            "",
            "Legends:",
            "  ncalls       - number of times the function or code block was called",
            "  memory_peak  - peak memory allocated in function or code block (in bytes)",
            "  memory_total - total memory allocated in function or code block (in bytes)",
            "",
            f"Ordered by: {ordered_by}",
            "",
            "ncalls     memory_peak    memory_total  filename:lineno(function)",
        ]
        for name, record in sorted(self._records.items(), reverse=True,
                                   key=lambda each: int(getattr(each[1], ordered_by))):
            lines.append(f"{record.num_calls:6,d} {record.memory_peak:15,d} "
                         f"{record.memory_total:15,d}  {name}")
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return f"ProfilerRecords({self._records})"


default_profiler_records = ProfilerRecords()


def _name_of(function: Callable[..., Any]) -> str:
    inner = inspect.unwrap(function)
    try:
        file, line = inspect.getsourcefile(inner), inspect.getsourcelines(inner)[1]
    except (OSError, TypeError):
        return getattr(inner, "__qualname__", repr(inner))
    return f"{file}:{line}({inner.__qualname__})"


class _Profiler(contextlib.AbstractContextManager):  # type: ignore[type-arg]
    def __init__(self, records: ProfilerRecords, name: str) -> None:
        self._records = records
        self._name = name
        # The resources that count, of with statements that are open.
        self._counting: List[Optional[StatisticsResourceAdaptor]] = []

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        name = self._name or _name_of(function)

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            with _Profiler(self._records, name):
                return function(*args, **kwargs)

        return counted

    def __enter__(self) -> None:
        if not self._name:
            raise InvalidArgumentError("profiler() in a with statement needs a name")
        counts = _counting()
        if counts is not None:
            counts.push_counters()
        self._counting.append(counts)

    def __exit__(self, *error: Any) -> None:
        counts = self._counting.pop()
        if counts is not None:
            self._records.add(self._name, counts.pop_counters())


def profiler(*, records: ProfilerRecords = default_profiler_records, name: str = "") -> _Profiler:
    """Counts the memory of each call of a function, as a decorator, or of a with statement.

    Records nothing without enable_statistics(): call that first. A function without a
    name here is named by its file and line.
    """
    return _Profiler(records, name)
