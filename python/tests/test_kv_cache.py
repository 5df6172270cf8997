# SPDX-License-Identifier: MIT
"""hipvmm.torch.KVCache with PyTorch where it is installed, and with a stand-in made of numpy."""

import contextlib
import gc
import importlib.util
import sys
import types

import numpy as np
import pytest

import hipvmm
from conftest import needs_chunks, needs_host_access
from hipvmm._library import get_size, lib

MIB = 1 << 20
pytestmark = needs_chunks
has_torch = importlib.util.find_spec("torch") is not None


class _Empty:
    def __init__(self, dtype):
        if not isinstance(dtype, np.dtype):
            raise TypeError("empty(): argument 'dtype' must be torch.dtype")
        self.dtype = dtype

    def element_size(self):
        return self.dtype.itemsize


def stand_in():
    """What KVCache uses of PyTorch, over numpy."""
    fake = types.ModuleType("torch")
    fake.__version__ = "2.4.0"
    fake.bfloat16, fake.float32, fake.int64 = map(np.dtype, ("float16", "float32", "int64"))
    fake.empty = lambda count, dtype: _Empty(dtype)
    fake.tensor = np.array
    fake.device = lambda text: types.SimpleNamespace(
        index=int(text.split(":")[1]) if ":" in text else None)
    fake.cuda = types.SimpleNamespace(current_device=lambda: 0)

    def from_dlpack(source):
        assert np.from_dlpack(source).shape == source.shape  # a numpy before 2 cannot write to it
        return source.numpy_view()

    def as_strided(array, size, stride):
        return np.lib.stride_tricks.as_strided(
            array, size, [each * array.itemsize for each in stride])

    fake.from_dlpack, fake.as_strided = from_dlpack, as_strided
    fake.inference_mode = lambda mode: contextlib.nullcontext()
    return fake


@pytest.fixture(params=[
    "stand-in",
    pytest.param("PyTorch", marks=pytest.mark.skipif(not has_torch, reason="no PyTorch here"))])
def torch(request, monkeypatch):
    on_host = hipvmm.is_host_accessible(0)
    if request.param == "PyTorch":
        found = pytest.importorskip("torch")
        if not on_host and not found.cuda.is_available():
            pytest.skip("PyTorch has no device with this memory")
        return found
    if not on_host:
        pytest.skip("numpy may not use memory of the device")
    fake = stand_in()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def make(torch, **options):
    from hipvmm.torch import KVCache

    # A token has 2 * 2 matrices of 4 * 64 numbers: 4 KiB, so that a block has 512.
    return KVCache(2, 4, 64, **{"slots": 4, "max_tokens": 2000, "dtype": torch.float32,
                                "prefetch": 0, **options})


def acquire(cache, count):
    """Takes the first slots, in their order."""
    slots = [cache.acquire() for _ in range(count)]
    assert slots == list(range(count))
    return slots


def tensor_beside(torch, cache, values):
    """A tensor on the device of a cache."""
    made = torch.tensor(values)
    return made.to(cache.tensor.device) if hasattr(made, "to") else made


@pytest.mark.parametrize("planes", [1, 2, 4])
def test_sequences_grow_in_place(torch, planes):
    with make(torch, planes=planes) as cache:
        assert cache.bytes_per_token == 4096
        assert cache.tokens_per_block == 512 * planes
        slots = [cache.acquire(), cache.acquire()]
        assert cache.append(slots, [3, 5]) == [0, 0]
        for slot in slots:
            for layer in range(2):
                assert tuple(cache.keys(layer, slot).shape) == (cache.length(slot), 4, 64)
                cache.keys(layer, slot)[:] = 10 * slot + layer
                cache.values(layer, slot)[:] = 100 + 10 * slot + layer
        first = cache.keys(0, slots[0])
        assert cache.append(slots, 1) == [3, 5]
        cache.write(1, *(tensor_beside(torch, cache, each) for each in (
            slots, [3, 5], np.full((2, 4, 64), 7, "float32"), np.full((2, 4, 64), 8, "float32"))))
        cache.append(slots[:1], 1500)
        cache.keys(0, slots[0])[1503] = 9
        assert [cache.length(each) for each in slots] == [1504, 6]
        assert float(first[2, 3, 63]) == 10 * slots[0]
        for slot, last in zip(slots, (3, 5)):
            for layer in range(2):
                assert float(cache.keys(layer, slot)[last - 1, 0, 0]) == 10 * slot + layer
                assert float(cache.values(layer, slot)[0, 3, 63]) == 100 + 10 * slot + layer
            assert float(cache.keys(1, slot)[last, 0, 0]) == 7
            assert float(cache.values(1)[slot, last, 3, 63]) == 8
        now = cache.statistics()
        assert now.used_bytes == 4096 * (1504 + 6)
        assert now.held_bytes == now.needed_bytes
        cache.truncate(slots[0], 3)
        cache.release(slots)
        assert cache.length(slots[0]) == 0
        assert not cache.arena.in_use(slots[1])
        hipvmm.synchronize()
        assert cache.trim() == now.held_bytes


def test_a_batch_that_does_not_fit_changes_nothing(torch):
    cache = make(torch, budget="4MiB")
    assert cache.slots_that_fit(512) == 2
    with pytest.raises(hipvmm.OutOfMemoryError):
        cache.append(acquire(cache, 4)[:3])
    assert [cache.length(each) for each in range(3)] == [0, 0, 0]
    assert cache.append([0, 1], 512) == [0, 0]
    cache.release(0)
    assert cache.append([1, 2], [1, 0]) == [512, 0]
    assert cache.capacity(1) == 1024
    cache.set_budget(8 * MIB)
    assert cache.append([np.int64(2), 3], np.int64(2)) == [0, 0]


def test_an_eviction_callback_ends_other_sequences(torch):
    cache = make(torch, budget="6MiB", evict=lambda missing: cache.release(1))
    acquire(cache, 4)
    cache.append([0, 1], [512, 513])
    assert cache.append([2, 0]) == [0, 512]
    assert [cache.length(each) for each in range(3)] == [513, 0, 1]
    cache.set_eviction(lambda missing: cache.release(0))
    with pytest.raises(hipvmm.InvalidArgumentError, match="slot 0 is of the batch"):
        cache.append([0, 3], [512, 1])
    assert [cache.length(each) for each in range(4)] == [513, 0, 1, 0]


def test_wrong_arguments_are_refused(torch):
    cache = make(torch)
    acquire(cache, 1)
    for slots, tokens, error in (
            ([0, 0], 1, ValueError), ([0], [1, 2], ValueError), ([0], [-1], ValueError),
            ([0], -1, ValueError), ([4], 1, IndexError), ([-1], 1, IndexError),
            ([0], 2001, IndexError)):
        with pytest.raises(error):
            cache.append(slots, tokens)
    assert cache.statistics().needed_bytes == 0
    for layer in (-1, 2):
        with pytest.raises(IndexError, match=f"layer {layer} of 2"):
            cache.keys(layer)
    with pytest.raises(ValueError, match="must divide 2 [*] layers, 4"):
        make(torch, planes=3)
    with pytest.raises(ValueError, match="max_tokens is 0"):
        make(torch, max_tokens=0)
    cache.close()
    with pytest.raises(hipvmm.InvalidHandleError):
        cache.values(0)


def test_wrong_types_and_released_slots_are_refused(torch):
    for dtype in ("bfloat17", "float32", 3):
        with pytest.raises(hipvmm.InvalidArgumentError, match=f"dtype is '?{dtype}'?, and must be"):
            make(torch, dtype=dtype)
    with make(torch) as cache:
        slot = cache.acquire()
        assert len(cache.keys(0, slot)) == 0
        cache.release(slot)
        assert len(cache.keys(0)) == 4
        slot = cache.acquire()
        cache.append([slot], 2)
        other = next(each for each in range(4) if each != slot)
        for use in (lambda: cache.keys(0, other), lambda: cache.values(0, other),
                    lambda: cache.append([slot, other]), lambda: cache.append([other], 0),
                    lambda: cache.truncate(other, 0), lambda: cache.make_writable(other, 0, 0),
                    lambda: cache.share_prefix(other, [slot], 0),
                    lambda: cache.share_prefix(slot, [other], 1)):
            with pytest.raises(hipvmm.InvalidArgumentError,
                               match=f"slot {other} is free: acquire[(][)] takes one"):
                use()
        assert cache.length(slot) == 2
        assert cache.statistics().slots_in_use == 1


def test_slots_and_tokens_may_be_arrays(torch):
    with make(torch) as cache:
        slots = [cache.acquire(), cache.acquire()]
        assert cache.append(np.array(slots), np.array([3, 5])) == [0, 0]
        assert cache.append((each for each in slots), np.int64(1)) == [3, 5]
        assert cache.append(torch.tensor(slots), torch.tensor([1, 2])) == [4, 6]
        assert [cache.length(each) for each in slots] == [5, 8]
        for wrong in (torch.tensor([slots[0], slots[0]]), [slots[0], slots[0]]):
            with pytest.raises(hipvmm.InvalidArgumentError, match="each slot once"):
                cache.append(wrong, 1)
        with pytest.raises(TypeError):
            cache.append(3, 1)


def test_mistakes_are_told_in_tokens(torch):
    with make(torch) as cache:
        slot = cache.acquire()
        cache.append([slot], 7)
        for tokens in (-1, 8):
            with pytest.raises(hipvmm.InvalidArgumentError, match=f"{tokens} tokens .* has 7"):
                cache.truncate(slot, tokens)
        for first, tokens in ((-1, 1), (0, 8), (7, 1)):
            with pytest.raises(IndexError, match=f"{tokens} tokens from {first} on .* has 7"):
                cache.make_writable(slot, first, tokens)
        with pytest.raises(IndexError, match="2001 tokens .* max_tokens, 2000"):
            cache.slots_that_fit(2001)
        assert cache.length(slot) == 7


def test_numbers_that_the_caller_changes_later_are_copied(torch):
    layers, most = torch.tensor(2), torch.tensor(2000)
    from hipvmm.torch import KVCache

    with KVCache(layers, 4, 64, slots=4, max_tokens=most, dtype=torch.float32) as cache:
        first, second = cache.acquire(), cache.acquire()
        cache.append([first], 7)
        tokens = torch.tensor(5)
        cache.truncate(first, tokens)
        cache.share_prefix(first, [second], tokens)
        for each in (layers, most, tokens):
            each[...] = 1
        assert [cache.length(first), cache.length(second)] == [5, 5]
        assert (cache.layers, cache.max_tokens) == (2, 2000)
        with pytest.raises(TypeError):
            cache.share_prefix(first, [cache.acquire()], 2.5)


def test_a_cache_that_is_made_in_inference_mode_is_written_outside(torch):
    with torch.inference_mode(True):
        cache = make(torch)
    slot = cache.acquire()
    cache.append([slot], 2)
    cache.keys(0, slot)[:] = 3
    cache.tensor[0, slot, 1] = 4
    assert [float(cache.keys(0, slot)[row, 3, 63]) for row in (0, 1)] == [3, 4]


def test_all_sequences_end_or_none(torch):
    with make(torch) as cache:
        slots = [cache.acquire(), cache.acquire()]
        cache.append(slots, 5)
        free = next(each for each in range(4) if each not in slots)
        for wrong, text in ((slots + [9], "slot 9 of 4"), (slots + [free], f"slot {free} is free"),
                            (slots + slots[:1], "named twice")):
            with pytest.raises(ValueError if text != "slot 9 of 4" else IndexError, match=text):
                cache.release(wrong)
            assert [cache.length(each) for each in slots] == [5, 5]
        cache.release(np.array(slots[0]))
        cache.release(np.array(slots[1:]))
        assert [cache.arena.in_use(each) for each in slots] == [False, False]


def test_a_copied_prefix_is_in_the_order_of_its_stream(torch, monkeypatch):
    seen = []
    monkeypatch.setattr("hipvmm.kv_cache.synchronize_stream", lambda *which: seen.append(which))
    cache = make(torch, layout="packed")
    prompt, other = cache.acquire(), cache.acquire()
    cache.append([prompt], 600)
    with hipvmm.Stream() as stream:
        assert not cache.share_prefix(prompt, [other], 600, stream=stream)
        assert seen == [(stream, cache.arena.device)]


@needs_host_access
@pytest.mark.parametrize("layout", ["separate", "packed"])
@pytest.mark.parametrize("make_stream", [hipvmm.Stream, lambda: None])
def test_a_prefix_is_there_for_the_processor(torch, layout, make_stream):
    cache, stream, busy = make(torch, layout=layout), make_stream(), hipvmm.GrowableArray()
    prompt, other = cache.acquire(), cache.acquire()
    cache.append([prompt], 600)
    cache.tensor[:, prompt, :600] = 5
    busy.resize(64 << 20, stream)
    cache.share_prefix(prompt, [other], 600, stream=stream)
    assert bool((cache.tensor[:, other, :600] == 5).all())


@pytest.mark.parametrize("layout", ["separate", "packed"])
def test_a_prefix_is_shared_or_copied(torch, layout):
    cache = make(torch, layout=layout)
    prompt = cache.acquire()
    cache.append([prompt], 600)
    cache.keys(1, prompt)[:] = 5
    others = [cache.acquire(), cache.acquire()]
    is_shared = cache.share_prefix(prompt, others, 600)
    assert not (is_shared and layout == "packed")
    assert (cache.statistics().shared_bytes == 4 * MIB) == is_shared
    assert cache.append(others, 1) == [600, 600]
    for slot in others:
        cache.keys(1, slot)[600] = slot
    if is_shared:
        cache.make_writable(others[0], 0, 1)
    cache.keys(1, others[0])[0] = 6
    hipvmm.synchronize()
    assert [float(cache.keys(1, each)[0, 0, 0]) for each in [prompt, *others]] == [5, 6, 5]
    assert [float(cache.keys(1, each)[600, 0, 0]) for each in others] == others
    with pytest.raises(IndexError, match="601 tokens of a sequence that has 600"):
        cache.share_prefix(prompt, [cache.acquire()], 601)


def test_tensors_keep_the_memory(torch):
    gc.collect()
    before = get_size(lib().live_handles)
    cache = make(torch)
    cache.append(acquire(cache, 3)[2:], 3)
    keys = cache.keys(0, 2)
    keys[:] = 4
    cache.close()
    cache.close()
    del cache
    gc.collect()
    assert float(keys[2, 3, 63]) == 4
    del keys
    gc.collect()
    assert get_size(lib().live_handles) == before


def test_a_cache_that_sleeps_is_refused(torch):
    cache = make(torch, sleep_tag="py_cache_refused")
    slot = cache.acquire()
    cache.append([slot], 2)
    cache.keys(0, slot)[:] = 3
    try:
        hipvmm.suspend("py_cache_refused")
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    step = [tensor_beside(torch, cache, each) for each in (
        [slot], [1], np.zeros((1, 4, 64), "float32"), np.zeros((1, 4, 64), "float32"))]
    for use in (lambda: cache.keys(0, slot), lambda: cache.values(1), lambda: cache.append([slot]),
                lambda: cache.write(0, *step)):
        with pytest.raises(hipvmm.InvalidStateError, match="py_cache_refused"):
            use()
    hipvmm.resume("py_cache_refused")
    assert float(cache.keys(0, slot)[1, 3, 63]) == 3
