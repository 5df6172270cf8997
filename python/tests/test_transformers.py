# SPDX-License-Identifier: MIT
"""hipvmm.transformers: the protocol of transformers' caches, against layers that concatenate."""

import contextlib
import copy
import io
import pickle
import random
import threading

import pytest

import hipvmm
from transformers_support import (  # noqa: F401  (grown is a fixture)
    DEVICE, config, grown, needs_growth, on_host, pair, same, tokens, torch, update)

pytestmark = needs_growth


def random_step(caches, rng, state):
    """One of all operations, on every cache; state has the batch."""
    length = caches[1].get_seq_length()
    kind = rng.choice(["update"] * 6 + ["crop", "crop", "beams", "repeat", "select", "reset",
                                        "offload", "deepcopy", "pickle", "swap", "assign"])
    kept = state.setdefault("kept", [])  # copies, which share with each other what they may
    if kind == "update" or length == 0:
        state.setdefault("batch", rng.randint(1, 4))
        count = rng.choice([1, 1, 1, 2, 7, 300, 1500])
        for layer in range(2):
            update(caches, layer, *tokens(state["batch"], count, heads=1 + layer, width=48,
                                          value_width=16 * (2 - layer)))
    elif kind == "crop":
        gone = -rng.choice([1, rng.randint(1, length), rng.randint(1, length)])
        for each in caches:
            each.crop(gone)
    elif kind == "beams":
        beams = torch.tensor([rng.randrange(state["batch"]) for _ in range(state["batch"])])
        for each in caches:
            each.reorder_cache(beams)
    elif kind == "repeat" and state["batch"] < 5:
        for each in caches:
            each.batch_repeat_interleave(2)
        state["batch"] *= 2
    elif kind == "select":
        chosen = [rng.randrange(state["batch"]) for _ in range(rng.randint(1, 4))]
        for each in caches:
            each.batch_select_indices(torch.tensor(chosen))
        state["batch"] = len(chosen)
    elif kind == "reset":
        del state["batch"]
        caches[0].reset()
        # transformers' own keeps its length, in zeros.
        caches[1].layers = [type(each)() for each in caches[1].layers]
    elif kind == "offload":
        for layer in caches[0].layers:
            layer.offload()
            if rng.random() < 0.7:
                layer.prefetch()
    elif kind in ("deepcopy", "pickle"):
        copied = (copy.deepcopy(caches[0]) if kind == "deepcopy"
                  else pickle.loads(pickle.dumps(caches[0])))
        kept.append((caches[0], copy.deepcopy(caches[1]), state["batch"]))
        caches[0] = copied
        if len(kept) > 3:
            kept.pop(rng.randrange(3))
    elif kind == "swap" and kept:
        kept.append((*caches, state["batch"]))
        *caches[:], state["batch"] = kept.pop(rng.randrange(len(kept) - 1))
    elif kind == "assign":
        for each in caches:
            for layer in each.layers:
                layer.keys, layer.values = layer.keys[:, :, 1:], layer.values[:, :, 1:]
    return kind


@pytest.mark.parametrize("seed", range(8))
def test_random_operations_are_those_of_dynamic_cache(grown, seed, monkeypatch):
    if seed % 2:  # releases at each crop, and many pieces of a batch that is reordered
        monkeypatch.setattr("hipvmm._tokens._SLACK", 0)
        monkeypatch.setattr("hipvmm._tokens._SCRATCH", 1 << 14)
        monkeypatch.setattr("hipvmm._tokens._SHARED", 0)
    rng, caches, state = random.Random(seed), list(pair(grown)), {}
    done = []
    for _ in range(60):
        try:
            done.append(random_step(caches, rng, state))
        except hipvmm.OutOfMemoryError:
            caches, state = list(pair(grown)), {}
            continue
        assert same(*caches), (seed, done)
        assert caches[0].get_seq_length() == caches[1].get_seq_length(), (seed, done)
        # No copy sees the writes of another.
        assert all(same(*each[:2]) for each in state.get("kept", ())), (seed, done)


def test_tokens_stay_where_they_are(grown):
    caches = pair(grown)
    first, _ = update(caches, 0, *tokens(3, 700))
    kept = first.clone()
    for _ in range(40):
        keys, values = update(caches, 0, *tokens(3, 251))
        assert keys.data_ptr() == first.data_ptr()
    assert torch.equal(first, kept)
    assert keys.shape == (3, 2, 700 + 40 * 251, 16)
    assert caches[0].get_mask_sizes(5, 0) == caches[1].get_mask_sizes(5, 0) == (10745, 0)
    assert caches[0].layers[0].get_max_length() == -1
    assert caches[0].layers[0].keys.stride()[-1] == 1
    caches[0].reorder_cache(torch.tensor([2, 0, 0]))
    caches[1].reorder_cache(torch.tensor([2, 0, 0]))
    caches[0].crop(-1000)
    assert caches[0].layers[0].keys.data_ptr() == first.data_ptr()


def test_copies_are_of_the_contents(grown):
    caches = pair(grown, "full_attention", "sliding_attention")
    for layer in range(2):
        update(caches, layer, *tokens(2, 30))
    stream = io.BytesIO()
    torch.save(caches[0].layers[0], stream)
    assert len(stream.getvalue()) < 30000
    options = {"weights_only": False} if "weights_only" in torch.load.__code__.co_varnames else {}
    loaded = torch.load(io.BytesIO(stream.getvalue()), **options)
    assert torch.equal(loaded.keys, caches[1].layers[0].keys)
    copies = [copy.deepcopy(caches[0]), pickle.loads(pickle.dumps(caches[0]))]
    copies.append(copy.copy(caches[0]))
    copies[-1].layers = [copy.copy(each) for each in copies[-1].layers]
    for one in copies:
        assert same(one, caches[1])
        beside = copy.deepcopy(caches[1])
        one.reorder_cache(torch.tensor([1, 1]))
        beside.reorder_cache(torch.tensor([1, 1]))
        update((one, beside), 0, *tokens(2, 3))
        assert one.layers[0].held_bytes > 0
        assert same(caches[0], caches[1])
    memo = {}
    assert copy.deepcopy([caches[0].layers[0]] * 2, memo)[1] is memo[id(caches[0].layers[0])]


def test_install_reaches_caches_of_a_config(grown):
    def layers():
        made = grown.DynamicCache(config=config("full_attention", "sliding_attention"))
        return [type(each).__name__ for each in made.layers]

    theirs, ours = (["DynamicLayer", "DynamicSlidingWindowLayer"],
                    ["GrowingLayer", "DynamicSlidingWindowLayer"])
    assert layers() == theirs
    grown.install()
    grown.install()
    assert grown.is_installed() and layers() == ours
    with grown.install():  # which has nothing to undo
        assert layers() == ours
    assert layers() == ours
    grown.uninstall()
    grown.uninstall()
    assert layers() == theirs
    with pytest.raises(ZeroDivisionError), grown.install():
        assert layers() == ours
        raise ZeroDivisionError
    assert not grown.is_installed() and layers() == theirs

    class Other(grown.GrowingLayer):  # a subclass registers itself for nothing
        pass

    assert layers() == theirs
    mapping = grown.cache_utils.DYNAMIC_LAYER_TYPE_MAPPING
    mapping["full_attention"] = Other
    try:
        with pytest.raises(hipvmm.InvalidStateError, match="Other already"):
            grown.install()
        grown.uninstall()
        assert mapping["full_attention"] is Other
    finally:
        mapping["full_attention"] = grown.DynamicLayer


def test_the_last_of_several_with_statements_undoes_the_installation(grown):
    first, second = grown.install(), grown.install()
    with second:
        with first:  # in another thread, for example
            pass
        assert grown.is_installed()
    assert not grown.is_installed()
    with first:  # once more
        assert grown.is_installed()
    assert not grown.is_installed()
    grown.install()
    with first, second:
        pass
    assert grown.is_installed()


def test_an_older_transformers_is_named(run_python):
    assert run_python("""
import sys, types
package, cache_utils = types.ModuleType("transformers"), types.ModuleType("transformers.cache_utils")
package.__version__, package.cache_utils = "4.50.0", cache_utils
cache_utils.DynamicCache = type("DynamicCache", (), {})  # and no DynamicLayer
sys.modules.update({"transformers": package, "transformers.cache_utils": cache_utils})
try:
    import hipvmm.transformers
except NotImplementedError as why:
    print(why)
""").startswith("transformers 4.50.0 has no DYNAMIC_LAYER_TYPE_MAPPING: install 5.15")


def test_caches_of_data_and_without_a_config(grown):
    given = [tokens(2, 6) for _ in range(2)]
    caches = grown.GrowingCache(given), grown.DynamicCache(given)
    assert same(*caches) and caches[0].held_bytes == 0
    lazily = grown.GrowingCache(), grown.DynamicCache()
    assert lazily[0].get_seq_length() == 0
    for both in (caches, lazily):
        for layer in range(2):
            update(both, layer, *tokens(2, 1))
        assert both[0].held_bytes > 0
        assert [type(each) for each in both[0].layers] == [grown.GrowingLayer] * 2
        assert all(torch.equal(*each[:2]) for each in zip(
            (mine[0] for mine in both[0]), (its[0] for its in both[1])))
    early = grown.GrowingCache(config=config("full_attention"))
    early.early_initialization(2, 2, 16, torch.float32, torch.device(DEVICE))
    assert early.get_seq_length() == 0
    early.update(*tokens(2, 4), 0)
    assert early.get_seq_length() == 4


def test_sliding_layers_are_those_of_transformers(grown):
    caches = pair(grown, "sliding_attention", "full_attention")
    for count in (5, 1, 6, 1, 1):
        for layer in range(2):
            update(caches, layer, *tokens(2, count))
    assert same(*caches) and caches[0].layers[0].keys.shape[2] == 7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int8])
def test_every_dtype(grown, dtype):
    caches = pair(grown, "full_attention")
    for count in (9, 1):
        update(caches, 0, *tokens(2, count, dtype=dtype))
    assert caches[0].layers[0].keys.dtype == dtype and caches[0].held_bytes > 0
    # Tokens of another dtype are promoted, as torch.cat does.
    update(caches, 0, *tokens(2, 1, dtype=torch.float64))
    update(caches, 0, *tokens(2, 2, dtype=torch.float64))
    assert same(*caches)
    assert caches[0].held_bytes > 0


def test_keys_with_gradients_are_concatenated(grown):
    caches = pair(grown, "full_attention")
    update(caches, 0, *tokens(1, 3))
    keys, values = tokens(1, 1, requires_grad=True)
    for each in caches:
        of_keys, of_values = each.update(keys, values, 0)
        (of_keys.sum() + 2 * of_values.sum()).backward()
    assert float(keys.grad.min()) == float(keys.grad.max()) == 2  # one for each cache
    assert caches[0].held_bytes == 0
    with torch.no_grad():
        update(caches, 0, *tokens(1, 1))
    assert caches[0].held_bytes > 0 and not caches[0].layers[0].keys.requires_grad
    for name in ("keys", "values"):
        for each in caches:
            getattr(each.layers[0], name).requires_grad_()
        update(caches, 0, *tokens(1, 1))
        assert caches[0].held_bytes == 0 and getattr(caches[0].layers[0], name).requires_grad
        with torch.no_grad():
            update(caches, 0, *tokens(1, 1))
        assert caches[0].held_bytes > 0


def test_gradients_of_queries_survive_later_tokens(grown):
    caches = pair(grown, "full_attention")
    query = torch.randn(1, 2, 1, 16, device=DEVICE, requires_grad=True)
    sums = [0, 0]
    for _ in range(4):
        new = tokens(1, 3)
        for index, each in enumerate(caches):
            keys, values = each.update(*new, 0)
            sums[index] = sums[index] + ((query @ keys.transpose(2, 3)).softmax(3) @ values).sum()
    one, other = (torch.autograd.grad(each, query)[0] for each in sums)
    assert caches[0].held_bytes > 0 and torch.equal(one, other)
    # Those of rows that are written anew would be wrong, also after a growth; if a crop() has moved
    # the tokens, as on ROCm 6.1 to 7.2, the rows are as they were.
    for grown_by in (0, 40000):
        keys, _ = caches[0].update(*tokens(1, 3), 0)
        lost = (query @ keys.transpose(2, 3)).softmax(3).sum()
        caches[0].update(*tokens(1, grown_by), 0)
        caches[0].crop(-grown_by - 1)
        moved = caches[0].update(*tokens(1, 1), 0)[0].data_ptr() != keys.data_ptr()
        assert not moved or grown_by and "quirk re_reserve" in hipvmm.capability(0)
        with contextlib.nullcontext() if moved else pytest.raises(
                RuntimeError, match="modified by an inplace operation"):
            lost.backward()


def test_modes_of_inference(grown):
    caches = pair(grown, "full_attention")
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            update(caches, 0, *tokens(2, 3))
            update(caches, 0, *tokens(2, 1))
            for each in caches:
                each.reorder_cache(torch.tensor([1, 0]))
                each.batch_repeat_interleave(2)
                each.batch_select_indices(torch.tensor([0, 3]))
            assert same(*caches)
            layers = [each.layers[0] for each in caches]
            assert layers[0].keys.is_inference() == layers[1].keys.is_inference()
    copied = copy.deepcopy(caches[0])
    update((copied, caches[1]), 0, *tokens(2, 3))


def test_tensors_of_other_devices_are_left_to_transformers(grown, monkeypatch):
    cache = grown.GrowingCache(config=config("full_attention"))
    fake = torch.zeros(1, 2, 5, 16, device="meta")
    keys, _ = cache.update(fake, fake, 0)
    assert keys.is_meta and cache.held_bytes == 0 and cache.get_seq_length() == 5

    class Other(torch.Tensor):
        pass

    for first in (0, 1):
        cache.reset()
        cache.update(*tokens(1, first), 0)
        cache.update(*(each.as_subclass(Other) for each in tokens(1, 1)), 0)
        assert cache.held_bytes == 0 and cache.get_seq_length() == first + 1
    cache.reset()
    cache.update(*tokens(1, 2), 0)
    with contextlib.suppress(RuntimeError):  # which newer releases of PyTorch raise
        assert cache.update(fake[:, :, :1], fake[:, :, :1], 0)[0].is_meta
    from hipvmm import _tokens, device

    for module in (_tokens, device):
        monkeypatch.setattr(module, "provider", lambda: "amd")
    assert _tokens.ordinal_of(torch.device("cuda:2")) == 2
    assert _tokens.ordinal_of(torch.device("cpu")) is None


def test_wrong_tokens_are_refused_and_lose_nothing(grown):
    caches = pair(grown, "full_attention")
    update(caches, 0, *tokens(2, 5))
    wrong = [tokens(3, 1), tokens(2, 1, heads=3), tokens(2, 1, width=8),
             tokens(2, 1, value_width=8),
             (tokens(2, 1)[0], tokens(2, 1)[1][0])]
    for each in wrong:
        with pytest.raises((RuntimeError, IndexError)):
            caches[0].update(*each, 0)
        assert same(*caches)
    calls = [lambda: caches[0].batch_repeat_interleave(-1)]
    if on_host:  # a GPU that is given such an index serves its process no longer
        calls += [lambda: caches[0].reorder_cache(torch.tensor([0, 2])),
                  lambda: caches[0].batch_select_indices(torch.tensor([0, 5]))]
    for call in calls:
        with pytest.raises((RuntimeError, IndexError)):
            call()
        assert same(*caches)
    with pytest.raises(hipvmm.InvalidArgumentError, match="2 dimensions"):
        caches[0].batch_select_indices(torch.tensor([[0, 1]]))
    assert same(*caches)
    update(caches, 0, *tokens(2, 5))


def test_indices_of_all_kinds(grown):
    caches = pair(grown, "full_attention")
    update(caches, 0, *tokens(4, 5))
    for chosen in (torch.tensor([True, False, True, True]), [2, -1], slice(0, 1),
                   torch.tensor([0, 0, 0], dtype=torch.int32).long(), torch.tensor([-1])):
        for each in caches:
            each.layers[0].batch_select_indices(chosen)
        assert same(*caches)
    assert caches[0].held_bytes > 0
    for each in caches:
        each.batch_select_indices(torch.tensor([], dtype=torch.long))
    assert caches[0].get_seq_length() == caches[1].get_seq_length() == 0
    caches[0].update(*tokens(3, 2), 0)
    assert caches[0].get_seq_length() == 2


@pytest.mark.parametrize("number", [0, 1, 9, 10, 50, -1, -9, -10, -50])
def test_numbers_of_crop(grown, number):
    caches = pair(grown, "full_attention", "full_attention")
    update(caches, 0, *tokens(2, 10))  # the other layer has none
    caches[0].crop(number)
    caches[1].layers[0].crop(number)  # transformers fails at a layer without tokens
    assert same(*caches) and caches[0].get_seq_length() == caches[1].get_seq_length()
    for layer in (0, 0, 1):
        update(caches, layer, *tokens(2, 1))
    assert caches[0].layers[0].held_bytes > 0


def test_crop_of_a_cache_whose_window_has_lost_tokens_changes_nothing(grown):
    caches = pair(grown, "full_attention", "sliding_attention", "full_attention")
    for count in (12, 1, 1):
        for layer in range(3):
            update(caches, layer, *tokens(2, count))
    with pytest.raises((RuntimeError, ValueError)):
        caches[0].crop(-2)
    assert same(*caches) and [each.is_sliding for each in caches[0].layers] == [False, True, False]
    with pytest.raises((RuntimeError, ValueError)):
        caches[1].crop(-2)
    assert caches[1].layers[0].get_seq_length() == 12  # transformers' own has cropped that layer


@pytest.mark.parametrize("number", [int, torch.tensor])  # assisted decoding gives a tensor
@pytest.mark.parametrize("length", [3, 40])
def test_crop_of_a_cache_whose_window_records(grown, length, number):
    caches = pair(grown, "sliding_attention", "full_attention")
    for each in caches:
        each.activate_past_recording()
    for count, gone in ((length, 0), (5, 5), (5, 2), (1, 0), (5, 4), (5, 0)):
        for layer in range(2):
            update(caches, layer, *tokens(2, count))
        for each in caches:
            each.crop(number(-gone))
        assert same(*caches)
        for layer in range(2):
            assert caches[0].get_mask_sizes(3, layer) == caches[1].get_mask_sizes(3, layer)
            assert caches[0].get_seq_length(layer) == caches[1].get_seq_length(layer)
    assert caches[0].get_seq_length() == length + 10 and caches[0].layers[1].held_bytes > 0


def test_layers_that_are_offloaded_by_the_cache(grown):
    if not torch.cuda.is_available() and "stand_in" not in grown.DynamicCache.__module__:
        pytest.skip("transformers offloads with a stream of a GPU")
    kinds = config("full_attention", "full_attention")
    caches = (grown.GrowingCache(config=kinds, offloading=True), grown.DynamicCache(config=kinds))
    for count in (5, 1, 1):
        for layer in range(2):
            keys, values = update(caches, layer, *tokens(2, count))
            assert caches[0].layers[layer].held_bytes == 0
    assert keys.shape[2] == 7 and same(*caches)


def test_caches_in_threads(grown):
    failures = []

    def work(seed):
        try:
            rng, caches, state = random.Random(seed), list(pair(grown)), {}
            for _ in range(25):
                random_step(caches, rng, state)
                assert same(*caches)
        except Exception as why:  # which a thread would lose
            failures.append(why)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(20, 24)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
