# SPDX-License-Identifier: MIT
"""A stand-in for transformers: the protocol of its caches (5.15 to 5.17), without any model.

Its layers concatenate, or are whole from the beginning, and so they are also the references that
caches are compared with.
"""

import types

import torch

class CacheLayerMixin:
    """The base of all layers. A class that names a _layer_type registers itself for it."""

    is_compileable = False
    is_croppable = False
    supports_early_init = True
    _layer_type = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if cls._layer_type is not None:
            is_static = issubclass(cls, StaticLayer)
            mapping = STATIC_LAYER_TYPE_MAPPING if is_static else DYNAMIC_LAYER_TYPE_MAPPING
            mapping[cls._layer_type] = cls

    def __repr__(self):
        return type(self).__name__

    def __init__(self, **kwargs):
        self.keys = self.values = None
        self.is_initialized = False

    def offload(self):
        if self.is_initialized:
            self.keys, self.values = self.keys.to("cpu"), self.values.to("cpu")

    def prefetch(self):
        if self.is_initialized and self.keys.device != self.device:
            self.keys, self.values = self.keys.to(self.device), self.values.to(self.device)

    def reset(self):
        if self.is_initialized:
            self.keys.zero_()
            self.values.zero_()
        if isinstance(getattr(self, "cumulative_length", None), int):
            self.cumulative_length = 0
        elif hasattr(self, "cumulative_length"):
            self.cumulative_length.zero_()

    def reorder_cache(self, beam_idx):
        if self.get_seq_length():
            self.keys = self.keys.index_select(0, beam_idx.to(self.keys.device))
            self.values = self.values.index_select(0, beam_idx.to(self.values.device))

    def get_max_cache_shape(self):
        return self.get_max_length()


class DynamicLayer(CacheLayerMixin):
    """Keys and values of all tokens, concatenated at each update."""

    is_sliding = False
    is_croppable = True

    def lazy_initialization(self, keys, values):
        self.dtype, self.device = keys.dtype, keys.device
        self.keys, self.values = (torch.tensor([], dtype=self.dtype, device=self.device)
                                  for _ in range(2))
        self.is_initialized = True

    def update(self, keys, values, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self.keys = torch.cat([self.keys, keys], dim=-2)
        self.values = torch.cat([self.values, values], dim=-2)
        return self.keys, self.values

    def get_seq_length(self):
        if not self.is_initialized or self.keys.numel() == 0:
            return 0
        return self.keys.shape[-2]

    def get_mask_sizes(self, query_length):
        return self.get_seq_length() + query_length, 0

    def get_max_length(self):
        return -1

    def crop(self, tokens_to_remove):
        """A number above 0 is how many tokens stay; one below how many go."""
        if tokens_to_remove > 0:
            tokens_to_remove = min(tokens_to_remove - self.get_seq_length(), 0)
        if tokens_to_remove < 0:  # fails before the first token
            self.keys = self.keys[..., :tokens_to_remove, :]
            self.values = self.values[..., :tokens_to_remove, :]

    def batch_repeat_interleave(self, repeats):
        if self.get_seq_length():
            self.keys = self.keys.repeat_interleave(repeats, dim=0)
            self.values = self.values.repeat_interleave(repeats, dim=0)

    def batch_select_indices(self, indices):
        if self.get_seq_length():
            self.keys, self.values = self.keys[indices, ...], self.values[indices, ...]


class DynamicSlidingWindowLayer(DynamicLayer):
    """The last tokens of a window; of a layer that records, all since the last crop()."""

    is_sliding = True

    def __init__(self, sliding_window, **kwargs):
        super().__init__()
        self.sliding_window, self.cumulative_length = sliding_window, 0
        self._sliding_window_tensor = torch.tensor(sliding_window)
        self.record_past = False

    def activate_past_recording(self):
        self.record_past = True

    def update(self, keys, values, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self.cumulative_length += keys.shape[-2]
        whole = [torch.cat([old, new], dim=-2)
                 for old, new in ((self.keys, keys), (self.values, values))]
        self.keys, self.values = whole
        if not self.record_past:
            self._keep_window()
        return tuple(whole)

    def _keep_window(self):
        self.keys, self.values = (each[:, :, 1 - self.sliding_window:]
                                  for each in (self.keys, self.values))

    def get_seq_length(self):
        return self.cumulative_length

    def get_mask_sizes(self, query_length):
        kept = min(self.cumulative_length, self.sliding_window - 1)
        return kept + query_length, self.cumulative_length - kept

    def get_max_length(self):
        return self.sliding_window

    def crop(self, tokens_to_remove):
        if self.cumulative_length < self.sliding_window:
            super().crop(tokens_to_remove)
            self.cumulative_length = self.keys.shape[-2]  # fails before the first token
            return
        if not self.record_past or tokens_to_remove > 0:
            raise RuntimeError("the window is full: record before, and give a number below 0")
        super().crop(tokens_to_remove)
        self._keep_window()
        self.cumulative_length += tokens_to_remove


class StaticLayer(CacheLayerMixin):
    """Keys and values of the most tokens, in zeros before they come."""

    is_compileable = True
    is_sliding = False

    def __init__(self, max_cache_len, **kwargs):
        super().__init__()
        self.max_cache_len, self.cumulative_length = max_cache_len, torch.tensor(0)

    def lazy_initialization(self, keys, values):
        self.dtype, self.device = keys.dtype, keys.device
        self.batch_size, self.num_heads = keys.shape[:2]
        self.k_head_dim, self.v_head_dim = keys.shape[3], values.shape[3]
        self.keys, self.values = (
            torch.zeros(*each.shape[:2], self.max_cache_len, each.shape[3], dtype=self.dtype,
                        device=self.device) for each in (keys, values))
        self.cumulative_length = self.cumulative_length.to(self.device)
        self.is_initialized = True

    def update(self, keys, values, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        positions = self.cumulative_length + torch.arange(keys.shape[2], device=self.device)
        self.cumulative_length += keys.shape[2]
        self.keys.index_copy_(2, positions, keys)
        self.values.index_copy_(2, positions, values)
        return self.keys, self.values

    def get_mask_sizes(self, query_length):
        return self.max_cache_len, 0

    def get_seq_length(self):
        return self.cumulative_length if self.is_initialized else 0

    def get_max_length(self):
        return self.max_cache_len


class StaticSlidingWindowLayer(StaticLayer):
    """Keys and values of a window, in zeros before they come."""

    is_sliding = True

    def __init__(self, max_cache_len, sliding_window, **kwargs):
        super().__init__(min(max_cache_len, sliding_window))
        self.cumulative_length_int = 0

    def update(self, keys, values, *args, **kwargs):
        length, most = self.cumulative_length_int, self.max_cache_len
        self.cumulative_length_int += keys.shape[2]
        if self.cumulative_length_int <= most:
            return super().update(keys, values)
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        whole = [torch.cat([old[:, :, length >= most:length], new], dim=2)
                 for old, new in ((self.keys, keys), (self.values, values))]
        for own, each in zip((self.keys, self.values), whole):
            own.copy_(each[:, :, -most:])
        return tuple(whole)

    def get_mask_sizes(self, query_length):
        length, most = self.cumulative_length_int, self.max_cache_len
        return max(most, min(length, most - 1) + query_length), max(length - most + 1, 0)

    def get_seq_length(self):
        return self.cumulative_length_int

    def reset(self):
        super().reset()
        self.cumulative_length_int = 0


DYNAMIC_LAYER_TYPE_MAPPING = {
    "full_attention": DynamicLayer, "sliding_attention": DynamicSlidingWindowLayer,
    "chunked_attention": DynamicSlidingWindowLayer}
STATIC_LAYER_TYPE_MAPPING = {
    "full_attention": StaticLayer, "sliding_attention": StaticSlidingWindowLayer,
    "chunked_attention": StaticSlidingWindowLayer}


class Cache:
    """A list of layers; each call is one of a layer, or of all of them."""

    def __init__(self, layers=None, layer_class_to_replicate=None, offloading=False,
                 offload_only_non_sliding=True):
        if (layers is None) == (layer_class_to_replicate is None):
            raise ValueError("a cache has either layers, or a class of layers")
        self.layers = [] if layers is None else layers
        self.layer_class_to_replicate = layer_class_to_replicate
        self.offloading = offloading
        if offloading:
            self.only_non_sliding = offload_only_non_sliding

    def __repr__(self):
        return f"{type(self).__name__}(layers={self.layers})"

    def update(self, keys, values, layer_idx, *args, **kwargs):
        if self.layer_class_to_replicate is not None:
            while len(self.layers) <= layer_idx:
                self.layers.append(self.layer_class_to_replicate())
        if self.offloading:  # the next layer comes while this one works
            goes = [not (each and self.only_non_sliding) for each in self.is_sliding]
            after = [*range(layer_idx + 1, len(goes)), *range(layer_idx + 1)]
            self.layers[next(each for each in after if goes[each])].prefetch()
        found = self.layers[layer_idx].update(keys, values, *args, **kwargs)
        if self.offloading and goes[layer_idx]:
            self.layers[layer_idx].offload()
        return found

    def __len__(self):
        return len(self.layers)

    def get_seq_length(self, layer_idx=0):
        return self.layers[layer_idx].get_seq_length() if layer_idx < len(self.layers) else 0

    def get_mask_sizes(self, query_length, layer_idx):
        if layer_idx >= len(self.layers):
            return query_length, 0
        return self.layers[layer_idx].get_mask_sizes(query_length)

    def get_query_offset(self, layer_idx=0):
        return self.get_seq_length(layer_idx)

    def get_max_length(self, layer_idx=None):
        if layer_idx is None:
            return max(each.get_max_length() for each in self.layers)
        return self.layers[layer_idx].get_max_length() if layer_idx < len(self.layers) else -1

    @property
    def batch_size(self):
        found = {each.batch_size for each in self.layers if hasattr(each, "batch_size")}
        if len(found) > 1:
            raise ValueError(f"layers have batches of {found}")
        return found.pop() if found else -1

    @property
    def is_compileable(self):
        return bool(self.layers) and all(each.is_compileable for each in self.layers)

    @property
    def is_croppable(self):
        return all(each.is_croppable for each in self.layers)

    @property
    def is_initialized(self):
        return bool(self.layers) and all(each.is_initialized for each in self.layers)

    @property
    def is_sliding(self):
        return [each.is_sliding for each in self.layers]

    def activate_past_recording(self):
        for layer in self.layers:
            if hasattr(layer, "activate_past_recording"):
                layer.activate_past_recording()

    def reset(self):
        self._each("reset")

    def crop(self, tokens_to_remove):
        self._each("crop", tokens_to_remove)

    def reorder_cache(self, beam_idx):
        self._each("reorder_cache", beam_idx)

    def batch_repeat_interleave(self, repeats):
        self._each("batch_repeat_interleave", repeats)

    def batch_select_indices(self, indices):
        self._each("batch_select_indices", indices)

    def early_initialization(self, batch_size, num_heads, head_dim, dtype, device):
        fake = torch.zeros((batch_size, num_heads, 0, head_dim), dtype=dtype, device=device)
        for layer in self.layers:
            if layer.supports_early_init and not layer.is_initialized:
                layer.lazy_initialization(fake, fake)

    def _each(self, name, *args):
        for layer in self.layers:
            getattr(layer, name)(*args)


class DynamicCache(Cache):
    """Layers as a config names them, or of full attention as they come."""

    def __init__(self, ddp_cache_data=None, config=None, offloading=False,
                 offload_only_non_sliding=False):
        layers = []
        if config is not None:
            text = config.get_text_config(decoder=True)
            layers = [DYNAMIC_LAYER_TYPE_MAPPING[each](sliding_window=text.sliding_window)
                      for each in text.layer_types]
        for index, (keys, values, *window) in enumerate(ddp_cache_data or ()):
            if config is None:
                layers.append(DynamicSlidingWindowLayer(window[0].item())
                              if window and window[0] is not None else DynamicLayer())
            if keys is not None:
                layers[index].update(keys, values)
        super().__init__(layers or None, None if layers else DynamicLayer, offloading,
                         offload_only_non_sliding)

    def __iter__(self):
        for layer in self.layers:
            yield layer.keys, layer.values, getattr(layer, "_sliding_window_tensor", None)


class StaticCache(Cache):
    """Static layers as a config names them."""

    def __init__(self, config, max_cache_len, offloading=False, offload_only_non_sliding=True,
                 **kwargs):
        text = config.get_text_config(decoder=True)
        super().__init__([STATIC_LAYER_TYPE_MAPPING[each](
            max_cache_len=max_cache_len, sliding_window=text.sliding_window)
            for each in text.layer_types], None, offloading, offload_only_non_sliding)


def modules():
    """The modules of the stand-in by name, with classes that belong to this one."""
    package, cache_utils = (types.ModuleType(name) for name in (
        "transformers", "transformers.cache_utils"))
    package.__version__, package.cache_utils = "5.17.0", cache_utils
    for name in ("DYNAMIC_LAYER_TYPE_MAPPING", "Cache", "CacheLayerMixin", "DynamicCache",
                 "DynamicLayer", "DynamicSlidingWindowLayer", "STATIC_LAYER_TYPE_MAPPING",
                 "StaticCache", "StaticLayer", "StaticSlidingWindowLayer"):
        setattr(cache_utils, name, globals()[name])
    package.DynamicCache = DynamicCache
    return {module.__name__: module for module in (package, cache_utils)}
