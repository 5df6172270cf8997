# SPDX-License-Identifier: MIT
"""hipvmm.transformers: memory that caches hold and give back, and devices that refuse it."""

import copy
import gc
import pathlib
import pickle
import time

import pytest

import hipvmm
from hipvmm._library import get_size, lib
from conftest import exported
from transformers_support import (  # noqa: F401  (grown is a fixture)
    MIB, all_of, config, grown, needs_growth, pair, same, tokens, torch, update)

pytestmark = needs_growth


def free_bytes():
    gc.collect()
    hipvmm.synchronize()
    hipvmm.drain_retired_memory()
    return hipvmm.device_memory(0).free


@pytest.fixture(scope="module", name="empty")
def free_without_caches():
    """Free bytes without caches: released chunks are kept for a second."""
    most, since = free_bytes(), time.monotonic()
    while time.monotonic() < since + 2:
        time.sleep(0.02)
        if free_bytes() > most:
            most, since = free_bytes(), time.monotonic()
    return most


def comes_to(expected):
    """Whether so much is free within ten seconds."""
    deadline = time.monotonic() + 10
    while free_bytes() < expected and time.monotonic() < deadline:
        time.sleep(0.02)
    return free_bytes() >= expected


@pytest.mark.parametrize("batch, context", [(1, 1), (1, 5000), (8, 700), (64, 90), (64, 600)])
def test_memory_held_is_that_of_the_tokens(grown, batch, context):
    layers, row = 4, 2 * batch * 4 * 64 * 4
    cache = grown.GrowingCache(config=config(*["full_attention"] * layers))
    for count in (context - context // 8 - 1, *[1] * (context // 8)) if context > 8 else (context,):
        for layer in range(layers):
            cache.update(*tokens(batch, count, 4, 64), layer)
    kv = layers * row * cache.get_seq_length()
    assert kv <= cache.held_bytes <= kv * 33 / 32 + layers * 2 * MIB


def test_a_view_is_copied_without_addresses_that_have_no_memory(grown):
    cache = grown.GrowingCache(config=config("full_attention"))
    for count in (1, 9000, 1):
        cache.update(*tokens(1, count, 4, 64), 0)
        layer = cache.layers[0]
        for view in (layer.keys, layer.values):
            for each in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
                assert torch.equal(each, view) and each.data_ptr() != view.data_ptr()
    cache.crop(-8999)
    assert torch.equal(copy.deepcopy(layer.keys), layer.keys)


def test_steps_that_do_not_grow_export_nothing(grown):
    cache = grown.GrowingCache(config=config("full_attention"))
    cache.update(*tokens(4, 100), 0)
    counts = []
    for _ in range(20):
        cache.reorder_cache(torch.tensor([3, 0, 1, 1]))
        cache.update(*tokens(4, 30000), 0)
        cache.crop(-30000)
        counts.append(exported())
    assert counts[-1] == counts[2]


def test_steps_that_do_not_grow_call_nothing(grown, monkeypatch):
    caches = pair(grown, "full_attention")
    for count in (100, 1):  # of a growth that has passed the library is asked once
        update(caches, 0, *tokens(2, count))

    def fails():
        raise AssertionError("a call of the library")

    with monkeypatch.context() as patched:
        patched.setattr("hipvmm.growable.lib", fails)
        for _ in range(20):
            update(caches, 0, *tokens(2, 1))
    assert same(*caches)
    for name in ("keys", "values"):  # which others assign
        for each in caches:
            setattr(each.layers[0], name, 2 * getattr(each.layers[0], name))
        update(caches, 0, *tokens(2, 1))
    assert same(*caches) and caches[0].held_bytes > 0


def test_growth_is_amortised(grown):
    cache = grown.GrowingCache(config=config("full_attention"))
    for _ in range(6000):
        cache.update(*tokens(1, 1, 4, 512), 0)  # 16 KiB a token, 94 MiB
    grown_by = cache.layers[0]._tokens._array.statistics()
    assert grown_by.base_moves == grown_by.copied_bytes == 0
    # 2 MiB until a 32nd of the layer is more.
    assert grown_by.growth_steps <= 33 + 12


@pytest.mark.parametrize("release", ["reset", "crop", "offload", "end"])
def test_memory_returns_to_the_device(grown, empty, release):
    before = empty
    assert comes_to(before)
    cache = grown.GrowingCache(config=config("full_attention"))
    for _ in range(24):
        cache.update(*tokens(1, 512, 8, 64), 0)  # 48 MiB
    assert free_bytes() <= before - 48 * MIB
    if release == "reset":
        cache.reset()
    elif release == "offload":
        cache.layers[0].offload()
    elif release == "crop":
        cache.crop(1024)
        assert comes_to(before - 10 * MIB) and cache.held_bytes <= 10 * MIB
        assert free_bytes() < before
        cache.update(*tokens(1, 12 * 1024, 8, 64), 0)  # in one chunk
        cache.crop(1024)
        assert comes_to(before - 10 * MIB) and cache.held_bytes <= 10 * MIB
        cache.batch_repeat_interleave(12)
        cache.batch_select_indices(torch.tensor([7]))
        assert comes_to(before - 10 * MIB) and cache.held_bytes <= 10 * MIB
        cache.crop(-1024)
    else:
        del cache
    assert comes_to(before)


def test_crop_keeps_a_slack_and_releases_the_rest(grown):
    caches = pair(grown, "full_attention")
    for _ in range(24):
        update(caches, 0, *tokens(1, 512, 8, 64))
    held = caches[0].held_bytes
    for each in caches:
        each.crop(-100)
    assert caches[0].held_bytes == held  # assisted decoding takes some tokens back each time
    for each in caches:
        each.crop(-6144)
    assert same(*caches)
    slack = 2 if "quirk re_reserve" in hipvmm.capability(0) else 9 / 8
    assert caches[0].held_bytes <= 24 * MIB * slack + 6 * MIB
    update(caches, 0, *tokens(1, 4000, 8, 64))
    assert same(*caches)


def test_a_growth_that_fails_changes_nothing(grown, monkeypatch):
    from hipvmm._tokens import GrowableArray

    calls, fails = [0], set()
    real = GrowableArray.resize_uninitialized

    def resize(self, rows):
        calls[0] += 1
        if calls[0] in fails:
            raise hipvmm.OutOfMemoryError("no memory, says the test")
        real(self, rows)

    monkeypatch.setattr(GrowableArray, "resize_uninitialized", resize)
    script = [lambda c, t: c.update(*t, 0)] * 3 + [
        lambda c, t: c.batch_repeat_interleave(2), lambda c, t: c.layers[0].offload(),
        lambda c, t: c.layers[0].prefetch(), lambda c, t: copy.deepcopy(c)]
    given = [tokens(2, 3000) for _ in script]
    for failing in range(1, 40):
        caches, calls[0], fails = pair(grown, "full_attention"), 0, {failing, failing + 1}
        raised = 0
        for step, new in zip(script, given):
            step(caches[1], new)
            before = [each.clone() for each in all_of(caches[0])]
            try:
                step(caches[0], new)
            except hipvmm.OutOfMemoryError:
                raised += 1
                assert all(map(torch.equal, before, all_of(caches[0])))
                fails.clear()
                step(caches[0], new)
            assert same(*caches)
        if not raised and failing > 1:
            break
    assert 5 < failing < 39


def test_a_release_that_fails_is_made_later(grown, monkeypatch):
    from hipvmm._tokens import GrowableArray

    def fails(*_, **__):
        raise hipvmm.HipError("no release, says the test")

    caches = pair(grown, "full_attention")
    for _ in range(12):
        update(caches, 0, *tokens(2, 512, 8, 64))
    held = caches[0].held_bytes
    with monkeypatch.context() as patched:
        patched.setattr(GrowableArray, "shrink_to_fit", fails)
        patched.setattr(grown.GrowingLayer, "_move_to", fails)  # on ROCm 6.1 to 7.2
        for each in caches:
            each.crop(-5000)
            each.batch_select_indices(torch.tensor([1]))
    assert same(*caches) and caches[0].held_bytes == held
    with monkeypatch.context() as patched:  # it may have left memory that must be mapped again
        patched.setattr(GrowableArray, "_require_awake", fails)
        if "quirk re_reserve" not in hipvmm.capability(0):
            with pytest.raises(hipvmm.HipError):
                caches[0].update(*tokens(1, 1, 8, 64), 0)
    assert same(*caches)
    update(caches, 0, *tokens(1, 5, 8, 64))
    for each in caches:
        each.crop(-1)
    assert same(*caches) and caches[0].held_bytes < held


START = """
import os, sys
sys.path.insert(0, sys.argv[1])
import transformers_stand_in as stand_in
sys.modules.update(stand_in.modules())
import copy, pickle, torch
import hipvmm, hipvmm.transformers

def tokens(batch=1, count=3):
    return torch.ones(batch, 2, count, 16), torch.ones(batch, 2, count, 16)

def refused(error, *calls):
    for call in calls:
        try:
            call()
        except error as why:
            text = str(why)
        else:
            sys.exit("not refused")
    return text

cache = hipvmm.transformers.GrowingCache()
"""
FOLDER = str(pathlib.Path(__file__).parent)


@pytest.mark.skipif(hipvmm.provider() != "host", reason="a plan of the host provider")
def test_a_device_that_is_full(run_python):
    printed = run_python(START + """
a, b = cache, hipvmm.transformers.GrowingCache()
beside = stand_in.DynamicCache()
b.update(torch.zeros(1, 4, 9000, 64), torch.zeros(1, 4, 9000, 64), 0)
failures = 0
for step in range(15):
    one = [torch.randn(2, 4, 1000, 64) for _ in range(2)]
    beside.update(*one, 0)
    for _ in range(2):
        try:
            a.update(*one, 0)
            break
        except hipvmm.OutOfMemoryError:
            failures += 1
            assert a.get_seq_length() == 1000 * step
            assert torch.equal(a.layers[0].keys, beside.layers[0].keys[:, :, :-1000])
            b.reset()  # the memory of another cache is enough
    else:
        sys.exit("no memory came back")
    assert torch.equal(a.layers[0].values, beside.layers[0].values)
print(failures, "failures")
""", arguments=[FOLDER], HIPVMM_HOST_MEMORY="1GiB", HIPVMM_HOST_FAULTS="memory=70MiB")
    assert printed == "1 failures\n"


def test_more_tokens_than_addresses_are_refused(run_python):
    run_python(START + """
cache.update(torch.ones(1, 2, 16000, 16), torch.ones(1, 2, 16000, 16), 0)
try:
    cache.update(torch.ones(1, 2, 1000, 16), torch.ones(1, 2, 1000, 16), 0)
except hipvmm.OutOfMemoryError as why:
    assert why.exhausted == "addresses" and why.bytes_requested == 17000 * 256, why
else:
    sys.exit("not refused")
assert cache.get_seq_length() == 16000
cache.update(torch.ones(1, 2, 384, 16), torch.ones(1, 2, 384, 16), 0)
assert cache.held_bytes == 4 << 20
""", arguments=[FOLDER], HIPVMM_CONF="buffer.max=4MiB")


def test_memory_that_sleeps_is_refused(run_python):
    run_python(START + """
for count in (3, 1, 1):
    cache.update(*tokens(1, count), 0)
try:
    hipvmm.suspend("py_growing")
except hipvmm.UnsupportedError:
    sys.exit()
layer = cache.layers[0]
refused(hipvmm.InvalidStateError, lambda: cache.update(*tokens(1, 1), 0),
        lambda: cache.update(*tokens(), 0), lambda: copy.copy(layer),
        lambda: copy.deepcopy(cache), lambda: pickle.dumps(cache), lambda: cache.crop(-1),
        lambda: cache.reorder_cache(torch.tensor([0])), layer.offload)
hipvmm.resume("py_growing")
assert torch.equal(layer.keys, tokens(1, 5)[0])
cache.update(*tokens(1, 1), 0)
hipvmm.suspend("py_growing")
cache.reset()
refused(hipvmm.InvalidStateError, lambda: cache.update(*tokens(2), 0))
assert cache.get_seq_length() == 0
hipvmm.resume("py_growing")
cache.update(*tokens(2), 0)
""", arguments=[FOLDER], HIPVMM_CONF="buffer.sleep_tag=py_growing")


def test_a_child_of_fork_does_not_write_to_its_parents_tokens(run_python):
    run_python(START + """
for count in (2, 1):
    cache.update(*tokens(1, count), 0)
prompt = hipvmm.transformers.GrowingCache()
prompt.update(*tokens(8, 3000), 0)
copied = copy.deepcopy(prompt)
child = os.fork()
if child == 0:
    refused(hipvmm.UnsupportedError, lambda: cache.update(*tokens(), 0),
            lambda: cache.update(*tokens(1, 1), 0), lambda: copy.deepcopy(cache),
            lambda: copied.update(*tokens(8, 1), 0), lambda: copy.deepcopy(copied))
    del copied
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert cache.update(*tokens(), 0)[0].shape[2] == 6
assert copied.update(*tokens(8, 1), 0)[0].shape[2] == 3001
""", arguments=[FOLDER])


@pytest.mark.skipif(hipvmm.provider() != "host", reason="a profile of the host provider")
def test_a_device_without_virtual_memory_is_refused(run_python):
    assert "use transformers' DynamicCache" in run_python(START + """
print(refused(hipvmm.UnsupportedError, lambda: cache.update(*tokens(), 0)))
assert cache.get_seq_length() == 0
""", arguments=[FOLDER], HIPVMM_HOST_PROFILE="rocm-5.7")


@pytest.mark.skipif(hipvmm.provider() != "host", reason="leaks are found by the host provider")
def test_caches_may_be_there_at_the_exit(run_python):
    assert run_python(START + """
import atexit

@atexit.register  # before hipvmm's, and so called after that
def late():
    refused(hipvmm.InvalidHandleError, lambda: cache.update(*tokens(1, 1), 0))
    print("refused")

with hipvmm.transformers.install():
    cache.update(*tokens(), 0)
    cache.update(*tokens(1, 1), 0)
cache.update(*tokens(8, 3000), 2)
kept, cycle = cache.update(*tokens(), 1)[0], [copy.deepcopy(cache)]
cycle.append(cycle)
""", arguments=[FOLDER], HIPVMM_HOST_LEAKS="1") == "refused\n"


def test_a_thousand_caches_leave_nothing(grown, empty):
    handles, given = get_size(lib().live_handles), tokens(2, 5)
    for _ in range(1000):
        cache = grown.GrowingCache(config=config("full_attention"))
        cache.update(*given, 0)
        view = cache.update(*given, 0)[0]
        del cache
    assert torch.equal(view[:, :, 5:], given[0])  # a tensor keeps the memory
    del view
    gc.collect()
    assert get_size(lib().live_handles) == handles
    assert comes_to(empty)


@pytest.mark.parametrize("profile", ["rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14"])
@pytest.mark.skipif(hipvmm.provider() != "host", reason="profiles of the host provider")
def test_profiles(profile, run_under_profile):
    run_under_profile(profile, "random or returns or slack or once or sees",
                      "test_transformers.py", "test_transformers_copies.py",
                      "test_transformers_memory.py")
