# SPDX-License-Identifier: MIT
"""The exceptions of the package. Their texts are those of the C++ library."""

from __future__ import annotations

__all__ = [
    "HipError",
    "HipvmmError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidHandleError",
    "InvalidStateError",
    "IpcError",
    "LibraryNotFoundError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "SystemFailureError",
    "UnsupportedError",
]


class LibraryNotFoundError(ImportError):
    """libhipvmm.so was not found, or is too old. The text lists the places searched."""


class HipvmmError(RuntimeError):
    """A call of the library failed."""


class InvalidArgumentError(HipvmmError, ValueError):
    """A value, or the name or value of an option, is not allowed."""


class InvalidHandleError(HipvmmError, ValueError):
    """An object was closed, or is of another kind than the call needs."""


class OutOfMemoryError(HipvmmError, MemoryError):
    """A request for memory was refused.

    exhausted: the cause: "device_memory", "addresses", "descriptors", "host_memory", "limit",
        "budget", "fragmentation" or "alignment".
    device: the ordinal of the device; -1 if the memory belongs to none.
    bytes_requested, bytes_free: in bytes; 0 if unknown.
    """

    exhausted: str = ""
    device: int = -1
    bytes_requested: int = 0
    bytes_free: int = 0


class UnsupportedError(HipvmmError, NotImplementedError):
    """The device, the runtime or this build does not support the request, and never will."""


class OutOfRangeError(HipvmmError, IndexError):
    """A range is beyond the size, or a size beyond the greatest one."""


class HipError(HipvmmError):
    """A call of HIP failed. code: its hipError_t."""

    code: int = 0


class InvalidStateError(HipvmmError):
    """The object is in a state that forbids the call, such as memory that sleeps."""


class IpcError(HipvmmError, ConnectionError):
    """The other process, or the way to it, failed."""


class SystemFailureError(HipvmmError, OSError):
    """The operating system refused, such as a file that cannot be opened."""


class InternalError(HipvmmError):
    """Anything else; please report it."""
