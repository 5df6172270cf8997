# SPDX-License-Identifier: MIT
"""MemoryPressure: watermarks of the device memory that this process can get."""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Union

from ._errors import InvalidArgumentError, InvalidHandleError
from ._handle import HeldHandle, Owner, callback_of
from ._library import MemoryChange as _CMemoryChange
from ._library import (
    PressureCallback,
    get_address,
    get_int,
    get_size,
    get_struct,
    lib,
    option_milliseconds,
    options_text,
    wait_in_slices,
)
from ._library import PressureNote as _CPressureNote
from .device import device_or_current
from .mr import Size

__all__ = ["MemoryChange", "MemoryPressure", "PressureNote"]

_ended_within: List[Any] = []  # callbacks that closed their own subscription
_LEVELS = ("none", "low", "high", "critical")
_BOUNDS = {1: "device_memory", 5: "limit", 6: "budget"}
_KINDS = ("", "grow", "trim", "out_of_memory")
_HOLDERS = ("chunks", "region", "pool", "buffer")


@dataclass(frozen=True)
class MemoryChange:
    """A change of the memory that this process has of a device.

    kind: "grow", "trim" or "out_of_memory". holder: "pool", "buffer", "region" (also of slots and
    caches), or "chunks" if no object has reported it; object: its number in the process. seconds:
    of time.monotonic().
    """

    kind: str
    holder: str
    object: int
    bytes: int
    stream: int
    thread: int
    seconds: float


@dataclass(frozen=True)
class PressureNote:
    """How scarce memory is, or was when a mark was passed, in bytes.

    level, previous: "none", "low", "high" or "critical". bound: "device_memory", "budget" or
    "limit", whose total and free bytes follow. held_bytes: chunks of this process; idle_bytes: of
    these, what would be released for a request, at most; largest_request: that would fit then.
    reason: the last change by this process, None if others changed the memory.
    """

    device: int
    level: str
    previous: str
    bound: str
    total_bytes: int
    free_bytes: int
    held_bytes: int
    idle_bytes: int
    largest_request: int
    reason: Optional[MemoryChange]


def _change(of: Any) -> MemoryChange:
    return MemoryChange(_KINDS[of.kind], _HOLDERS[of.holder], of.object, of.bytes, of.stream or 0,
                        of.thread, of.nanoseconds * 1e-9)


def _note(of: Any) -> PressureNote:
    return PressureNote(of.device, _LEVELS[of.level], _LEVELS[of.previous],
                        _BOUNDS[of.bound], of.total_bytes, of.free_bytes, of.held_bytes,
                        of.idle_bytes, of.largest_request,
                        _change(of.reason) if of.reason.kind else None)


class MemoryPressure(Owner):
    """Reports when the device memory that this process can get passes a mark, in either direction.

    >>> pressure = hipvmm.MemoryPressure(lambda note: cache.evict(note), high="10%", low="4GiB")

    Hold the object: it ends with it, by close(), or at the end of a with statement.

    callback: called as callback(note). It may allocate, free, trim, suspend, and close the object.
        Its exceptions go to sys.unraisablehook. Without one, wait() and try_next() have the notes.
    low, high, critical: a level begins when no more than this is free: bytes, or text such as
        "4GiB" or "10%". 25 %, 10 % and 3 % by default.
    hysteresis: a level ends when more is free than its mark and this: text such as "2%".
    limit: bytes that this process intends to hold at most. It refuses nothing.
    device_memory: whether free memory of the device counts, beside a budget and the limit.
    interval: seconds between looks at memory that others use; none by default.
    delivery: "library_thread", or "requesting_thread": the one whose request passed the mark.

    Raises InvalidArgumentError, and UnsupportedError in a child of fork().
    """

    _destroy_function = "pressure_end"

    def __init__(self, callback: Optional[Callable[[PressureNote], Any]] = None, *,
                 device: Optional[int] = None, low: Optional[Size] = None,
                 high: Optional[Size] = None, critical: Optional[Size] = None,
                 hysteresis: Optional[str] = None, limit: Optional[Size] = None,
                 device_memory: bool = True, interval: Optional[float] = None,
                 delivery: Optional[str] = None) -> None:
        if callback is not None and not callable(callback):
            raise InvalidArgumentError("callback must be a function")
        self._device = device_or_current(device)
        text = options_text({
            "low": low, "high": high, "critical": critical, "hysteresis": hysteresis,
            "limit": limit, "device_memory": "on" if device_memory else "off",
            "interval": option_milliseconds("interval", interval),
            "delivery": delivery})
        function = callback  # without a circle by `self`
        owner: List[Any] = []

        def call(note: Any, _: Any) -> None:
            nonlocal function
            try:
                function(_note(note.contents))  # type: ignore[misc]
            finally:
                held = owner[0]() if owner else None
                if owner and (held is None or not held.alive):
                    function = None
                    _ended_within.append(called)  # C returns through it

        called = PressureCallback() if function is None else callback_of(
            PressureCallback, call)
        handle = get_address(lib().pressure_subscribe, self._device, text, called, None)
        self._held = HeldHandle(self._destroy_function, handle, called)
        owner.append(weakref.ref(self._held))

    @property
    def device(self) -> int:
        """The device of the memory."""
        return self._device

    def __repr__(self) -> str:
        return f"MemoryPressure({'closed' if self.closed else f'device={self._device}'})"

    def close(self) -> None:
        """Ends it: no call of the callback begins any more, and wait() in other threads returns.

        Waits for a call of the callback in another thread.
        """
        held, self._held = self._held, None
        if held is not None:
            held.end()

    def now(self) -> PressureNote:
        """Measures, and returns what holds now."""
        note = get_struct(_CPressureNote, lib().pressure_now, self._hold().value)
        return _note(note)

    def try_next(self) -> Optional[PressureNote]:
        """The oldest note that was not taken, or None."""
        return self.wait(0)

    def wait(self, timeout: Union[int, float]) -> Optional[PressureNote]:
        """Waits so many seconds for a note, or until close(). Returns None without one."""
        note = _CPressureNote(struct_size=ctypes.sizeof(_CPressureNote))
        held = self._hold()

        def wait(part: int) -> Optional[PressureNote]:
            try:
                came = get_int(lib().pressure_wait, held.value, part, ctypes.byref(note))
                return _note(note) if came else None
            except InvalidHandleError:
                if held.alive:
                    raise
                return None

        return wait_in_slices(timeout, wait, lambda: not held.alive)

    def reasons(self) -> List[MemoryChange]:
        """The last changes of the device's memory, the newest first: of 64 of all devices."""
        found: Any = (_CMemoryChange * 64)()
        count = get_size(lambda *args: lib().pressure_get_reasons(
            self._hold().value, found, len(found), *args))
        return [_change(each) for each in found[:count]]
