# SPDX-License-Identifier: MIT
"""Layers of transformers' StaticCache whose memory follows the tokens."""

from __future__ import annotations

import copy
from typing import Any, Dict, Optional, Tuple

import torch
from transformers.cache_utils import StaticCache, StaticLayer

from ._errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from .reserved import ReservedTensor, reserve

_FIRST = 256  # tokens of the first view
_NO_OFFLOAD = ("layers of a GrowingStaticCache are not offloaded: use GrowingCache(offloading=True), "
               "or transformers' StaticCache(offloading=True)")
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def _mark_static(*tensors: Any) -> None:
    """Tells torch.compile that the addresses of these stay."""
    mark = getattr(getattr(torch, "_dynamo", None), "mark_static_address", None)
    if mark is not None and not _is_compiling():
        for each in tensors:
            mark(each)


class GrowingStaticLayer(StaticLayer):
    """A layer of a StaticCache of which only a part has memory.

    `keys` and `values` have the full length and one address from the first token on; the memory
    is that of the first `view_length` tokens. update() returns these: a power of two that holds all
    tokens, 256 at least, with zeros behind the tokens. A model that is compiled is compiled again
    when the view changes, `view_changes` times so far, and captured graphs are to be captured again.

    make_room() changes the view, before the model runs: compiled code cannot. update() calls it by
    itself outside of compiled code.
    """

    # Where StaticLayer has one, a subclass that inherits it registers itself.
    _layer_type = None

    def __init__(self, max_cache_len: int, **kwargs: Any) -> None:
        super().__init__(max_cache_len, **kwargs)
        self.view_length = self.view_changes = 0
        self._memory: Optional[ReservedTensor] = None
        self._views: Tuple[Any, Any] = (None, None)
        self._at_most = 0  # tokens, as far as the host knows without waiting for the device

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        """Reserves addresses for all tokens; there is no memory before the first."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.batch_size, self.num_heads = key_states.shape[:2]
        self.k_head_dim, self.v_head_dim = key_states.shape[-1], value_states.shape[-1]
        self._reserve(*((*each.shape[:2], each.shape[-1]) for each in (key_states, value_states)))
        self.is_initialized = True

    @property
    def held_bytes(self) -> int:
        """Bytes of the device that the layer has backed."""
        return 0 if self._memory is None else self._memory.held_bytes

    def make_room(self, tokens: int) -> None:
        """Makes the view hold so many tokens more, before a model is run on them.

        Waits for the device if the view may be too short. Raises OutOfRangeError beyond
        max_cache_len, and as ReservedTensor.commit(); then nothing has changed.
        """
        if self._memory is None:
            return
        if self._at_most + tokens > self.view_length:
            self._at_most = int(self.cumulative_length)
            self._grow(self._view_of(self._at_most + tokens))
        self._at_most += tokens

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> Any:
        """Appends tokens, and returns keys and values of the view."""
        count = key_states.shape[-2]
        if not _is_compiling():
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            self._require_tokens(key_states, value_states)
            self.make_room(count)
        positions = torch.arange(count, device=self.device) + self.cumulative_length
        keys, values = self._views
        keys.index_copy_(2, positions, key_states)
        values.index_copy_(2, positions, value_states)
        self.cumulative_length.add_(count)
        return keys, values

    def get_mask_sizes(self, query_length: int) -> Tuple[int, int]:
        """The length of the view that holds so many tokens more, and 0."""
        if self._memory is None:
            return self._view_of(query_length), 0
        if not _is_compiling():
            self.make_room(query_length)
        return self.view_length, 0

    def reset(self) -> None:
        """Drops all tokens, and releases their memory; the address stays."""
        if self._memory is not None:
            self._memory.commit(0)  # raises if the memory sleeps
            self.view_length = self._at_most = 0
            self._views = (None, None)
            self.cumulative_length.zero_()
            self._memory.decommit()

    def reorder_cache(self, beam_idx: Any) -> None:
        """Replaces each sequence of the batch by another one, in place."""
        if self._memory is None:
            return
        if tuple(beam_idx.shape) != (self.batch_size,):
            raise InvalidArgumentError(
                f"indices have the shape {tuple(beam_idx.shape)}, and must be one for each of the "
                f"{self.batch_size} sequences, of which a static cache has neither more nor fewer")
        self._memory.commit(0)
        for view in self._views if self.view_length else ():
            view.copy_(view.index_select(0, beam_idx.to(view.device)))

    def offload(self) -> None:
        """Raises UnsupportedError."""
        raise UnsupportedError(_NO_OFFLOAD)

    def __getstate__(self) -> Dict[str, Any]:
        state = {**self.__dict__, "_memory": None, "keys": None, "values": None,
                 "_views": (None, None),
                 "cumulative_length": self.cumulative_length.clone()}
        if self._memory is not None:
            self._memory.commit(0)
            # Their storage ends with the view: a copy of all layers may not fit the device.
            state["_rows"] = (self._memory.first_rows(self.view_length), *(
                (*each.shape[:2], each.shape[-1]) for each in (self.keys, self.values)))
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        found = self.__dict__.pop("_rows", None)
        if found is not None:
            rows, *shapes = found
            length, self.view_length = self.view_length, 0
            self._reserve(*shapes)
            self._grow(length)
            if length:
                with torch.no_grad():
                    self._memory.tensor[:length].copy_(rows)  # type: ignore[union-attr]
            self.view_changes = state["view_changes"]

    def __deepcopy__(self, memo: Dict[int, Any]) -> "GrowingStaticLayer":
        made = memo[id(self)] = type(self).__new__(type(self))
        state = self.__getstate__()
        rows = state.pop("_rows", None)  # that `memo` would keep until the whole cache is copied
        state = copy.deepcopy(state, memo)
        made.__setstate__(state if rows is None else {**state, "_rows": rows})
        return made

    def _reserve(self, keys: Any, values: Any) -> None:
        """Makes the tensors of all tokens: a row for each, all keys of the token, then its values."""
        (batch, heads, width), (_, value_heads, value_width) = keys, values
        split, length = batch * heads * width, self.max_cache_len
        try:
            self._memory = reserve((length, split + batch * value_heads * value_width), self.dtype,
                                   self.device)
        except (InvalidArgumentError, UnsupportedError) as why:
            raise UnsupportedError(
                f"keys and values on {self.device} have no memory that follows their length: use "
                f"transformers' StaticCache ({why})") from why
        with torch.inference_mode(False):
            rows = self._memory.tensor
            self.keys = rows[:, :split].view(length, *keys).permute(1, 2, 0, 3)
            self.values = rows[:, split:].view(length, *values).permute(1, 2, 0, 3)
            self.cumulative_length = self.cumulative_length.to(self.device)
        _mark_static(self.cumulative_length)

    def _require_tokens(self, *states: Any) -> None:
        """Raises InvalidArgumentError, before one of two is written, if the other cannot be."""
        for name, own, given in zip(("keys", "values"), (self.keys, self.values), states):
            wanted = (*own.shape[:2], states[0].shape[-2], own.shape[-1])
            if (tuple(given.shape), given.dtype, given.device) != (wanted, own.dtype, own.device):
                raise InvalidArgumentError(
                    f"{name} are {given.dtype} of the shape {tuple(given.shape)} on {given.device}, "
                    f"and must be {own.dtype} of the shape {wanted} on {own.device}")

    def _view_of(self, tokens: int) -> int:
        if tokens > self.max_cache_len:
            raise OutOfRangeError(
                f"{tokens} tokens are more than max_cache_len, {self.max_cache_len}")
        return min(max(_FIRST, 1 << (tokens - 1).bit_length()), self.max_cache_len)

    def _grow(self, length: int) -> None:
        if length > self.view_length:
            self._memory.commit(length)  # type: ignore[union-attr]
            with torch.no_grad():  # masked tokens must be finite
                self._memory.tensor[self.view_length:length].zero_()  # type: ignore[union-attr]
            self.view_length, self.view_changes = length, self.view_changes + 1
            # Each has a storage of its own that ends with the view: compiled code may copy all of a
            # storage that it writes, and takes tensors of one storage for one.
            with torch.inference_mode(False):
                self._views = tuple(  # type: ignore[assignment]
                    self._memory.first_rows(length).flatten().as_strided(  # type: ignore[union-attr]
                        (*each.shape[:2], length, each.shape[3]), each.stride(), each.storage_offset())
                    for each in (self.keys, self.values))
            _mark_static(*self._views)


class GrowingStaticCache(StaticCache):
    """A StaticCache whose full-attention layers are GrowingStaticLayers; arguments are the same.

    >>> cache = hipvmm.transformers.GrowingStaticCache(config=model.config, max_cache_len=131072)
    >>> model.generate(**inputs, past_key_values=cache)

    generate() asks for the sizes of masks before each step, which makes room for it. A loop of your
    own that runs compiled code or captured graphs calls make_room() before each step.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.layers = [GrowingStaticLayer(each.max_cache_len) if type(each) is StaticLayer else each
                       for each in self.layers]
        if self.offloading:
            raise UnsupportedError(_NO_OFFLOAD)

    def make_room(self, tokens: int) -> None:
        """Makes room for so many tokens more in all layers: see GrowingStaticLayer.make_room().

        If it fails, layers may have got room before the one that did not; call it again.
        """
        for each in self.layers:
            if isinstance(each, GrowingStaticLayer):
                each.make_room(tokens)

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> Tuple[int, int]:
        """The sizes of a layer, in which all layers have room then."""
        if not _is_compiling():
            self.make_room(query_length)
        return super().get_mask_sizes(query_length, layer_idx)

    @property
    def view_length(self) -> int:
        """The tokens that update() returns, in layers of full attention."""
        return max((getattr(each, "view_length", 0) for each in self.layers), default=0)

    @property
    def view_changes(self) -> int:
        """How often view_length has changed: a compiled model is compiled again as often."""
        return max((getattr(each, "view_changes", 0) for each in self.layers), default=0)

    @property
    def held_bytes(self) -> int:
        """Bytes of devices that the layers have backed."""
        return sum(getattr(each, "held_bytes", 0) for each in self.layers)
