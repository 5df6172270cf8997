# SPDX-License-Identifier: MIT
"""Devices by their ordinals, and streams."""

from __future__ import annotations

import contextlib
import ctypes
import operator
from typing import Any, Iterator, List, NamedTuple, Optional

from ._errors import HipError, InvalidArgumentError
from ._handle import Owner
from ._library import ADDRESSES, get_address, get_int, get_text, in_range, lib

__all__ = [
    "DEFAULT_STREAM",
    "DeviceMemory",
    "Event",
    "Stream",
    "can_access_peer",
    "capability",
    "current_device",
    "device_count",
    "device_memory",
    "device_name",
    "device_uuid",
    "drain_retired_memory",
    "is_host_accessible",
    "provider",
    "synchronize",
]


class DeviceMemory(NamedTuple):
    """Memory of a device in bytes."""

    free: int
    total: int


def _text(function: str) -> str:
    value = ctypes.c_char_p()
    getattr(lib(), function)(ctypes.byref(value))
    return (value.value or b"").decode()


def provider() -> str:
    """The HIP that the library runs on: "amd", "cuda", or "host" without a GPU."""
    return _text("provider")


def device_count() -> int:
    """The number of devices; 0 when there is none."""
    return get_int(lib().device_count)


def current_device() -> int:
    """The current device of the calling thread."""
    return get_int(lib().device_current)


@contextlib.contextmanager
def current(device: int) -> Iterator[None]:
    """Makes a device current within a with statement."""
    before = current_device()
    lib().device_make_current(device)
    try:
        yield
    finally:
        lib().device_make_current(before)


def device_or_current(device: Optional[int]) -> int:
    """A device that may be left out: the current one. Raises TypeError for a text or a fraction."""
    if device is None:
        return current_device()
    if not hasattr(device, "__index__"):
        raise TypeError(f"{device!r} is no number of a device, such as 0")
    return operator.index(device)


def ordinal_in_torch(device: Any) -> int:
    """The number of a device as PyTorch names it: None, a number, "cuda:1", a torch.device.

    None and "cuda" are PyTorch's current one; with the host provider, whose memory is the CPU's for
    PyTorch, None and "cpu" are hipvmm's. Raises InvalidArgumentError for others.
    """
    import torch

    if isinstance(device, int):
        return device
    named = None if device is None else torch.device(device)
    kind, index = getattr(named, "type", "cuda"), getattr(named, "index", None)
    if provider() == "host" and (named is None or kind == "cpu"):
        return device_or_current(None)
    if kind != "cuda":
        raise InvalidArgumentError(
            f"device {named} of PyTorch has no memory of hipvmm: name a GPU, such as \"cuda:0\"")
    return int(torch.cuda.current_device()) if index is None else int(index)


def devices() -> List[int]:
    """The ordinals of all devices."""
    return list(range(device_count()))


def device_name(device: Optional[int] = None) -> str:
    """The name of a device."""
    return get_text(lib().device_name, device_or_current(device))


def device_uuid(device: Optional[int] = None) -> str:
    """The UUID of a device, as the vendor's tools print it."""
    return get_text(lib().device_uuid, device_or_current(device))


def device_memory(device: Optional[int] = None) -> DeviceMemory:
    """Free and total memory of a device in bytes, at this moment."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    lib().device_memory(device_or_current(device), ctypes.byref(free), ctypes.byref(total))
    return DeviceMemory(free.value, total.value)


def can_access_peer(device: int, peer: int) -> bool:
    """Whether a device can access memory of another."""
    return bool(get_int(lib().device_can_access_peer, device, peer))


def is_host_accessible(device: Optional[int] = None) -> bool:
    """Whether host code may use mapped memory of the device through its address."""
    return bool(get_int(lib().device_is_host_accessible, device_or_current(device)))


def capability(device: Optional[int] = None) -> str:
    """The known properties of the device's virtual memory, in lines for people."""
    return get_text(lib().device_capability, device_or_current(device))


def synchronize(device: Optional[int] = None) -> None:
    """Waits for all work of a device."""
    lib().device_synchronize(device_or_current(device))


def drain_retired_memory() -> None:
    """Waits until memory that was released while work used it is back at its device."""
    lib().drain_retired_memory()


class Stream(Owner):
    """A stream of a device, which does not wait for the default stream."""

    _destroy_function = "stream_destroy"

    def __init__(self, device: Optional[int] = None) -> None:
        self.device = device_or_current(device)
        super().__init__(get_address(lib().stream_create, self.device))

    @property
    def ptr(self) -> int:
        """The hipStream_t."""
        return get_address(lib().stream_get, self.handle)

    def synchronize(self) -> None:
        """Waits for the work of the stream."""
        lib().synchronize(self.ptr)

    def record(self) -> Event:
        """A new event behind the work that is now in the stream."""
        event = Event(self.device)
        event.record(self)
        return event

    def wait(self, other: Any) -> None:
        """Later work waits for an event, or for the work that is now in another stream.

        The other stream is one of this package, whose device is known.
        """
        event = other if isinstance(other, Event) else None
        if isinstance(other, Stream):
            event = other.record()
        if event is None:
            raise TypeError(f"{type(other).__name__} is no Event and no Stream of hipvmm; record "
                            "an Event in the stream and wait for that")
        lib().stream_wait(self.ptr, event.handle)
        if event is not other:
            event.close()

    def __cuda_stream__(self) -> Any:
        return (0, self.ptr)


class Event(Owner):
    """A point in the order of a stream of its device. One that was never recorded is done."""

    _destroy_function = "event_destroy"

    def __init__(self, device: Optional[int] = None) -> None:
        self._device = device_or_current(device)
        super().__init__(get_address(lib().event_create, self._device))

    @property
    def ptr(self) -> int:
        """The hipEvent_t."""
        return get_address(lib().event_get, self.handle)

    @property
    def done(self) -> bool:
        """Whether the last record is done."""
        return bool(get_int(lib().event_is_done, self.handle))

    def record(self, stream: Any = None) -> None:
        """Is done when the work that is now in the stream has finished."""
        with of_default(stream, self._device):
            lib().event_record(self.handle, stream_value(stream))

    def wait(self, stream: Any = None) -> None:
        """Later work of a stream, of any device, waits for the last record."""
        with of_default(stream, self._device):
            lib().stream_wait(stream_value(stream), self.handle)

    def synchronize(self) -> None:
        """Waits until the last record is done."""
        lib().event_synchronize(self.handle)


# The legacy default stream of the device of the object that it is used with.
DEFAULT_STREAM = 0


def stream_value(stream: Any) -> int:
    """The hipStream_t of a stream of this package, of CuPy, PyTorch or Numba, or of a number.

    None is the legacy default stream. Raises InvalidArgumentError for anything else.
    """
    if stream is None:
        return 0
    if isinstance(stream, int):
        return in_range(stream, "the stream", *ADDRESSES)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # A function of the later protocol, a tuple of the earlier one.
        version_and_value = protocol() if callable(protocol) else protocol
        return in_range(version_and_value[1], "the stream", *ADDRESSES)
    kind = type(stream).__name__
    # Events and memory have ptr and handle too.
    is_unclear = not hasattr(stream, "synchronize") or "event" in kind.lower()
    for name in ("cuda_stream",) if is_unclear else ("ptr", "cuda_stream", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    raise InvalidArgumentError(
        f"{kind} is no stream: streams have __cuda_stream__ or cuda_stream, or synchronize() and "
        "ptr or handle")


def is_default_stream(value: int) -> bool:
    """Whether each device has such a stream: the default, the legacy, the per-thread one."""
    return 0 <= value <= 2


@contextlib.contextmanager
def of_default(stream: Any, device: Optional[int]) -> Iterator[None]:
    """Makes the device current if the stream is a default one, so that it is this device's."""
    if device is None or device < 0 or not is_default_stream(stream_value(stream)):
        yield
    else:
        with current(device):
            yield


def is_closed_stream(stream: Any) -> bool:
    """Whether a stream of this package was closed. Its work may still go on."""
    return isinstance(stream, Stream) and stream.closed


def synchronize_stream(stream: Any, device: Optional[int] = None) -> None:
    """Waits for the work of a stream of any package; for a closed one, of its device."""
    if is_closed_stream(stream):
        synchronize(device)
    else:
        with of_default(stream, device):
            lib().synchronize(stream_value(stream))


def synchronize_last(stream: Any, device: Optional[int]) -> None:
    """The same for a stream of earlier calls; for one that is none now, of its device."""
    try:
        synchronize_stream(stream, device)
    except HipError:
        synchronize(device)
