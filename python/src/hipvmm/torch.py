# SPDX-License-Identifier: MIT
"""hipvmm as the allocator of PyTorch's device memory, on CUDA and on ROCm builds.

    import hipvmm.torch
    hipvmm.torch.install()                  # before the first tensor on a device

or, for a part of a program that uses PyTorch's own allocator else::

    with hipvmm.torch.pool():
        ...

Each device has one pool; the environment variable HIPVMM_CONF has its options, such as
``pool.release_threshold=4GiB``. Streams, ``record_stream``, graphs, ``empty_cache`` and
``set_per_process_memory_fraction`` are honoured; out of memory is ``torch.OutOfMemoryError``, with
the pool's report. ``torch.cuda.memory_stats``, and its readers, have the pools' figures.
``torch.cuda.memory_snapshot`` is refused by PyTorch with any allocator but its own.

Allocations in a pool with a tag sleep and wake::

    with hipvmm.torch.pool(tag="weights"):
        model = make_model()
    hipvmm.torch.suspend("weights")         # the memory is the device's, its addresses stay
    hipvmm.torch.resume("weights")

Without install() and pool(): KVCache keeps keys and values of many sequences in tensors that grow
in place, reserve() makes a tensor of its full shape whose first rows have memory, and modules of
evictable() leave the device for others. keep() tensors by a name beyond the end of the process;
attach() to them in another.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import OrderedDict
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from . import sleep as _sleep
from ._errors import HipvmmError, UnsupportedError
from ._library import PoolStatistics, get_address, get_int, get_struct, get_text, lib
from .device import ordinal_in_torch
from .evictable import EvictableModule, evictable
from .kept import attach, forget, keep
from .kv_cache import KVCache
from .mr import owned
from .reserved import ReservedTensor, reserve

__all__ = [
    "EvictableModule",
    "KVCache",
    "ReservedTensor",
    "attach",
    "empty_cache",
    "evictable",
    "forget",
    "install",
    "is_installed",
    "keep",
    "memory_stats",
    "memory_summary",
    "pool",
    "report",
    "reserve",
    "reset_peak_memory_stats",
    "resume",
    "suspend",
]

# PyTorch's name of each function of the allocator, and its name in the library.
_SETTERS: List[Tuple[str, str]] = [
    ("set_reset_fn", "hipvmm_torch_reset"),
    ("set_memory_fraction_fn", "hipvmm_torch_memory_fraction"),
    ("set_record_stream_fn", "hipvmm_torch_record_stream"),
    ("set_erase_stream_fn", "hipvmm_torch_erase_stream"),
    ("set_begin_allocate_to_pool", "hipvmm_torch_begin_allocate_to_pool"),
    ("set_end_allocate_to_pool_fn", "hipvmm_torch_end_allocate_to_pool"),
    ("set_release_pool", "hipvmm_torch_release_pool"),
]

_allocator: Optional[Any] = None
_of_tags: Dict[str, Any] = {}  # the allocators of tags, which never end either
_is_installed = False


class _Statistics(ctypes.Structure):
    """hipvmm_torch_statistics."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("allocated_current", ctypes.c_size_t),
        ("allocated_high", ctypes.c_size_t),
        ("allocated_total", ctypes.c_uint64),
        ("count_current", ctypes.c_uint64),
        ("count_total", ctypes.c_uint64),
        ("out_of_memory", ctypes.c_uint64),
    ]


def _call(name: str, *args: Any) -> None:
    library = lib()
    status = getattr(library.loaded, name)(*args)
    if status != 0:
        library.throw(status)


def _pluggable(allocate: str, free: str) -> Any:
    """Functions of the library as an allocator of PyTorch."""
    import torch

    memory = torch.cuda.memory
    if not (hasattr(memory, "CUDAPluggableAllocator") and hasattr(memory, "change_current_allocator")):
        raise UnsupportedError(
            f"PyTorch {torch.__version__} takes no allocator but its own: install PyTorch 2.0, the "
            "oldest that does, or newer")
    return memory.CUDAPluggableAllocator(lib().path, allocate, free)


def _the_allocator() -> Any:
    """The allocator as PyTorch has it: one, which never ends, for PyTorch keeps plain pointers to
    it as long as there is memory of a pool."""
    global _allocator
    if _allocator is not None:
        return _allocator
    library = lib()
    made = _pluggable("hipvmm_torch_alloc", "hipvmm_torch_free")
    inner = made.allocator()
    for setter, name in _SETTERS:
        # Releases of PyTorch differ in which they have.
        give = getattr(inner, setter, None)
        if give is not None:
            give(ctypes.cast(getattr(library.loaded, name), ctypes.c_void_p).value)
    _allocator = made
    return made


def install(statistics: bool = True) -> None:
    """Makes hipvmm the allocator of every tensor on a device from now on. A second call does nothing.

    With `statistics`, torch.cuda.memory_stats and reset_peak_memory_stats, which PyTorch refuses
    with any allocator but its own, become memory_stats and reset_peak_memory_stats of this module;
    torch.cuda.memory_allocated, memory_reserved and their peaks read them. memory_summary becomes
    report.

    Raises HipvmmError when a tensor was allocated before: PyTorch can only change its allocator
    before it is used.
    """
    global _is_installed
    if _is_installed:
        return
    import torch

    made = _the_allocator()
    try:
        torch.cuda.memory.change_current_allocator(made)
    except RuntimeError as failure:
        raise HipvmmError(
            "hipvmm.torch.install() comes too late: PyTorch's own allocator is in use already. "
            "Call it before anything is allocated on a device, or use hipvmm.torch.pool() for a "
            "part of the program") from failure
    _is_installed = True
    if statistics:
        for module in (torch.cuda.memory, torch.cuda):
            module.memory_stats = memory_stats
            module.reset_peak_memory_stats = reset_peak_memory_stats
            module.memory_summary = memory_summary


def is_installed() -> bool:
    """Whether install() was called."""
    return _is_installed


def _allocator_of(tag: str) -> Any:
    """The allocator with pools that carry a tag."""
    if tag not in _of_tags:
        number = get_int(_call, "hipvmm_torch_tag", _sleep.tag_bytes(tag))
        _of_tags[tag] = _pluggable(
            f"hipvmm_torch_alloc_{number}", f"hipvmm_torch_free_{number}")
    return _of_tags[tag]


@contextlib.contextmanager
def pool(device: Any = None, *, tag: Optional[str] = None) -> Iterator[Any]:
    """Sends allocations in the block, in the calling thread, to hipvmm.

    Yields the torch.cuda.MemPool, which torch.cuda.use_mem_pool takes for more blocks. PyTorch's own
    allocator stays in between: it asks for segments and divides them. Tensors may outlive the block.
    After install() all memory is hipvmm's already, and None is yielded.

    tag: a name by which suspend() gives the memory back to the device, and resume() makes it again:
    "weights", "kv_cache". At most eight of them. Raises UnsupportedError after install().
    """
    import torch

    if _is_installed:
        if tag is not None:
            raise UnsupportedError(
                f"hipvmm.torch.pool(tag={tag!r}) after install(): PyTorch's own allocator, which has "
                "pools beside others, is not in use")
        yield None
        return
    if not hasattr(torch.cuda, "MemPool"):
        raise UnsupportedError(f"PyTorch {torch.__version__} has no torch.cuda.MemPool; 2.5 has")
    made = _the_allocator() if tag is None else _allocator_of(tag)
    graphs = torch.cuda.MemPool(made.allocator())
    with torch.cuda.use_mem_pool(graphs, device):
        yield graphs


Tags = Union[None, str, Iterable[str]]


def suspend(tags: Union[Tags, Mapping[str, str]] = None, keep: str = "contents", *,
            storage: str = "pinned", folder: Any = None) -> int:
    """Releases the memory of pool(tag=...) to the devices, keeps its addresses, returns the bytes.

    tags: a tag, several, or by default all of pool(); or a value of keep for each tag, as
        {"weights": "contents", "cache": "nothing"}. keep, storage, folder: as hipvmm.suspend().

    Waits for all work of the devices. Until resume(), tensors of the pools must not be used, which
    PyTorch does not check; they may end. After a failure all is awake that was before.
    """
    released, done = 0, []
    keeps = tags if isinstance(tags, Mapping) else dict.fromkeys(_names_of(tags), keep)
    for what in keeps.values():
        _sleep.require_keep(what)  # before a tag sleeps
    try:
        for tag, what in keeps.items():
            was_asleep = _sleep.tag_statistics(tag).is_asleep
            released += _sleep.suspend(tag, what, storage=storage, folder=folder)
            if not was_asleep:
                done.append(tag)
    except BaseException:
        for tag in reversed(done):
            _sleep.resume(tag)
        raise
    return released


def resume(tags: Tags = None) -> int:
    """Backs the memory of tags again, at the same addresses, and copies kept contents back.

    Returns the bytes. Tags are as for suspend(): wake them in the order in which they are needed.
    After a failure, such as OutOfMemoryError, those behind it are still asleep, and nothing is lost.
    """
    return sum(_sleep.resume(tag) for tag in _names_of(tags))


def _names_of(tags: Tags) -> List[str]:
    if tags is None:
        return list(_of_tags)
    return [tags] if isinstance(tags, str) else list(tags)


def _pool_of(device: int) -> Any:
    return owned(get_address(_call, "hipvmm_torch_pool", device))


def memory_stats(device: Any = None) -> Dict[str, Any]:
    """The allocations of install() or pool() on a device, by the names of torch.cuda.memory_stats:
    those of its entries that mean something here. The current device by default."""
    ordinal = ordinal_in_torch(device)
    torch_has = get_struct(_Statistics, _call, "hipvmm_torch_get_statistics", ordinal)
    held = PoolStatistics()
    if torch_has.count_total:  # else the device may have no pool, and gets none to be asked
        with _pool_of(ordinal) as handle:
            held = get_struct(PoolStatistics, lib().pool_get_statistics, handle)
    used = {
        "current": torch_has.allocated_current,
        "peak": torch_has.allocated_high,
        "allocated": torch_has.allocated_total,
        "freed": torch_has.allocated_total - torch_has.allocated_current,
    }
    found = {f"{kind}.all.{name}": value
             for kind in ("active_bytes", "allocated_bytes", "requested_bytes")
             for name, value in used.items()}
    found.update({
        "allocation.all.current": torch_has.count_current,
        "allocation.all.allocated": torch_has.count_total,
        "allocation.all.freed": torch_has.count_total - torch_has.count_current,
        "num_alloc_retries": 0,  # nothing is kept that would be released for a second try
        "num_ooms": torch_has.out_of_memory,
        "reserved_bytes.all.current": held.reserved_current,
        "reserved_bytes.all.peak": held.reserved_high,
    })
    return OrderedDict(sorted(found.items()))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begins the peaks of a device anew; the current one by default."""
    _call("hipvmm_torch_reset_peaks", ordinal_in_torch(device))


def report(device: Any = None) -> str:
    """The pool of a device in lines for people: its memory, and the requests that would fit."""
    with _pool_of(ordinal_in_torch(device)) as handle:
        return get_text(lib().pool_report, handle)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """report(), for programs that print torch.cuda.memory_summary()."""
    return report(device)


def empty_cache() -> None:
    """Releases memory that no tensor uses to the devices."""
    lib().loaded.hipvmm_torch_reset()
