# SPDX-License-Identifier: MIT
"""SlotArena: slots that grow in place in one range of addresses, the shape of a KV cache."""

from __future__ import annotations

import ctypes
import operator
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._dtype import dtype_of, row_bytes_of
from ._errors import InvalidArgumentError, OutOfRangeError
from ._handle import Owner
from ._host import HostView, numpy_for_views
from ._library import (
    CALLBACK_RAISED,
    EvictCallback,
    SlotLayout as _CLayout,
    SlotStatistics as _CSlotStatistics,
    get_address,
    get_int,
    get_size,
    get_struct,
    keep_callback_error,
    lib,
    not_zero,
    options_text,
)
from .device import device_or_current, is_host_accessible, stream_value
from .mr import Size

__all__ = ["SlotArena", "SlotStatistics", "SlotView"]


@dataclass(frozen=True)
class SlotStatistics:
    """Counts of a SlotArena; bytes are of all planes together.

    held_bytes is needed_bytes, those of the blocks that hold the lengths, and spare_bytes, of
    blocks mapped beyond, and kept_bytes, of unmapped memory. The budget limits held_bytes.
    """

    slots_in_use: int
    used_bytes: int
    needed_bytes: int
    spare_bytes: int
    kept_bytes: int
    held_bytes: int
    peak_held_bytes: int
    shared_bytes: int
    budget_bytes: int
    reserved_bytes: int
    prefetched_blocks: int
    failed_prefetches: int
    grown_blocks: int
    moved_blocks: int
    evictions: int


def _eviction_call(evict: Callable[[int], None],
                   evicting: List[int]) -> Callable[[int, Any], int]:
    """The callback for the library; `evicting` has the thread meanwhile."""

    def call(missing: int, _: Any) -> int:
        evicting.append(threading.get_ident())
        try:
            evict(missing)
            return 0
        except BaseException as error:  # it comes out of commit()
            keep_callback_error(error)
            return CALLBACK_RAISED
        finally:
            evicting.clear()

    return call


class SlotArena(Owner):
    """Slots in planes, such as sequences in keys and values of layers; each grows in place.

    >>> arena = hipvmm.SlotArena(256, "1GiB", planes=2, budget="80%")
    >>> slot = arena.acquire()
    >>> arena.commit([slot], [4096])

    Slot s of plane p begins at ``arena.ptr + p * arena.plane_stride + s * arena.slot_stride``, as
    long as the arena lives. Memory comes in blocks, by commit().

    slots: how many; bytes_per_slot: the most bytes of each in every plane, or text such as "8MiB".
    planes: ranges of every slot, which grow together.
    device: by default the current one.
    block: bytes that a slot grows by in each plane, a multiple of the device's granularity.
    budget: the most bytes of memory held. floor: bytes that no other object of the process gets.
    priority: arenas and pools of a lower one release idle memory first.
    prefetch: blocks that a thread of the library keeps ready behind each slot in use, 1 by default.
    layout: "packed" for slots of less than a block, which then share them.
    access: devices that may use it, such as "1:read" or "all".
    sleep_tag: the name by which hipvmm.suspend() knows its memory.
    evict: see set_eviction().

    Work goes to the stream that is given; None is the default stream of the arena's device.
    Threads may share an arena: each call is whole. docs/reference/slot_arena.md has the costs.
    """

    _destroy_function = "slot_arena_destroy"

    def __init__(self, slots: int, bytes_per_slot: Size, planes: int = 1, *,
                 device: Optional[int] = None, block: Optional[Size] = None,
                 budget: Optional[Size] = None, floor: Optional[Size] = None,
                 priority: Optional[int] = None, prefetch: Optional[int] = None,
                 layout: Optional[str] = None, access: Optional[str] = None,
                 sleep_tag: Optional[str] = None,
                 evict: Optional[Callable[[int], None]] = None) -> None:
        not_zero("block", block, "the recommended size")
        text = options_text({
            "slots": operator.index(slots), "bytes_per_slot": bytes_per_slot,
            "planes": operator.index(planes), "block": block, "budget": budget,
            "floor": floor, "priority": priority, "prefetch": prefetch, "layout": layout,
            "access": access, "sleep_tag": sleep_tag})
        super().__init__(get_address(lib().slot_arena_create, device_or_current(device), text))
        self._layout = get_struct(_CLayout, lib().slot_arena_get_layout, self.handle)
        self._evict: Any = None
        self._evict_lock = threading.Lock()  # so that it equals the library's
        self._evicting: List[int] = []  # the thread in which it runs
        if evict is not None:
            self.set_eviction(evict)

    # Its addresses.

    @property
    def device(self) -> int:
        """The device of the memory."""
        return int(self._layout.device)

    @property
    def ptr(self) -> int:
        """The address of the first slot in the first plane."""
        self._hold()  # raises after close(), and in a child of fork()
        return int(self._layout.base)

    @property
    def slots(self) -> int:
        """The number of slots."""
        return int(self._layout.slots)

    @property
    def planes(self) -> int:
        """The number of planes."""
        return int(self._layout.planes)

    @property
    def bytes_per_slot(self) -> int:
        """The most bytes of a slot in each plane."""
        return int(self._layout.bytes_per_slot)

    @property
    def slot_stride(self) -> int:
        """Bytes from a slot to the next one in a plane."""
        return int(self._layout.slot_stride)

    @property
    def plane_stride(self) -> int:
        """Bytes from a slot in a plane to the same one in the next."""
        return int(self._layout.plane_stride)

    @property
    def block_bytes(self) -> int:
        """Bytes that a slot grows by in each plane."""
        return int(self._layout.block_bytes)

    def pointer(self, slot: int, plane: int = 0) -> int:
        """The address of a slot in a plane."""
        return get_address(lib().slot_arena_pointer, self.handle, slot, plane)

    def __repr__(self) -> str:
        if self.closed:
            return "SlotArena(closed)"
        return (f"SlotArena({self.slots}, {self.bytes_per_slot}, planes={self.planes}, "
                f"device={self.device})")

    # How slots begin, grow and end.

    def acquire(self, stream: Any = None) -> int:
        """Takes a free slot, with length zero. Raises OutOfMemoryError if all are in use."""
        return get_size(lib().slot_arena_acquire, self.handle, stream_value(stream))

    def commit(self, slots: Sequence[int], lengths: Sequence[int], stream: Any = None) -> None:
        """Makes each slot at least so many bytes long in every plane, or changes none.

        Lists of numbers, or arrays of numpy's uint64, which are not copied. Contents of new bytes
        are indeterminate. Raises OutOfMemoryError if they do not fit: release() or truncate()
        slots and call it again, or set_eviction(); and the exceptions of that function.
        """
        for name, given in (("slots", slots), ("lengths", lengths)):
            if not hasattr(given, "__len__"):
                raise TypeError(f"{name} is {type(given).__name__}, and must be a list of numbers")
        if len(slots) != len(lengths):
            raise InvalidArgumentError(
                f"{len(slots)} slots and {len(lengths)} lengths: give one for each slot")
        lib().slot_arena_commit(self.handle, _numbers(slots, "slots"), _numbers(lengths, "lengths"),
                                len(slots), stream_value(stream))

    def release(self, slot: int, stream: Any = None) -> None:
        """Frees a slot: others use its memory once the stream has passed. Does not wait."""
        lib().slot_arena_release(self.handle, slot, stream_value(stream))

    def truncate(self, slot: int, length: int, stream: Any = None) -> None:
        """Shortens a slot to so many bytes in every plane."""
        lib().slot_arena_truncate(self.handle, slot, length, stream_value(stream))

    def share_prefix(self, from_slot: int, to: Sequence[int], length: int,
                     stream: Any = None) -> None:
        """Gives slots without bytes the first bytes of another one, without a copy of whole blocks.

        Devices may only read these; do not write to them before make_writable(), not in from_slot
        either. Raises UnsupportedError if a device cannot map memory twice.
        """
        lib().slot_arena_share_prefix(self.handle, from_slot, _numbers(to, "to"), len(to), length,
                                      stream_value(stream))

    def make_writable(self, slot: int, offset: int, nbytes: int, stream: Any = None) -> None:
        """Gives a slot its own copy of the shared blocks with these bytes; waits for the stream."""
        lib().slot_arena_make_writable(self.handle, slot, offset, nbytes, stream_value(stream))

    def set_eviction(self, evict: Optional[Callable[[int], None]]) -> None:
        """Has evict(missing_bytes) called if a commit() does not fit, which is then tried again.

        The thread of commit() calls it. It may release() and truncate() slots of this arena that
        the commit does not name, trim() it and ask it: to release one that it names raises
        InvalidArgumentError, acquire() and the like InvalidStateError. Other threads that use the
        arena wait meanwhile; evict must not wait for them. Its exceptions leave commit(), which has
        changed nothing then. None: no function.
        """
        if evict is not None and not callable(evict):
            raise InvalidArgumentError("evict must be a function")
        made = EvictCallback() if evict is None else EvictCallback(
            _eviction_call(evict, self._evicting))
        # Within a commit of this thread the call raises. Another thread may hold the lock meanwhile
        # and wait for that commit.
        if threading.get_ident() in self._evicting:
            lib().slot_arena_set_eviction(self.handle, made, None)
        with self._evict_lock:
            lib().slot_arena_set_eviction(self.handle, made, None)
            self._evict = made  # only commit() calls it, of this object

    # Its contents.

    def length(self, slot: int) -> int:
        """Bytes of a slot in every plane; 0 for a free one."""
        return get_size(lib().slot_arena_length, self.handle, slot)

    def capacity(self, slot: int) -> int:
        """Bytes that a slot can have without another block."""
        return get_size(lib().slot_arena_capacity, self.handle, slot)

    def in_use(self, slot: int) -> bool:
        """Whether a slot was taken."""
        return bool(get_int(lib().slot_arena_in_use, self.handle, slot))

    def slots_that_fit(self, length: int) -> int:
        """How many free slots could get so many bytes each, now."""
        return get_size(lib().slot_arena_slots_that_fit, self.handle, length)

    def set_budget(self, nbytes: int) -> None:
        """Changes the budget; memory beyond it that no length needs is released to the device."""
        lib().slot_arena_set_budget(self.handle, nbytes)

    def trim(self) -> int:
        """Releases to the device all that no length needs, and returns its bytes."""
        return get_size(lib().slot_arena_trim, self.handle)

    def statistics(self) -> SlotStatistics:
        """The used, needed and held bytes."""
        now = get_struct(_CSlotStatistics, lib().slot_arena_get_statistics, self.handle)
        return SlotStatistics(*(getattr(now, name) for name, _ in now._fields_[1:]))

    def _require_awake(self) -> None:
        """Raises InvalidStateError while the memory sleeps, or is not whole after a failure."""
        lib().slot_arena_commit(self.handle, _numbers((), "slots"), _numbers((), "lengths"), 0, None)

    # How other packages see it.

    def view(self, slot: int, plane: int = 0, dtype: Any = "uint8",
             row_shape: Sequence[int] = ()) -> "SlotView":
        """The rows that a slot has in a plane, for numpy, CuPy, PyTorch and others: no copy.

        Raises InvalidStateError while the memory sleeps.
        """
        self._require_awake()
        kind = dtype_of(dtype)
        shape = tuple(operator.index(each) for each in row_shape)
        rows = self.length(slot) // row_bytes_of(kind, shape)
        return SlotView(self, self.pointer(slot, plane), (rows,) + shape, kind.typestr)

    def addresses(self) -> "SlotView":
        """All addresses as bytes, of slots that have no memory, too: for one tensor of all slots;
        use only its parts with memory."""
        nbytes = (self.planes - 1) * self.plane_stride + self.slots * self.slot_stride
        return SlotView(self, self.ptr, (nbytes,), "|u1", has_memory=False)


class SlotView:
    """Memory of a SlotArena that others use without a copy; keeps the arena.

    Good until the slot is released or truncated, or sleeps: while it does, it can be given to nobody
    (InvalidStateError). The order of work is the caller's: nothing is waited for.
    """

    def __init__(self, arena: SlotArena, ptr: int, shape: Tuple[int, ...], typestr: str, *,
                 has_memory: bool = True) -> None:
        self._held = arena._hold()
        self._has_memory = has_memory  # or it is addresses, some of them without
        self._device = arena.device
        self.ptr, self.shape, self.typestr = ptr, shape, typestr

    def _require_awake(self) -> None:
        if self._has_memory:
            lib().require_awake(self.ptr)

    def numpy_view(self) -> Any:
        """A numpy array of the memory, if host code may use it (the host provider)."""
        self._held.require_own("SlotView")
        self._require_awake()
        numpy = numpy_for_views(self._device, is_host_accessible(self._device), "")
        return numpy.asarray(HostView(self, self.typestr))

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        self._held.require_own("SlotView")
        self._require_awake()
        return {"data": (self.ptr if 0 not in self.shape else 0, False), "shape": self.shape,
                "strides": None, "typestr": self.typestr, "version": 3, "stream": None}

    def __dlpack_device__(self) -> Tuple[int, int]:
        from ._dlpack import device_of

        return device_of(self._device)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        """A capsule of the memory. Nothing is waited for."""
        from ._dlpack import capsule, require_no_copy

        self._held.require_own("SlotView")
        self._require_awake()
        own = self.__dlpack_device__()
        require_no_copy(own, dl_device, copy)
        return capsule(self, self.ptr, self.shape, self.typestr, own)


def _is_outside(values: Sequence[int]) -> bool:
    return len(values) > 0 and not 0 <= min(values) <= max(values) < 1 << 63


def _numbers(values: Sequence[int], name: str) -> Any:
    """Numbers as an array of size_t."""
    kind = ctypes.c_size_t * len(values)
    # Of more dimensions len() would count, and C get, a part of them only.
    if (getattr(getattr(values, "dtype", None), "str", "") == "<u8"
            and getattr(values, "ndim", 0) == 1):
        try:
            return kind.from_buffer(values)
        except (TypeError, ValueError, BufferError):
            pass  # read-only, or not contiguous
    found: Sequence[int] = values
    try:
        try:
            made, outside = kind(*values), _is_outside(values)
        except (TypeError, RuntimeError):  # numbers of numpy or PyTorch, or what has __index__ alone
            found = [operator.index(each) for each in values]
            made, outside = kind(*found), _is_outside(found)
    except TypeError as failure:
        raise InvalidArgumentError(f"{name} are no whole numbers: {failure}") from failure
    if outside:  # C would cut them off without a word
        raise OutOfRangeError(f"{name} has {min(found)} to {max(found)}, which are no sizes")
    return made
