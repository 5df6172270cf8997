# SPDX-License-Identifier: MIT
"""Tests of hipvmm.transformers: caches beside transformers if it is installed, and a stand-in."""

import importlib
import importlib.util
import sys
import types

import pytest

import hipvmm
from conftest import needs_chunks

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # tensors are small
MIB = 1 << 20
on_host = hipvmm.is_host_accessible(0)
DEVICE = "cpu" if on_host else "cuda"
needs_growth = [needs_chunks, pytest.mark.skipif(
    not on_host and not torch.cuda.is_available(), reason="PyTorch has no device of this memory")]
has_transformers = importlib.util.find_spec("transformers") is not None


@pytest.fixture(params=["stand-in"] + ["transformers"] * has_transformers)
def grown(request, monkeypatch):
    """hipvmm.transformers as imported beside transformers, or beside its stand-in."""
    if request.param == "stand-in":
        import transformers_stand_in

        for name, module in transformers_stand_in.modules().items():
            monkeypatch.setitem(sys.modules, name, module)
    for name in ("hipvmm.transformers", "hipvmm._static_cache"):  # classes of the other one
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("hipvmm.transformers")
    yield module
    module.uninstall()


def config(*layer_types, window=8):
    """The part of a model's configuration that DynamicCache reads."""
    made = types.SimpleNamespace(
        layer_types=list(layer_types), sliding_window=window, num_hidden_layers=len(layer_types),
        num_kv_shared_layers=0)
    made.get_text_config = lambda decoder=False: made
    return made


def tokens(batch, count, heads=2, width=16, value_width=None, dtype=torch.float32, **options):
    return tuple(torch.randn(batch, heads, count, each, device=DEVICE, **options).to(dtype)
                 for each in (width, value_width or width))


def all_of(cache):
    return [each for layer in cache.layers for each in (layer.keys, layer.values)
            if each is not None]


def same(one, other):
    return len(one.layers) == len(other.layers) and all(
        torch.equal(mine.cpu(), its.cpu()) for mine, its in zip(all_of(one), all_of(other)))


def pair(grown, *layer_types):
    """A cache that grows in place, and one that concatenates."""
    kinds = layer_types or ("full_attention", "full_attention")
    return (grown.GrowingCache(config=config(*kinds)), grown.DynamicCache(config=config(*kinds)))


def update(caches, layer, keys, values):
    mine, its = (each.update(keys, values, layer) for each in caches)
    assert all(torch.equal(*each) for each in zip(mine, its))
    return mine
