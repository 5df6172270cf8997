# SPDX-License-Identifier: MIT
"""GPU memory that grows in place and is reused without a wait, on HIP and CUDA.

GrowableArray is an array that grows without moving its elements; Pool a stream-ordered pool.
DeviceBuffer, the module mr, reinitialize() and the like have the names and meaning of
RMM's and hipMM's Python packages, so that ``import hipvmm as rmm`` serves most programs. SlotArena
is the memory of a KV cache; suspend() and resume() give memory back and keep its addresses;
MemoryBudget is a cap that processes share.

The C++ library libhipvmm.so is loaded by the first call that needs it: ``python -m hipvmm.info``.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import mr, statistics
from ._errors import (
    HipError,
    HipvmmError,
    InternalError,
    InvalidArgumentError,
    InvalidHandleError,
    InvalidStateError,
    IpcError,
    LibraryNotFoundError,
    OutOfMemoryError,
    OutOfRangeError,
    SystemFailureError,
    UnsupportedError,
)
from ._version import __version__
from .budget import BudgetHolder, BudgetStatistics, IdleStatistics, MemoryBudget, idle_statistics
from .checkpoint import Checkpoint, save_checkpoint
from .device import (
    DEFAULT_STREAM,
    DeviceMemory,
    Event,
    Stream,
    can_access_peer,
    capability,
    current_device,
    device_count,
    device_memory,
    device_name,
    device_uuid,
    drain_retired_memory,
    is_host_accessible,
    provider,
    synchronize,
)
from .device_buffer import DeviceBuffer
from .evictable import Evictable, EvictableStatistics
from .growable import GrowableArray, GrowthStatistics
from ._log import (
    LoggingLevel,
    flush_logger,
    get_flush_level,
    get_logging_level,
    log,
    logging_level,
    set_flush_level,
    set_logging_level,
    should_log,
)
from .mr import Pool, PoolStatistics, disable_logging, enable_logging, get_log_filenames
from .pressure import MemoryChange, MemoryPressure, PressureNote
from .sharing import Attachment, KeptPublication, Publication, attach, keep
from .sleep import TagStatistics, prepare_suspend, resume, suspend, tag_statistics
from .slots import SlotArena, SlotStatistics, SlotView

# The name in RMM.
RMMError = HipvmmError

__all__ = [
    "Attachment",
    "BudgetHolder",
    "BudgetStatistics",
    "Checkpoint",
    "DEFAULT_STREAM",
    "DeviceBuffer",
    "DeviceMemory",
    "Event",
    "Evictable",
    "EvictableStatistics",
    "GrowableArray",
    "GrowthStatistics",
    "HipError",
    "HipvmmError",
    "IdleStatistics",
    "InternalError",
    "InvalidArgumentError",
    "InvalidHandleError",
    "InvalidStateError",
    "IpcError",
    "KeptPublication",
    "LibraryNotFoundError",
    "LoggingLevel",
    "MemoryBudget",
    "MemoryChange",
    "MemoryPressure",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Pool",
    "PoolStatistics",
    "PressureNote",
    "Publication",
    "RMMError",
    "SlotArena",
    "SlotStatistics",
    "SlotView",
    "Stream",
    "SystemFailureError",
    "TagStatistics",
    "UnsupportedError",
    "__version__",
    "attach",
    "can_access_peer",
    "capability",
    "current_device",
    "device_count",
    "device_memory",
    "device_name",
    "device_uuid",
    "disable_logging",
    "drain_retired_memory",
    "enable_logging",
    "flush_logger",
    "get_log_filenames",
    "get_flush_level",
    "get_logging_level",
    "idle_statistics",
    "is_host_accessible",
    "is_initialized",
    "keep",
    "log",
    "logging_level",
    "mr",
    "prepare_suspend",
    "provider",
    "register_reinitialize_hook",
    "reinitialize",
    "report",
    "resume",
    "save_checkpoint",
    "set_flush_level",
    "set_logging_level",
    "should_log",
    "statistics",
    "suspend",
    "synchronize",
    "tag_statistics",
    "unregister_reinitialize_hook",
]

_hooks: List[Tuple[Callable[..., Any], Tuple[Any, ...], Any]] = []


def reinitialize(pool_allocator: bool = False, managed_memory: bool = False,
                 initial_pool_size: Optional[mr.Size] = None,
                 maximum_pool_size: Optional[mr.Size] = None,
                 devices: Union[int, Sequence[int]] = 0, logging: bool = False,
                 log_file_name: mr.FileName = None) -> None:
    """Sets a new resource for each of some devices; all of them, or none if one cannot be made.

    pool_allocator: a pool, of initial_pool_size bytes at first and maximum_pool_size at most, both
        as numbers or text such as "1GiB"; without it, each allocation is one of HIP's.
    managed_memory: memory of hipMallocManaged instead of hipMalloc.
    devices: one ordinal or several.
    logging: a row for each allocation in log_file_name, or in the file that HIPVMM_LOG_FILE or
        RMM_LOG_FILE names, with ".dev0" before the ending for device 0. Raises ValueError if no
        file is known.

    The hooks of register_reinitialize_hook() run first, the latest before the others.
    """
    for function, args, kwargs in reversed(_hooks):
        function(*args, **kwargs)
    mr.initialize(pool_allocator, managed_memory, initial_pool_size, maximum_pool_size, devices,
                  logging, log_file_name)


def is_initialized() -> bool:
    """Whether there is a resource: always."""
    return mr.is_initialized()


def register_reinitialize_hook(func: Callable[..., Any], *args: Any, **kwargs: Any
                               ) -> Callable[..., Any]:
    """Calls a function with these arguments before each reinitialize(), and returns it."""
    _hooks.append((func, args, kwargs))
    return func


def unregister_reinitialize_hook(func: Callable[..., Any]) -> None:
    """Takes a function out of the hooks, as often as it is there."""
    _hooks[:] = [hook for hook in _hooks if hook[0] is not func]


def report(device: Optional[int] = None) -> str:
    """Describes the memory of a device's resource, for people; "" if it is no pool.

    Adaptors are looked through for the pool below them.
    """
    from .device import device_or_current

    resource: Any = mr.get_per_device_resource(device_or_current(device))
    while not hasattr(resource, "report") and hasattr(resource, "upstream_mr"):
        resource = resource.upstream_mr
    return str(resource.report()) if hasattr(resource, "report") else ""
