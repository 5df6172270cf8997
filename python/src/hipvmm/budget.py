# SPDX-License-Identifier: MIT
"""MemoryBudget: a cap on device memory that processes of one user share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Optional

from ._errors import InvalidArgumentError
from ._handle import HeldHandle, Owner, callback_of
from ._library import BudgetHolder as _CBudgetHolder
from ._library import BudgetStatistics as _CBudgetStatistics
from ._library import IdleStatistics as _CIdleStatistics
from ._library import (
    TrimCallback,
    get_address,
    get_int,
    get_size,
    get_struct,
    lib,
    option_milliseconds,
    options_text,
    text_bytes,
)
from .device import device_or_current
from .mr import Size

__all__ = ["BudgetHolder", "BudgetStatistics", "IdleStatistics", "MemoryBudget", "idle_statistics"]


@dataclass(frozen=True)
class BudgetStatistics:
    """A budget at one moment, in bytes: its limit, and the memory of all processes and of this one.

    holders: how many processes take part. `bytes` may exceed a limit that was set later.
    """

    limit: int
    bytes: int
    own_bytes: int
    holders: int


@dataclass(frozen=True)
class BudgetHolder:
    """A process that takes part in a budget: its ID and name, held and requested bytes."""

    process: int
    program: str
    priority: int
    bytes: int
    waiting_for: int


@dataclass(frozen=True)
class IdleStatistics:
    """Requests that lacked memory and asked this process's other objects for what is idle.

    asked, of these refused: counts; moved_bytes: got as they were; released_bytes: released to the
    device; seconds: of all together.
    """

    asked: int
    refused: int
    moved_bytes: int
    released_bytes: int
    seconds: float


def idle_statistics() -> IdleStatistics:
    """The counts of this process."""
    now = get_struct(_CIdleStatistics, lib().idle_get_statistics)
    return IdleStatistics(now.asked, now.refused, now.moved_bytes, now.released_bytes,
                          now.nanoseconds * 1e-9)


class MemoryBudget(Owner):
    """Takes part in a cap on the device memory that processes of one user hold together.

    >>> budget = hipvmm.MemoryBudget("infer", "40GiB", trim=lambda nbytes: cache.evict(nbytes))

    While it lives, all memory that arrays, pools, slot arenas and KV caches of this process take
    from the device counts. If a request exceeds the limit, other processes trim; if it still does
    not fit, it raises OutOfMemoryError with exhausted "budget". No process is killed. Hold the
    object: the process leaves with it, by close(), or when it ends.

    name: letters, digits, ".", "_" and "-"; processes that use it on a device share the cap.
    limit: bytes, or text such as "40GiB" or "80%"; all memory of the device by default. It counts
        for the first process, unless one was set from outside (hipvmm-ctl limit).
    device: by default the current one. A process has one budget of a device.
    priority: from -1000 to 1000. Lower ones are asked to trim first, and higher ones never.
    patience: seconds that a request waits for other processes at most, 1 by default.
    trim: called as trim(nbytes) if others need so much more than this process could release by
        itself. A thread of the library calls it, not while this process waits for memory itself:
        it must not need a lock that a thread holds which asks for memory. It releases memory and
        does not use budgets, which raises InvalidArgumentError in it. Its exceptions go to
        sys.unraisablehook.

    Raises InvalidArgumentError, and UnsupportedError for a device without virtual memory.
    """

    _destroy_function = "budget_leave"

    def __init__(self, name: str, limit: Optional[Size] = None, *, device: Optional[int] = None,
                 priority: int = 0, patience: Optional[float] = None,
                 trim: Optional[Callable[[int], None]] = None) -> None:
        if trim is not None and not callable(trim):
            raise InvalidArgumentError("trim must be a function")
        self._name, self._device = name, device_or_current(device)
        text = options_text({
            "limit": limit, "priority": priority,
            "patience": option_milliseconds("patience", patience)})
        function = trim  # without a circle by `self`
        callback = TrimCallback() if function is None else callback_of(
            TrimCallback, lambda nbytes, _: function(nbytes))
        handle = get_address(lib().budget_join, self._device, text_bytes("the name", name), text,
                             callback, None)
        self._held = HeldHandle(self._destroy_function, handle, callback)

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def device(self) -> int:
        """The device of the memory."""
        return self._device

    def __repr__(self) -> str:
        if self.closed:
            return "MemoryBudget(closed)"
        return f"MemoryBudget({self._name!r}, device={self._device})"

    def _call(self, function: Callable[..., Any], *args: Any) -> None:
        # A close() meanwhile does not end it: leaving does not wait for this call, and so the
        # callback would end while it may still be called.
        held = self._hold()
        try:
            function(held.value, *args)
        finally:
            del held  # which a traceback would keep

    def set_limit(self, nbytes: int) -> None:
        """Sets the limit for all processes, now and later. Those that hold more are asked to trim."""
        self._call(lib().budget_set_limit, nbytes)

    def make_room(self, nbytes: int) -> bool:
        """Has others trim ahead of a request. Returns whether so many bytes fit now.

        Waits as long as a request would. Another process may take the memory first.
        """
        return bool(get_int(self._call, lib().budget_make_room, nbytes))

    def statistics(self) -> BudgetStatistics:
        """The limit, and the held bytes."""
        now = get_struct(_CBudgetStatistics, self._call, lib().budget_get_statistics)
        return BudgetStatistics(now.limit, now.bytes, now.own_bytes, now.holders)

    def holders(self) -> List[BudgetHolder]:
        """The processes that take part, those that hold most first."""
        found: Any = (_CBudgetHolder * 128)()  # as many as can
        count = get_size(self._call, lib().budget_get_holders, found, len(found))
        return [BudgetHolder(each.process, each.program.decode(errors="replace"), each.priority,
                             each.bytes, each.waiting_for) for each in found[:count]]
