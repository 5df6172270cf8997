# SPDX-License-Identifier: MIT
"""Memory that leaves its device for requests that lack memory, and returns when it is used."""

from __future__ import annotations

import contextlib
import itertools
import operator
import warnings
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional

from ._errors import HipvmmError, InvalidArgumentError, OutOfMemoryError
from ._handle import HeldHandle, Owner, callback_of
from ._library import (
    CALLBACK_RAISED,
    FillCallback,
    get_address,
    get_struct,
    get_text,
    keep_callback_error,
    lib,
    options_text,
)
from ._library import EvictableStatistics as _CStatistics
from .device import (
    device_or_current,
    is_host_accessible,
    ordinal_in_torch,
    stream_value,
    synchronize,
)
from .sleep import tag_bytes

__all__ = ["Evictable", "EvictableModule", "EvictableStatistics", "EvictableUse", "evictable"]

_ALIGNMENT = 256  # bytes, of tensors
_numbers = itertools.count(1)
_modules: weakref.WeakSet[Any] = weakref.WeakSet()


@dataclass(frozen=True)
class EvictableStatistics:
    """Counts and bytes of evictions and returns.

    refused_in_use, refused_by_failure: times that requests met memory in use, or that could not
    sleep; reason: the last such failure.
    """

    evictions: int
    returns: int
    evicted_bytes: int
    returned_bytes: int
    refused_in_use: int
    refused_by_failure: int
    reason: str


class EvictableUse:
    """A use of evictable memory, until done() or the end of a with statement.

    One that is dropped is done, with a ResourceWarning.
    """

    _held: Optional[HeldHandle] = None

    def __init__(self, held: HeldHandle, stream: Any, writes: bool) -> None:
        self._stream = stream
        lib().evictable_use(held.value, stream_value(stream), int(writes))
        self._held = held

    def __del__(self) -> None:
        held = self._held
        if held is None or not held.alive or not held.is_own:
            return
        warnings.warn("an EvictableUse was dropped before done(): use a with statement",
                      ResourceWarning, source=self)
        with contextlib.suppress(HipvmmError):
            self.done()

    def done(self) -> None:
        """All work of the use is in the stream, or ordered before it. A second call does nothing."""
        if self._held is not None:
            lib().evictable_done(self._held.value, stream_value(self._stream))
            self._held = None

    def __enter__(self) -> EvictableUse:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.done()


class Evictable(Owner):
    """Has the memory of a tag evicted if a request of this process lacks memory of the device.

    >>> cache = hipvmm.GrowableArray("float16", sleep_tag="cache")
    >>> evictable = hipvmm.Evictable("cache", priority=-1)
    >>> with evictable.use(stream):            # back at the same addresses, until the end
    ...     cache.append(rows, stream=stream)

    Idle memory of pools, arenas and arrays goes first, then evictables of the lowest priority, of
    these those that were used least recently. Nothing is evicted in a use, nor while its work may
    run. All calls that need the memory, and all work on it, belong in a use: others raise
    InvalidStateError, or meet addresses without memory. One that is made waits for all work that
    may use the memory.

    tag: what objects are made with, by their option sleep_tag. A tag has one Evictable.
    storage, folder: as of suspend(). "pinned_kept", the default, keeps a copy on the host: memory
        that was not written since it came back is then evicted without a copy.
    fill: called as fill(stream), a hipStream_t as a number, when the memory is back, to write its
        contents by work in that stream; evictions then copy nothing. Its exceptions leave use().
    """

    _destroy_function = "evictable_destroy"

    def __init__(self, tag: str, *, device: Optional[int] = None, priority: int = 0,
                 storage: Optional[str] = None, folder: Any = None,
                 fill: Optional[Callable[[int], Any]] = None) -> None:
        if fill is not None and not callable(fill):
            raise InvalidArgumentError("fill must be a function")

        def call(stream: Optional[int], _: Any) -> int:
            try:
                fill(stream or 0)  # type: ignore[misc]
                return 0
            except BaseException as error:  # it comes out of use()
                keep_callback_error(error)
                return CALLBACK_RAISED

        self._device = device_or_current(device)
        called = FillCallback() if fill is None else callback_of(FillCallback, call)
        text = options_text(
            {"priority": operator.index(priority), "storage": storage, "folder": folder})
        handle = get_address(lib().evictable_create, tag_bytes(tag), self._device, text, called,
                             None)
        self._held = HeldHandle(self._destroy_function, handle, called)

    @property
    def device(self) -> int:
        """The device of the memory."""
        return self._device

    def use(self, stream: Any = None, *, writes: bool = True) -> EvictableUse:
        """Brings the memory back, if it was evicted, before it returns, and begins a use.

        writes: False if the contents stay as they are. If it needs memory of other evictables, it
        waits for the work of their ended uses. Raises OutOfMemoryError; then all is as before.
        """
        return EvictableUse(self._hold(), self._stream(stream), writes)

    def prefetch(self, stream: Any = None) -> bool:
        """Brings the memory back ahead of its use, and waits for no work.

        Returns False if the memory is not to be had now: a later use() may get it.
        """
        try:
            lib().evictable_prefetch(self.handle, stream_value(self._stream(stream)))
        except OutOfMemoryError:
            return False
        return True

    def statistics(self) -> EvictableStatistics:
        """What has happened so far."""
        now = get_struct(_CStatistics, lib().evictable_get_statistics, self.handle)
        return EvictableStatistics(
            now.evictions, now.returns, now.evicted_bytes, now.returned_bytes, now.refused_in_use,
            now.refused_by_failure, get_text(lib().evictable_reason, self.handle))

    def _stream(self, stream: Any) -> Any:
        return stream


class _Piece:
    """Neighbouring bytes that tensors use, which may be views of each other."""

    def __init__(self, begin: int, end: int, tensor: Any) -> None:
        self.begin = begin // 16 * 16  # so that elements of any type stay aligned
        self.end = end
        self.tensors = [tensor]

    @property
    def room(self) -> int:
        return -(-(self.end - self.begin) // _ALIGNMENT) * _ALIGNMENT

    def move(self, memory: Any, moved: Dict[int, Any]) -> None:
        """Copies all to `memory`, and adds tensors there, by the identity of the old ones."""
        for each in self.tensors:
            first = each.data_ptr() - self.begin if each.numel() else 0
            every = memory[first:first + _span(each)].view(each.dtype)
            every.copy_(each.as_strided(every.shape, (1,), each.storage_offset()))
            moved[id(each)] = every.as_strided(each.shape, each.stride(), every.storage_offset())


def _span(tensor: Any) -> int:
    """Bytes from the first to the last element, with those between them."""
    if tensor.numel() == 0:
        return 0
    last = sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()


def _pieces(tensors: Iterable[Any]) -> List[_Piece]:
    """The memory of different tensors, each byte once. Raises InvalidArgumentError."""
    import torch

    different = {id(each): each for each in tensors}.values()  # modules may share them
    for each in different:
        if each.layout != torch.strided:
            raise InvalidArgumentError(f"the module has a tensor of {each.layout}: make it dense")
        if any(one.has(each) for one in _modules):
            raise InvalidArgumentError(
                "the module shares a tensor with one that is evictable already: make one of both")
    pieces: List[_Piece] = []
    for each in sorted(different, key=lambda one: (str(one.device), one.data_ptr(), _span(one))):
        begin = each.data_ptr()
        end = begin + _span(each)
        before = pieces[-1] if pieces else None
        if before and begin < before.end and each.device == before.tensors[0].device:
            before.end = max(before.end, end)
            before.tensors.append(each)
        else:
            pieces.append(_Piece(begin, end, each))
    return pieces


class EvictableModule(Evictable):
    """A module of PyTorch whose parameters and buffers are evictable: see evictable().

    Streams are PyTorch's current one by default.
    """

    def __init__(self, module: Any, *, device: Any = None, **options: Any) -> None:
        import torch

        from .reserved import ReservedTensor

        ordinal = ordinal_in_torch(device)
        self._is_on_host = is_host_accessible(ordinal)
        pieces = _pieces(itertools.chain(module.parameters(), module.buffers()))
        nbytes = sum(piece.room for piece in pieces)
        if nbytes == 0:
            raise InvalidArgumentError("the module has neither parameters nor buffers")
        tag = f"hipvmm.torch.evictable {next(_numbers)}"
        self._memory = ReservedTensor((nbytes,), torch.uint8, ordinal, sleep_tag=tag)
        try:
            self._memory.commit(nbytes)
        except OutOfMemoryError:
            synchronize(ordinal)  # work of evictables' uses, which no request waits for
            self._memory.commit(nbytes)
        super().__init__(tag, device=ordinal, **options)
        with self.use(), torch.no_grad():
            moved: Dict[int, Any] = {}
            offset = 0
            for piece in pieces:
                piece.move(self._memory.tensor[offset:offset + piece.room], moved)
                offset += piece.room
            for part in module.modules():
                for name, each in part._buffers.items():
                    if each is not None:
                        part._buffers[name] = moved[id(each)]
            for each in module.parameters():
                each.data = moved[id(each)]
                if each.grad is not None:  # an optimizer needs both on one device
                    each.grad = each.grad.to(each.device)
        self.nbytes = nbytes
        _modules.add(self)

    def has(self, tensor: Any) -> bool:
        """Whether a tensor's memory is this one's, and may be evicted."""
        first = self._memory.tensor.data_ptr()
        return not self.closed and first <= tensor.data_ptr() < first + self.nbytes

    def _stream(self, stream: Any) -> Any:
        if stream is not None or self._is_on_host:
            return stream
        import torch

        return torch.cuda.current_stream(self._device)


def evictable(module: Any, *, device: Any = None, priority: int = 0, storage: Optional[str] = None,
              folder: Any = None, fill: Optional[Callable[[int], Any]] = None) -> EvictableModule:
    """Moves a module's parameters and buffers into memory of `device` that can be evicted.

    >>> layers = [hipvmm.torch.evictable(layer, priority=n) for n, layer in enumerate(model.layers)]
    >>> for layer, held in zip(model.layers, layers):
    ...     with held.use(writes=False):
    ...         x = layer(x)

    Use the module within use() of what it returns, which is to be held as long as the module: the
    memory stays as it is when that ends. Addresses stay for good, so that captured graphs may be
    launched in a use. Gradients that are there move to the device, and stay. Strides stay, and so
    do views of one memory. All of a module comes and goes at once; make it of parts that are used
    one after the other. Modules that share a tensor belong in one: the second is refused. Options:
    as Evictable.
    """
    return EvictableModule(module, device=device, priority=priority, storage=storage,
                           folder=folder, fill=fill)
