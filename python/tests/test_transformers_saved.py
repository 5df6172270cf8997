# SPDX-License-Identifier: MIT
"""hipvmm.transformers: how much memory copies, pickles and rewrites of a cache take."""

import copy
import io
import pickle
import weakref

import pytest

from transformers_support import (  # noqa: F401  (grown is a fixture)
    DEVICE, config, grown, needs_growth, pair, same, tokens, torch, update)

pytestmark = needs_growth


class _Clones:
    """The results of Tensor.clone and copy.deepcopy that live, by their number."""

    def __init__(self, monkeypatch):
        self.alive, self.most, self.made = 0, 0, 0
        for name in ("clone", "__deepcopy__"):
            monkeypatch.setattr(torch.Tensor, name, self._counted(getattr(torch.Tensor, name)))

    def _counted(self, function):
        def counted(tensor, *args, **options):
            made = function(tensor, *args, **options)
            if made.dim() > 1:
                self.alive, self.made = self.alive + 1, self.made + 1
                self.most = max(self.most, self.alive)
                weakref.finalize(made, self._ended)
            return made

        return counted

    def _ended(self):
        self.alive -= 1


def _offloaded(grown):
    caches = pair(grown, *["full_attention"] * 8)
    for layer in range(8):
        update(caches, layer, *tokens(2, 5))
        caches[0].layers[layer].offload()
    return caches


def test_deep_copies_take_the_memory_once(grown, monkeypatch):
    caches = _offloaded(grown)
    clones = _Clones(monkeypatch)
    copied = copy.deepcopy(caches[0])
    assert clones.most <= 16 and same(copied, caches[1])
    for each in (copied, caches[0]):
        for layer in each.layers:
            layer.prefetch()
    copied.layers[0].keys.zero_()
    assert same(caches[0], caches[1])


def _static(grown, layers=8):
    kinds = config(*["full_attention"] * layers)
    cache = grown.GrowingStaticCache(config=kinds, max_cache_len=4096)
    given = [tokens(2, 300) for _ in range(layers)]
    for layer, each in enumerate(given):
        cache.update(*each, layer)
    return cache, given


def _is_same(cache, given):
    return all(torch.equal(layer.keys[:, :, :300], keys) and
               torch.equal(layer.values[:, :, :300], values) and layer.get_seq_length() == 300
               for layer, (keys, values) in zip(cache.layers, given))


def test_deep_copies_of_static_caches_take_the_memory_once(grown, monkeypatch):
    cache, given = _static(grown)
    clones = _Clones(monkeypatch)
    copied = copy.deepcopy(cache)
    assert clones.most == 0 and _is_same(copied, given)
    copied.layers[0].keys[:, :, :300].zero_()
    assert _is_same(cache, given)
    layers = copy.deepcopy([cache.layers[0]] * 2)
    assert layers[0] is layers[1]


@pytest.mark.parametrize("save", [pickle.dump, torch.save])
def test_caches_are_saved_without_a_clone(grown, monkeypatch, save):
    caches, (static, given) = pair(grown, *["full_attention"] * 8), _static(grown)
    for layer in range(8):
        update(caches, layer, *tokens(2, 5))
    offloaded = _offloaded(grown)
    clones, sizes = _Clones(monkeypatch), []
    found = []
    for each in (caches[0], static, offloaded[0]):
        file = io.BytesIO()
        save(each.layers, file)
        sizes.append(file.tell())
        file.seek(0)
        found.append(type("", (), {"layers": (
            pickle.load(file) if save is pickle.dump else torch.load(file))}))
    assert clones.made == 0
    assert same(found[0], caches[1]) and _is_same(found[1], given) and same(found[2], offloaded[1])
    assert sizes[0] < 8 * (2 * 2 * 5 * 32 * 4 + 4096)  # no memory beyond the tokens
    for layer in range(8):
        more = tokens(2, 3)
        mine = found[0].layers[layer].update(*more)
        its = caches[1].update(*more, layer)
        assert all(torch.equal(*each) for each in zip(mine, its))
        assert found[0].layers[layer].held_bytes > 0


def test_offloaded_tokens_come_and_go_in_one_copy(grown, monkeypatch):
    caches = pair(grown, "full_attention")
    update(caches, 0, *tokens(2, 5, width=48, value_width=16))
    layer, strides, copied = caches[0].layers[0], None, []
    strides = [each.stride() for each in (layer.keys, layer.values)]
    copy_ = torch.Tensor.copy_

    def noted(self, other, **options):
        copied.append((self.is_contiguous(), other.is_contiguous()))
        return copy_(self, other, **options)

    monkeypatch.setattr(torch.Tensor, "copy_", noted)
    layer.offload()
    layer.prefetch()
    assert copied == [(True, True)] * 2 and same(caches[0], caches[1])
    assert strides == [each.stride() for each in (layer.keys, layer.values)]


def test_a_rewrite_costs_as_much_after_many_growths(grown, monkeypatch):
    caches = pair(grown, "full_attention")
    update(caches, 0, *tokens(1, 2, heads=8, width=128))
    begun = caches[0].layers[0]
    for _ in range(30):
        update(caches, 0, *tokens(1, 256, heads=8, width=128))
    assert len(begun._tokens._backed) > 10
    zeroed = []
    zero_ = torch.Tensor.zero_
    monkeypatch.setattr(torch.Tensor, "zero_", lambda self: (zeroed.append(1), zero_(self))[1])
    for each in caches:
        each.crop(-3)
    update(caches, 0, *tokens(1, 2, heads=8, width=128))
    assert len(zeroed) <= 2 and same(*caches)


def test_what_autograd_saved_before_growths_is_refused_after_a_rewrite(grown):
    caches = pair(grown, "full_attention")
    saved = []
    for _ in range(6):
        keys = update(caches, 0, *tokens(1, 300, heads=8, width=128))[0]
        weight = torch.ones(keys.shape, device=DEVICE, requires_grad=True)
        saved.append((weight * keys).sum())
    for each in caches:
        each.crop(-500)
    update(caches, 0, *tokens(1, 2, heads=8, width=128))
    for index, each in enumerate(saved):
        if index < 4:  # of 1200 tokens and fewer
            each.backward()
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                each.backward()
