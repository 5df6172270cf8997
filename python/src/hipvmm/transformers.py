# SPDX-License-Identifier: MIT
"""Keys and values of transformers' generate() in memory that grows in place.

    import hipvmm.transformers

    cache = hipvmm.transformers.GrowingCache(config=model.config)
    model.generate(**inputs, past_key_values=cache)

or, so that every unmodified generate() of the process uses it::

    hipvmm.transformers.install()

or only a part of a program::

    with hipvmm.transformers.install():
        ...

transformers' DynamicCache copies all keys and values at each step, and holds them twice meanwhile.
Here new tokens are written behind those that are there. Needs transformers 5.15 or newer. Layers of
sliding windows, and others that hold little, stay as transformers makes them.

GrowingStaticCache is a StaticCache, for torch.compile and captured graphs, whose memory follows the
tokens.
"""

from __future__ import annotations

import copy
import operator
import threading
from typing import Any, Callable, Dict, Optional

import torch
from transformers import cache_utils

from ._errors import HipvmmError, InvalidArgumentError, InvalidStateError, UnsupportedError

if not hasattr(cache_utils, "DYNAMIC_LAYER_TYPE_MAPPING"):
    import transformers

    raise UnsupportedError(
        f"transformers {transformers.__version__} has no DYNAMIC_LAYER_TYPE_MAPPING: install 5.15, "
        "the oldest release that this module supports, or newer")

from transformers.cache_utils import DynamicCache, DynamicLayer

from ._static_cache import GrowingStaticCache, GrowingStaticLayer, _is_compiling
from ._tokens import Tokens, kind_of, ordinal_of, rows_of, storage_of, views_of

__all__ = [
    "GrowingCache",
    "GrowingLayer",
    "GrowingStaticCache",
    "GrowingStaticLayer",
    "install",
    "is_installed",
    "uninstall",
]

_LAYER_TYPE = "full_attention"


class GrowingLayer(DynamicLayer):
    """A layer of a cache whose keys and values grow in place, for full attention.

    `keys` and `values` are views, (batch, heads, length, head_dim), of one memory. Its address
    stays until reset(), offload(), the first copy, or a crop() that leaves nothing; on ROCm 6.1 to
    7.2 also until less than half of the memory is used. Earlier views change with reorder_cache()
    and the like, and with tokens written after crop().

    If tokens cannot be written in place, the layer concatenates as DynamicLayer does: keys that
    need gradients, tensors of devices that hipvmm does not serve, tokens of another dtype, and
    everything within torch.compile. The next update() that can write in place moves the earlier
    tokens to its memory as well.

    Copies share whole blocks of tokens. update(), reorder_cache() and the like copy a shared block
    before they write to it; your own writes to one are an illegal address. When a copy ends, blocks
    return behind the work of the stream in which its length changed last: let that stream wait for
    others that read it. pickle takes the contents of a layer.
    """

    # Where DynamicLayer has one, a subclass that inherits it registers itself.
    _layer_type = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tokens: Optional[Tokens] = None
        self._is_offloaded = False

    @classmethod
    def from_layer(cls, layer: Any) -> "GrowingLayer":
        """A layer with the tokens of a DynamicLayer, which move with the next update."""
        made = cls()
        made.__dict__.update(layer.__dict__)
        return made

    @property
    def held_bytes(self) -> int:
        """Bytes of the device that the layer has backed; 0 while its memory is not hipvmm's."""
        tokens = self._tokens
        is_own = tokens is not None and tokens.are_views(self.keys, self.values)
        return tokens.held_bytes if is_own else 0  # type: ignore[union-attr]

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> Any:
        """Appends tokens, and returns all keys and values. A call that fails changes nothing."""
        if _is_compiling():
            return super().update(key_states, value_states, *args, **kwargs)
        if self._tokens is not None:
            found = self._tokens.write_next(self.keys, self.values, key_states, value_states)
            if found is not None:
                self.keys, self.values = found
                return found
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        tokens, first = self._memory_for(key_states, value_states), self.get_seq_length()
        if tokens is None:
            self._take(None, *(torch.cat([old, new], dim=-2) for old, new in (
                (self.keys, key_states), (self.values, value_states))))
        else:
            tokens.write(first, key_states, value_states)
            self._take(tokens, *tokens.views(first + key_states.shape[2]))
        return self.keys, self.values

    def crop(self, *args: Any, **kwargs: Any) -> None:
        """Removes tokens as DynamicLayer does; memory far beyond the rest is released."""
        count, tokens = self.get_seq_length(), self._own()
        if count == 0:
            return
        if tokens is not None and len(args) == 1:
            gone = operator.index(args[0])  # assisted decoding gives a tensor
            if -count < gone <= 0:
                self._trim(tokens, count + gone)
                return
        super().crop(*args, **kwargs)
        count = self.get_seq_length()
        if count == 0:
            self._take(None, *(each.new_empty(each.shape) for each in (self.keys, self.values)))
        elif tokens is not None:
            self._trim(tokens, count)

    def reset(self) -> None:
        """Drops all tokens, and releases their memory."""
        self._take(None, None, None)
        self.is_initialized = False
        super().reset()

    def offload(self) -> None:
        """Copies keys and values to the CPU, and releases the memory of the device."""
        tokens = self._own()
        if tokens is None:
            super().offload()
            return
        rows = tokens.rows(self.keys.shape[2])  # keys and values in one copy
        self._take(None, *views_of(
            torch.empty(rows.shape, dtype=rows.dtype, device="cpu").copy_(rows, non_blocking=True),
            tokens.kind))
        self._is_offloaded = True

    def prefetch(self) -> None:
        """Brings offloaded tokens back, into memory that grows."""
        if self._is_offloaded:
            self._move_to(ordinal_of(self.device))
        else:
            super().prefetch()

    def reorder_cache(self, beam_idx: Any) -> None:
        """Replaces each sequence of the batch by another one, in place."""
        if not self._select(lambda every: every.index_select(0, beam_idx.to(every.device))):
            super().reorder_cache(beam_idx)

    def batch_repeat_interleave(self, repeats: Any) -> None:
        """Repeats each sequence of the batch, in place."""
        if not self._select(lambda every: every.repeat_interleave(repeats, dim=0)):
            super().batch_repeat_interleave(repeats)

    def batch_select_indices(self, indices: Any) -> None:
        """Keeps some sequences of the batch, in place."""
        if not self._select(lambda every: every[indices, ...]):
            super().batch_select_indices(indices)

    def __copy__(self) -> "GrowingLayer":
        made = type(self).__new__(type(self))
        if self._own() is None:
            made.__dict__.update(self.__dict__)
        else:  # two layers with one memory would write over each other's tokens
            made.__dict__.update({**self.__dict__, "_tokens": None})
            twin = self._twin()
            if twin is None:
                made._move_to(ordinal_of(self.device))
            else:
                made._take(twin, *twin.views(self.keys.shape[2]))
        return made

    def __deepcopy__(self, memo: Dict[int, Any]) -> "GrowingLayer":
        made = copy.copy(self)
        memo[id(self)] = made
        own = ("_tokens", "keys", "values")
        made.__dict__.update({name: copy.deepcopy(value, memo)
                              for name, value in self.__dict__.items() if name not in own})
        if made._tokens is None:
            # Not a deepcopy of a clone, which `memo` would keep until the whole cache is copied.
            made.keys, made.values = (
                copy.deepcopy(each, memo) if each is None or each.requires_grad
                else each.clone(memory_format=torch.contiguous_format)
                for each in (self.keys, self.values))
        return made

    def __getstate__(self) -> Dict[str, Any]:
        tokens, state = self._own(), {**self.__dict__, "_tokens": None}
        # Rows are stored as they are: a second copy of all layers may not fit the device.
        rows = (rows_of(self.keys, self.values) if tokens is None
                else tokens.rows(self.keys.shape[2]))
        if rows is None or not _is_whole(rows):
            return {**state, "keys": _contents(self.keys), "values": _contents(self.values)}
        return {**state, "keys": None, "values": None,
                "_rows": (rows, kind_of(self.keys, self.values))}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        rows = self.__dict__.pop("_rows", None)
        if rows is not None:
            self.keys, self.values = views_of(*rows)

    def _own(self) -> Optional[Tokens]:
        """The memory that keys and values are views of; others may have assigned other tensors."""
        if self._tokens is not None and not self._tokens.are_views(self.keys, self.values):
            self._tokens = None
        if self._tokens is not None:
            self._tokens.require_awake()
        return self._tokens

    def _take(self, tokens: Optional[Tokens], keys: Any, values: Any) -> None:
        self._tokens, self.keys, self.values, self._is_offloaded = tokens, keys, values, False

    def _memory_for(self, keys: Any, values: Any) -> Optional[Tokens]:
        """The memory that tokens can be appended to; None if they cannot be written in place."""
        # A subclass of Tensor may stand for several devices, or for no memory at all.
        if type(keys) is not torch.Tensor or type(values) is not torch.Tensor:
            return None
        kind, own = kind_of(keys, values), self._own()
        if (kind is None or kind[0] != kind[1] or kind[2][0] != kind[3][0]
                or keys.device != values.device):
            return None
        if torch.is_grad_enabled() and any(
                each.requires_grad for each in (keys, values, self.keys, self.values)):
            return None
        if own is not None:
            return own if own.kind == kind and self.keys.device == keys.device else None
        ordinal = ordinal_of(keys.device)
        if ordinal is None:
            return None
        if self.get_seq_length() > 0:
            if kind_of(self.keys, self.values) != kind:
                return None
            self._move_to(ordinal)
            return self._tokens
        return Tokens(ordinal, keys, values) if keys.numel() > 0 else None

    def _move_to(self, ordinal: Any) -> None:
        """Copies all tokens to memory of their own that grows."""
        tokens = Tokens(ordinal, self.keys, self.values)
        tokens.write(0, self.keys, self.values)
        self._take(tokens, *tokens.views(self.keys.shape[2]))

    def _twin(self) -> Optional[Tokens]:
        """Memory for a copy that shares the blocks of all tokens; None if these are to be copied."""
        count = self.keys.shape[2]
        tokens = self._tokens.shareable(count)  # type: ignore[union-attr]
        if tokens is None:
            return None
        if tokens is not self._tokens:
            self._take(tokens, *tokens.views(count))
        return tokens.twin(count)

    def _select(self, choose: Callable[[Any], Any]) -> bool:
        """Has `choose` select from the numbers of the batch; False if that is DynamicLayer's."""
        tokens = self._own()
        if tokens is None:
            return False
        indices = choose(torch.arange(self.keys.shape[0], device=self.keys.device))
        if indices.dim() != 1:
            raise InvalidArgumentError(
                f"indices of a batch have {indices.dim()} dimensions, and must have 1")
        if len(indices) == 0:
            return False
        count = self.get_seq_length()
        tokens.select(indices, count)
        self._trim(tokens, count)
        return True

    def _trim(self, tokens: Tokens, count: int) -> None:
        """Keeps the first tokens, and releases memory that they do not need, if that is much."""
        self._take(tokens, *tokens.views(count))
        if not tokens.has_slack(count):
            return
        try:  # the tokens are gone already: memory that cannot be released serves later ones
            if tokens.returns_with_addresses:
                self._move_to(ordinal_of(self.device))
                return
            tokens.trim(count)
        except HipvmmError:
            pass
        self._take(tokens, *tokens.views(count))  # their storage ends with the memory


def _contents(tensor: Any) -> Any:
    """A tensor whose storage is its elements, so that no address without memory is read."""
    if tensor is None or tensor.requires_grad or _is_whole(tensor):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _is_whole(tensor: Any) -> bool:
    """Whether a tensor is all of its storage, in order."""
    return bool(tensor.is_contiguous() and
                storage_of(tensor).nbytes() == tensor.numel() * tensor.element_size())


class GrowingCache(DynamicCache):
    """A DynamicCache with GrowingLayers for full attention; arguments are the same.

    >>> cache = hipvmm.transformers.GrowingCache(config=model.config)
    >>> model.generate(**inputs, past_key_values=cache)

    Without a config all layers are. A cache is used by one thread at a time.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.layers = [GrowingLayer.from_layer(each) if type(each) is DynamicLayer else each
                       for each in self.layers]
        if self.layer_class_to_replicate is DynamicLayer:
            self.layer_class_to_replicate = GrowingLayer

    def crop(self, *args: Any, **kwargs: Any) -> None:
        """Removes tokens of all layers, or of none if a window has lost those before them."""
        layers = self.layers
        self.layers = sorted(layers, key=lambda each: isinstance(each, GrowingLayer))
        try:
            for each in layers:
                if isinstance(each, GrowingLayer):
                    each._own()  # raises if the memory sleeps
            super().crop(*args, **kwargs)
        finally:
            self.layers = layers

    @property
    def held_bytes(self) -> int:
        """Bytes of devices that the layers have backed."""
        return sum(getattr(each, "held_bytes", 0) for each in self.layers)


_lock = threading.RLock()


class _Installation:
    """The result of install(): the end of the last with statement undoes the installation, unless
    it was made without one."""

    _open = 0  # with statements, of all threads
    _lasts = False

    def __init__(self, made_it: bool) -> None:
        self._made_it = made_it

    def __enter__(self) -> None:
        with _lock:
            if not is_installed():  # since the last with statement, or uninstall()
                self._made_it = install()._made_it
            if self._made_it or _Installation._open == 0:
                _Installation._lasts = not self._made_it
            _Installation._open += 1

    def __exit__(self, *exception: Any) -> None:
        with _lock:
            self._made_it = False
            _Installation._open -= 1
            if _Installation._open == 0 and not _Installation._lasts:
                uninstall()


def install() -> _Installation:
    """Has each DynamicCache(config=...) from now on, and so each generate(), use GrowingLayer.

    Caches that exist stay as they are. A second call does nothing. Raises InvalidStateError if
    another package has replaced transformers' layer.
    """
    with _lock:
        found = cache_utils.DYNAMIC_LAYER_TYPE_MAPPING[_LAYER_TYPE]
        if found is GrowingLayer:
            return _Installation(False)
        if found is not DynamicLayer:
            raise InvalidStateError(
                f"layers of {_LAYER_TYPE} are {found.__module__}.{found.__qualname__} already: "
                "undo that first, or pass past_key_values=GrowingCache(config=...)")
        cache_utils.DYNAMIC_LAYER_TYPE_MAPPING[_LAYER_TYPE] = GrowingLayer
        return _Installation(True)


def is_installed() -> bool:
    """Whether new caches use GrowingLayer."""
    return cache_utils.DYNAMIC_LAYER_TYPE_MAPPING[_LAYER_TYPE] is GrowingLayer


def uninstall() -> None:
    """Undoes install(): caches that exist keep their layers. Without an install() does nothing."""
    with _lock:
        if is_installed():
            cache_utils.DYNAMIC_LAYER_TYPE_MAPPING[_LAYER_TYPE] = DynamicLayer
