# SPDX-License-Identifier: MIT
"""hipvmm.transformers: copies of a cache, which share the blocks of its prompt where they may."""

import copy
import threading

import pytest

import hipvmm
from transformers_support import (  # noqa: F401  (grown is a fixture)
    DEVICE, MIB, all_of, config, grown, needs_growth, pair, same, tokens, torch, update)

pytestmark = needs_growth
KIB_8 = {"batch": 2, "heads": 4, "width": 128}  # a token
may_share = "quirk no_aliases" not in hipvmm.capability(0)


def prompt(grown, count):
    """A cache with a prompt, and one that concatenates."""
    caches = pair(grown, "full_attention")
    update(caches, 0, *tokens(count=count, **KIB_8))
    return caches


def copies_of(caches, count):
    """The caches, and copies of both, in pairs."""
    return [caches] + [tuple(copy.deepcopy(each) for each in caches) for _ in range(count)]


def all_same(pairs):
    return all(same(*each) for each in pairs)


def grow(*pairs, count=1):
    for each in pairs:
        update(each, 0, *tokens(count=count, **KIB_8))


@pytest.mark.parametrize("context", [300, 768, 1500])
def test_copies_hold_a_prompt_once(grown, context):
    caches = prompt(grown, context)
    before = all_of(caches[0])[0]
    address = before.data_ptr()
    pairs = copies_of(caches, 3)
    nbytes = context * 8192
    held = sum(each.held_bytes for each, _ in pairs)
    if may_share and nbytes >= 4 * MIB:
        assert nbytes <= held <= nbytes + 4 * 2 * MIB
        assert pairs[1][0].held_bytes <= 2 * MIB
    else:
        assert held >= 4 * nbytes and all_of(caches[0])[0].data_ptr() == address
    for each in range(4):
        grow(*pairs, count=1 + each * 70)
        assert all_same(pairs)
    assert torch.equal(before, all_of(caches[1])[0][:, :, :context])
    del caches, pairs[:2], pairs[1:]  # in any order
    hipvmm.synchronize()
    grow(*pairs, count=400)
    assert all_same(pairs) and nbytes <= pairs[0][0].held_bytes
    if "quirk re_reserve" not in hipvmm.capability(0):
        assert pairs[0][0].held_bytes <= (context + 824) * 8192 + 2 * MIB


def crop(count):
    return lambda cache: cache.crop(-count)


WRITES = {
    "a little, then the last block, then all": [crop(3), 1, crop(300), 1, 1, crop(900), 2],
    "the block before": [crop(257), 1, 600],
    "releases": [crop(1100), 1, 1, 1200, 1],
    "reorders": [lambda c: c.reorder_cache(torch.tensor([1, 1])), 1],
    "repeats": [lambda c: c.batch_repeat_interleave(2),
                lambda c: c.batch_select_indices(torch.tensor([3, 0])), 1],
    "selects": [lambda c: c.batch_select_indices(torch.tensor([1, 0])), 1, crop(1000), 1],
    "offloads": [lambda c: c.layers[0].offload(), lambda c: c.layers[0].prefetch(), crop(800), 1],
    "copies again": [copy.deepcopy, crop(900), copy.deepcopy, 1, crop(50), 1],
}


@pytest.mark.parametrize("writer", [0, 1])
@pytest.mark.parametrize("kind", WRITES)
def test_nobody_sees_what_a_copy_writes(grown, kind, writer, monkeypatch):
    if kind == "releases":
        monkeypatch.setattr("hipvmm._tokens._SLACK", 0)
    pairs, kept = copies_of(prompt(grown, 1500), 1), []
    for step in WRITES[kind]:
        if isinstance(step, int):
            grow(pairs[writer], count=step)
        else:
            made = tuple(map(step, pairs[writer]))
            kept += [made] if step is copy.deepcopy else []
        assert all_same(pairs + kept)
    grow(*pairs, *kept)
    assert all_same(pairs + kept)


def test_more_copies_than_share(grown):
    pairs = copies_of(prompt(grown, 600), 11)
    grow(*pairs)
    assert all_same(pairs)
    del pairs[3:7]
    pairs += copies_of(pairs[-1], 3)[1:]
    grow(*pairs, count=3)
    assert all_same(pairs)


@pytest.mark.skipif(not may_share, reason="nothing is shared")
@pytest.mark.parametrize("name", ["commit", "acquire", "share_prefix", "make_writable"])
def test_a_copy_that_fails_changes_nothing(grown, monkeypatch, name):
    from hipvmm._shared_rows import SlotArena

    pairs = copies_of(prompt(grown, 600), 1)

    def fails(*_, **__):
        raise hipvmm.OutOfMemoryError("no memory, says the test")

    with monkeypatch.context() as patched:
        patched.setattr(SlotArena, name, fails)
        if name == "acquire":  # as without a free slot: the contents are copied
            pairs += copies_of(pairs[0], 1)[1:]
        elif name == "make_writable":
            for each in pairs:
                each[0].crop(-250), each[1].crop(-250)
                with pytest.raises(hipvmm.OutOfMemoryError):
                    each[0].update(*tokens(count=1, **KIB_8), 0)
                with pytest.raises(hipvmm.OutOfMemoryError):
                    each[0].reorder_cache(torch.tensor([1, 0]))
        else:
            for each in [pairs[0][0], *(prompt(grown, 600)[:1] if name == "commit" else ())]:
                with pytest.raises(hipvmm.OutOfMemoryError):
                    copy.deepcopy(each)
        assert all_same(pairs)
    pairs += copies_of(pairs[1], 1)[1:]
    grow(*pairs, count=300)
    assert all_same(pairs)


def test_copies_in_threads(grown):
    pairs, failures = copies_of(prompt(grown, 600), 4), []

    def work(index):
        try:
            mine, given = pairs[index], tokens(count=1, **KIB_8)
            for step in range(12):
                for each in mine:
                    each.crop(-(40 if step % 2 else 1 + index))
                    each.update(*given, 0)
                if step % 4 == 3:
                    assert same(*(copy.deepcopy(each) for each in mine))
                assert same(*mine)
        except Exception as why:  # which a thread would lose
            failures.append(why)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(len(pairs))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures and all_same(pairs)


def test_incoherent_aliases_are_not_shared(grown, monkeypatch):
    monkeypatch.setattr("hipvmm._tokens.capability", lambda _: "quirk no_aliases: says the test")
    pairs = copies_of(prompt(grown, 600), 1)
    grow(*pairs)
    assert all_same(pairs) and min(each.held_bytes for each, _ in pairs) >= 600 * 8192
