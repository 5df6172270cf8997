# SPDX-License-Identifier: MIT
"""hipvmm.transformers.GrowingStaticCache beside StaticCache, which has all its memory at once."""

import copy
import io
import math
import pickle
import random
import sys

import pytest

import hipvmm
from hipvmm.reserved import ReservedTensor
from test_transformers_memory import FOLDER, START
from transformers_support import (  # noqa: F401  (grown is a fixture)
    DEVICE, MIB, config, grown, needs_growth, tokens, torch)

pytestmark = needs_growth
keeps = "quirk re_reserve" in hipvmm.capability(0)


def pair(grown, length=4096, layers=2, *kinds):
    made = config(*(kinds or ["full_attention"] * layers))
    return (grown.GrowingStaticCache(config=made, max_cache_len=length),
            grown.cache_utils.StaticCache(config=made, max_cache_len=length))


def same(caches):
    """Whether both have the same tokens, and zeros behind them as far as there is memory."""
    for mine, its in zip(*(each.layers for each in caches)):
        for name in ("keys", "values") if mine.is_initialized else ():
            whole, view = getattr(its, name), getattr(mine, name)[:, :, :mine.view_length]
            assert getattr(mine, name).shape == whole.shape
            assert torch.equal(view, whole[:, :, :mine.view_length])
            assert not bool(whole[:, :, mine.view_length:].any())
        assert int(mine.get_seq_length()) == int(its.get_seq_length())
    return True


def step(caches, count, batch=2, **options):
    """A forward of both: masks first, then all layers. Returns the masks' sizes and the views."""
    sizes = [each.get_mask_sizes(count, 0) for each in caches]
    for layer in range(len(caches[0].layers)):
        given = tokens(batch, count, **options)
        views = [each.update(*given, layer) for each in caches]
        assert views[0][0].shape[2] == views[0][1].shape[2] == sizes[0][0]
    return sizes[0][0], views[0]


@pytest.mark.parametrize("value_width, dtype", [(16, "float32"), (24, "float16"), (8, "float64")])
def test_views_hold_the_tokens_of_a_static_cache(grown, value_width, dtype):
    caches = pair(grown)
    lengths = []
    for count in (5, 1, 250, 1, 300, 1, 1500, 1, 1000):
        lengths.append(step(caches, count, value_width=value_width,
                            dtype=getattr(torch, dtype))[0])
        assert same(caches)
    assert lengths == [256, 256, 256, 512, 1024, 1024, 4096, 4096, 4096]
    assert caches[0].view_length == 4096 and caches[0].view_changes == 4
    assert caches[0].get_max_length(0) == 4096 if hasattr(caches[0], "get_max_length") else True


def test_the_address_stays_and_the_memory_follows(grown):
    cache = pair(grown, 1 << 20)[0]  # 1 GiB of addresses a layer, as much as the device has
    row = 2 * 4 * 32 * 4
    held = []
    for count in (3, 250, 3, 3000, 20000):
        step((cache,), count, batch=1, heads=4, width=32)
        address = cache.layers[0].keys.data_ptr()
        held.append(cache.held_bytes)
        length = int(cache.get_seq_length())
        assert held[-1] <= 2 * (2 * max(length, 128) * row + 2 * MIB)
        assert cache.layers[0].keys.shape == (1, 4, 1 << 20, 32)
    assert cache.layers[0].keys.data_ptr() == address
    cache.reset()
    assert int(cache.get_seq_length()) == 0 and cache.view_length == 0
    assert cache.held_bytes == held[-1] if keeps else cache.held_bytes == 0
    step((cache,), 7, batch=1, heads=4, width=32)
    assert cache.layers[0].keys.data_ptr() == address and cache.view_length == 256
    assert not bool(cache.layers[0].keys[:, :, 7:256].any())


def test_a_view_changes_as_often_as_the_length_doubles(grown):
    cache, steps = pair(grown, 1 << 14, 1)[0], 3000
    shapes = {step((cache,), 1, batch=1)[0] for _ in range(steps)}
    assert cache.view_changes == len(shapes) == math.ceil(math.log2(steps / 256)) + 1
    assert max(shapes) == 4096


def test_lengths_below_and_between_powers_of_two(grown):
    for most in (1, 100, 700):
        caches = pair(grown, most, 1)
        while int(caches[1].get_seq_length()) < most:
            assert step(caches, 1)[0] <= most
        assert same(caches) and caches[0].view_length == most
        with pytest.raises(hipvmm.OutOfRangeError, match=f"max_cache_len, {most}"):
            caches[0].update(*tokens(2, 1), 0)
        with pytest.raises(hipvmm.OutOfRangeError):
            caches[0].make_room(1)
        assert same(caches)


def test_attention_sees_the_same_with_less(grown):
    caches = pair(grown, 2048, 1)
    step(caches, 300)
    (_, views), length = step(caches, 1), 301
    query = torch.randn(2, 2, 1, 16, device=DEVICE)

    def attention(keys, values):
        scores = query @ keys.transpose(2, 3)
        hidden = torch.arange(keys.shape[2], device=DEVICE) >= length
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ values

    layer = caches[1].layers[0]
    assert views[0].shape[2] == 512
    assert torch.allclose(attention(*views), attention(layer.keys, layer.values), atol=1e-5)


def test_compiled_code_makes_no_room_and_needs_none(grown, monkeypatch):
    caches = pair(grown)
    step(caches, 10)
    compiling = [False]
    module = sys.modules[grown.GrowingStaticCache.__module__]
    monkeypatch.setattr(module, "_is_compiling", lambda: compiling[0])
    monkeypatch.setattr(ReservedTensor, "commit", refuse_when(compiling))
    for _ in range(600):
        sizes = caches[0].get_mask_sizes(1, 0)  # generate() does so before compiled code
        compiling[0] = True
        assert caches[0].get_mask_sizes(1, 0) == sizes
        for layer in range(2):
            given = tokens(2, 1)
            view = caches[0].update(*given, layer)[0]
            caches[1].update(*given, layer)
            assert view.shape[2] == sizes[0]
        compiling[0] = False
    assert same(caches) and caches[0].view_length == 1024
    compiling[0] = True  # without room, an index of PyTorch is wrong, and no address
    with pytest.raises(Exception):
        for _ in range(600):
            caches[0].update(*tokens(2, 1), 0)


def test_compiled_code_is_given_memory_only(grown):
    if not hasattr(torch, "compile"):
        pytest.skip("PyTorch before 2.0 has no compiler")
    from torch._dynamo.backends.common import aot_autograd

    given, storages = [tokens(2, count) for count in (5, 1, 300, 1)], []

    def compiler(graph, inputs):
        storages.append([each.untyped_storage().nbytes() for each in inputs
                         if isinstance(each, torch.Tensor) and each.dim() == 4])
        return graph.forward

    cache, expected = pair(grown, 1 << 20, 1)
    update = torch.compile(lambda *each: cache.layers[0].update(*each),
                           backend=aot_autograd(fw_compiler=compiler, inference_compiler=compiler))
    cache.layers[0].lazy_initialization(*given[0])
    for each in given:
        cache.make_room(each[0].shape[2])
        with torch.inference_mode():
            views = update(*each)
        whole = expected.update(*each, 0)
        for mine, its in zip(views, whole):
            assert torch.equal(mine, its[:, :, :cache.view_length])
    # Tokens, and the views, each by itself.
    assert storages and all(len(each) == 4 and max(each) <= cache.held_bytes for each in storages)


def test_a_view_is_copied_without_addresses_that_have_no_memory(grown):
    cache = pair(grown, 1 << 20)[0]
    view = step((cache,), 300)[1][0]
    for each in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
        assert torch.equal(each, view) and each.data_ptr() != view.data_ptr()


def refuse_when(compiling):
    real = ReservedTensor.commit

    def commit(self, rows):
        assert not compiling[0]
        real(self, rows)

    return commit


def test_random_operations(grown):
    for seed in range(8):
        chance, caches = random.Random(seed), pair(grown, 3000)
        torch.manual_seed(seed)
        for _ in range(60):
            kind = chance.choice(["step", "step", "step", "beams", "copy", "pickle", "reset"])
            left = 3000 - int(caches[1].get_seq_length())
            if kind == "step" and left:
                step(caches, min(left, chance.choice([1, 1, 7, 400])), batch=3)
            elif kind == "beams":
                beams = torch.tensor([chance.randrange(3) for _ in range(3)])
                for each in caches:
                    each.reorder_cache(beams)
            elif kind == "copy":
                caches = (copy.deepcopy(caches[0]), caches[1])
            elif kind == "pickle":
                file = io.BytesIO()
                pickle.dump(caches[0].layers, file)
                caches[0].layers = pickle.loads(file.getvalue())
            elif kind == "reset" and chance.random() < 0.3:
                for each in caches:
                    each.reset()
            assert same(caches)


def test_copies_have_memory_of_their_own(grown):
    cache = pair(grown)[0]
    copies = [copy.copy(cache.layers[0]), copy.deepcopy(cache.layers[0])]  # nothing is there yet
    step((cache,), 9)
    assert all(not each.is_initialized and int(each.cumulative_length) == 0 for each in copies)
    own = cache.layers[0]
    for each in (copy.copy(own), copy.deepcopy(own), pickle.loads(pickle.dumps(own))):
        assert torch.equal(each.keys[:, :, :256], own.keys[:, :, :256])
        assert each.keys.data_ptr() != own.keys.data_ptr()
        assert each.view_changes == own.view_changes
        each.update(*tokens(2, 400))
        assert int(own.get_seq_length()) == 9 and int(each.get_seq_length()) == 409
        assert not bool(own.keys[:, :, 9:256].any())


def test_what_is_refused_changes_nothing(grown):
    caches = pair(grown)
    step(caches, 20)
    with pytest.raises(hipvmm.InvalidArgumentError, match="one for each of the 2 sequences"):
        caches[0].reorder_cache(torch.tensor([0, 1, 1]))
    right = tokens(2, 1)
    for wrong in (tokens(3, 1), tokens(2, 1, heads=3), tokens(2, 1, width=8), tokens(2, 2),
                  tokens(2, 1, dtype=torch.float64), [each.to("meta") for each in right]):
        for given in ((wrong[0], right[1]), (right[0], wrong[1])):
            with pytest.raises(hipvmm.InvalidArgumentError, match="^(keys|values) are .* must be"):
                caches[0].update(*given, 0)
            assert same(caches)
    with pytest.raises(hipvmm.UnsupportedError, match="not offloaded"):
        caches[0].layers[0].offload()
    with pytest.raises(hipvmm.UnsupportedError, match="not offloaded"):
        grown.GrowingStaticCache(config=config("full_attention"), max_cache_len=8, offloading=True)
    with pytest.raises(hipvmm.UnsupportedError, match="use transformers' StaticCache"):
        pair(grown)[0].update(*(each.to("meta") for each in tokens(2, 1)), 0)


def test_other_layers_are_those_of_transformers(grown):
    cache, reference = pair(grown, 64, 2, "full_attention", "sliding_attention")
    assert type(cache.layers[0]) is grown.GrowingStaticLayer
    assert type(cache.layers[1]) is type(reference.layers[1])
    mapping = grown.cache_utils.STATIC_LAYER_TYPE_MAPPING
    assert mapping["full_attention"] is type(reference.layers[0])
    given = tokens(2, 3)
    assert torch.equal(cache.update(*given, 1)[0][:, :, :3], given[0]) and cache.held_bytes == 0
    assert cache.update(*given, 0)[0].shape[2] == cache.view_length == 64


def test_early_initialization_has_no_memory(grown):
    cache = pair(grown, 512)[0]
    cache.early_initialization(2, 2, 16, torch.float32, torch.device(DEVICE))
    assert cache.held_bytes == 0 and cache.layers[0].keys.shape == (2, 2, 512, 16)
    cache.make_room(300)
    assert cache.view_length == 512 and cache.held_bytes > 0
    assert not bool(cache.layers[1].keys.any())


def test_inference_mode(grown):
    cache = pair(grown)[0]
    with torch.inference_mode():
        step((cache,), 300)
    assert step((cache,), 300)[0] == 1024 and int(cache.get_seq_length()) == 600


@pytest.mark.skipif(hipvmm.provider() != "host", reason="a plan of the host provider")
def test_no_memory_changes_nothing(run_python):
    run_python(START.replace("cache = ", "dynamic = ") + """
from types import SimpleNamespace
config = SimpleNamespace(layer_types=["full_attention"] * 3, sliding_window=None)
config.get_text_config = lambda decoder=False: config
cache = hipvmm.transformers.GrowingStaticCache(config=config, max_cache_len=1 << 16)
one = [torch.randn(1, 8, 1000, 64) for _ in range(2)]  # 4 MiB
try:
    while True:
        cache.get_mask_sizes(1000, 0)
        for layer in range(3):
            cache.update(*one, layer)
except hipvmm.OutOfMemoryError:
    lengths = [int(each.get_seq_length()) for each in cache.layers]
assert len(set(lengths)) == 1 and lengths[0] >= 4000, lengths
for each in cache.layers:
    for first in range(0, lengths[0], 1000):
        assert torch.equal(each.keys[:, :, first:first + 1000], one[0])
cache.reset()
for layer in range(3):
    cache.update(*one, layer)
assert torch.equal(cache.layers[2].values[:, :, :1000], one[1])
""", arguments=[FOLDER], HIPVMM_HOST_MEMORY="1GiB", HIPVMM_HOST_FAULTS="memory=80MiB")


def test_memory_that_sleeps_is_refused(run_python):
    run_python(START.replace("cache = ", "dynamic = ") + """
layer = hipvmm.transformers.GrowingStaticLayer(1000)
layer.update(*tokens())
try:
    hipvmm.suspend("py_static")
except hipvmm.UnsupportedError:
    sys.exit()
refused(hipvmm.InvalidStateError, lambda: copy.deepcopy(layer), lambda: pickle.dumps(layer),
        layer.reset, lambda: layer.make_room(900), lambda: layer.reorder_cache(torch.tensor([0])))
hipvmm.resume("py_static")
assert torch.equal(layer.keys[:, :, :3], tokens()[0]) and int(layer.get_seq_length()) == 3
layer.update(*tokens())
""", arguments=[FOLDER], HIPVMM_CONF="buffer.sleep_tag=py_static")


@pytest.mark.skipif(hipvmm.provider() != "host", reason="leaks are found by the host provider")
def test_caches_may_be_there_at_the_exit(run_python):
    run_python(START.replace("cache = ", "dynamic = ") + """
layer = hipvmm.transformers.GrowingStaticLayer(1000)
kept, cycle = layer.update(*tokens())[0], [copy.deepcopy(layer)]
cycle.append(cycle)
""", arguments=[FOLDER], HIPVMM_HOST_LEAKS="1")


@pytest.mark.parametrize("profile", ["rocm-6.4", "rocm-7.2", "rocm-7.14"])
@pytest.mark.skipif(hipvmm.provider() != "host", reason="profiles of the host provider")
def test_profiles(profile, run_under_profile):
    run_under_profile(profile, "random or follows or views_hold", "test_static_cache.py")
