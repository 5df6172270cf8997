# SPDX-License-Identifier: MIT
"""SharedRows: memory that grows in place, of which several owners have the first blocks in common."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional

from ._errors import HipvmmError, OutOfMemoryError
from ._handle import finalizers
from .device import provider
from .kv_cache import _BLOCK_UNIT
from .slots import SlotArena

_OWNERS = 4  # at a time: each has as many addresses as the first


def current_stream(device: int) -> Any:
    """PyTorch's current stream, as a number."""
    import torch

    return None if provider() == "host" else torch.cuda.current_stream(device).cuda_stream


class _Slot:
    """A slot of an arena, which is free again after the last object that holds it."""

    def __init__(self, arena: SlotArena) -> None:
        with finalizers:
            self.streams = [current_stream(arena.device)]  # that has changed its length last
            self.arena, self.value = arena, arena.acquire(self.streams[0])
            finalizers.add(self, _release, arena, self.value, self.streams)

    def require_own(self, name: str) -> None:
        """As that of a HeldHandle."""
        self.arena._hold().require_own(name)


def _release(arena: SlotArena, slot: int, streams: List[Any]) -> None:
    try:
        arena.release(slot, streams[0])
        arena.trim()  # if its work has passed; else the next growth of another owner
    except HipvmmError:
        pass  # the end of the arena does; a child of fork() leaves that of its parent


class SharedRows:
    """Bytes in a slot of an arena, as a GrowableArray has them; the length is that of whole blocks.

    Nobody may write to shared blocks before make_own().
    """

    def __init__(self, slot: _Slot, members: Dict[int, Any], shared: int = 0) -> None:
        self._slot, self._arena, self.shared = slot, slot.arena, shared
        self._members = members  # by slot; the first that lives counts what they share
        members[slot.value] = weakref.ref(self)

    @classmethod
    def beside(cls, array: Any, nbytes: int) -> "SharedRows":
        """Empty rows with as many addresses as an array, in blocks of a 32nd of so many bytes."""
        block = -(-nbytes // 32 // _BLOCK_UNIT) * _BLOCK_UNIT
        arena = SlotArena(_OWNERS, array.max_size, device=array.device, block=block, prefetch=0)
        return cls(_Slot(arena), {})

    def share(self, nbytes: int) -> Optional["SharedRows"]:
        """Rows whose first bytes are these, as far as blocks are whole; None if there is no slot."""
        whole = nbytes // self._arena.block_bytes * self._arena.block_bytes
        try:
            slot = _Slot(self._arena)
        except OutOfMemoryError:
            return None
        self._arena.share_prefix(self._slot.value, [slot.value], whole, slot.streams[0])
        self.shared = max(self.shared, whole)
        made = SharedRows(slot, self._members, whole)
        made.resize_uninitialized(nbytes)
        return made

    def make_own(self, offset: int) -> None:
        """Copies the shared blocks from an offset on, so that they may be written."""
        if offset < self.shared:
            stream = self._slot.streams[0] = current_stream(self.device)
            self._arena.make_writable(self._slot.value, offset, self.shared - offset, stream)
            self.shared = offset // self._arena.block_bytes * self._arena.block_bytes

    @property
    def capacity(self) -> int:
        """Bytes that are backed."""
        return self._arena.length(self._slot.value)

    @property
    def held_bytes(self) -> int:
        """The same, without the blocks that an owner before this one counts."""
        living = (one() for one in list(self._members.values()))
        owners = [each for each in living if each is not None]
        if owners[0] is not self:
            return self.capacity - self.shared
        return self._arena.statistics().held_bytes - sum(each.held_bytes for each in owners[1:])

    @property
    def max_size(self) -> int:
        """Bytes of addresses."""
        return self._arena.bytes_per_slot

    @property
    def ptr(self) -> int:
        """The address of the first byte."""
        return self._arena.pointer(self._slot.value)

    @property
    def device(self) -> int:
        """The device of the memory."""
        return self._arena.device

    def resize_uninitialized(self, nbytes: int) -> None:
        """Changes the length to that of the blocks of so many bytes."""
        block, slot = self._arena.block_bytes, self._slot.value
        length = min(-(-nbytes // block) * block, self.max_size)
        stream = self._slot.streams[0] = current_stream(self.device)
        if length < self.capacity:
            self._arena.truncate(slot, length, stream)
            self.shared = min(self.shared, length)
        else:
            self._arena.commit([slot], [length], stream)
            self._arena.trim()  # what owners had that have ended

    def shrink_to_fit(self, stream: Any, *, replace_tail: bool) -> int:
        """Releases the memory of bytes that no owner has, once their work has passed."""
        return self._arena.trim()

    def _hold(self) -> _Slot:
        self._arena._hold()
        return self._slot

    def _require_awake(self) -> None:
        self._arena._require_awake()
