# SPDX-License-Identifier: MIT
"""Budgets: alone, and with another process that trims."""

import gc
import os
import subprocess
import sys
import time
import weakref

import pytest

import hipvmm
from conftest import needs_chunks
from hipvmm._library import lib

MIB = 1 << 20
pytestmark = needs_chunks


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own for budgets of this process and its children."""
    made = tmp_path / "budgets"
    made.mkdir(mode=0o700)
    monkeypatch.setenv("HIPVMM_BUDGETS", str(made))
    gc.collect()
    hipvmm.drain_retired_memory()
    # Chunks that the process has kept since other tests count already when an array takes them.
    with hipvmm.MemoryBudget("before", 1 * MIB) as before:
        before.make_room(1 * MIB)
    return made


def make_array(mib=0):
    array = hipvmm.GrowableArray("uint8", max="256MiB", step_limit=0)
    array.resize(mib * MIB)
    return array


def test_what_the_process_takes_counts():
    with hipvmm.MemoryBudget("counts", "64MiB", priority=-7, patience=0.5) as budget:
        before = budget.statistics()
        array = make_array(8)
        now = budget.statistics()
        assert now.limit == 64 * MIB
        assert now.own_bytes - before.own_bytes >= 8 * MIB
        assert (now.bytes, now.holders) == (now.own_bytes, 1)
        holder, = budget.holders()
        assert (holder.process, holder.priority) == (os.getpid(), -7)
        assert (holder.bytes, holder.waiting_for) == (now.own_bytes, 0)
        assert holder.program
        assert (budget.name, budget.device) == ("counts", 0)
        assert repr(budget) == "MemoryBudget('counts', device=0)"
        with pytest.raises(hipvmm.OutOfMemoryError, match="budget 'counts'") as failure:
            array.resize(128 * MIB)
        assert failure.value.exhausted == "budget"
        assert len(array) == 8 * MIB
        assert not budget.make_room(128 * MIB)
        budget.set_limit(256 * MIB)
        assert budget.make_room(128 * MIB)
        array.resize(128 * MIB)
    assert repr(budget) == "MemoryBudget(closed)"
    with pytest.raises(hipvmm.InvalidHandleError):
        budget.statistics()


def test_wrong_arguments_are_refused():
    for arguments, options, text in (
            (("a/b",), {}, "a/b"), (("a", 0), {}, "zero"), (("a",), {"priority": 9999}, "priority"),
            (("a\0b",), {}, "zero"), (("a",), {"trim": 7}, "trim must be a function"),
            (("a",), {"patience": -1}, "from 0 to 86400"), (("a",), {"device": 99}, "99")):
        with pytest.raises(ValueError, match=text):
            hipvmm.MemoryBudget(*arguments, **options)
    with hipvmm.MemoryBudget("a") as budget:
        assert budget.statistics().limit == hipvmm.device_memory().total
        with pytest.raises(hipvmm.InvalidArgumentError):
            hipvmm.MemoryBudget("b")
    hipvmm.MemoryBudget("b").close()


CACHE = """
import sys
import hipvmm

array = hipvmm.GrowableArray("uint8", max="256MiB", step_limit=0)
array.resize(32 << 20)

def trim(nbytes):
    global array, budget
    print("asked", flush=True)
    try:
        budget.statistics()
    except ValueError:
        print("refused", flush=True)
    array.close()
    LAST

budget = hipvmm.MemoryBudget("shared", "1GiB", priority=-1, trim=trim)
print("holds", flush=True)
sys.stdin.readline()
print("ends", flush=True)
"""


@pytest.mark.parametrize("last", ["pass", "budget.close()", "raise KeyError('of trim')"])
def test_another_process_trims_what_this_one_needs(last):
    with hipvmm.MemoryBudget("alone", "1GiB") as budget:
        budget.make_room(1 << 30)  # what earlier tests have left and nobody has is released
    child = subprocess.Popen([sys.executable, "-c", CACHE.replace("LAST", last)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "holds\n"
        with hipvmm.MemoryBudget("shared", patience=20) as budget:
            now = budget.statistics()
            assert now.limit == 1 << 30
            others = now.bytes - now.own_bytes
            assert others >= 32 * MIB
            budget.set_limit(now.bytes + 2 * MIB)
            assert [each.priority for each in budget.holders()] == [-1, 0]
            array = make_array(16)
            assert budget.statistics().own_bytes >= 16 * MIB
            if last == "budget.close()":
                deadline = time.monotonic() + 20
                while budget.statistics().holders == 2 and time.monotonic() < deadline:
                    time.sleep(0.005)
                assert budget.statistics().holders == 1
            array.close()
    finally:
        out, err = child.communicate("\n", timeout=60)
    assert child.returncode == 0, err
    assert out.splitlines() == ["asked", "refused", "ends"]
    assert ("of trim" in err) == ("raise" in last)


def test_a_budget_ends_with_its_object():
    budget = hipvmm.MemoryBudget("ends", trim=lambda nbytes: budget)  # a circle
    del budget
    gc.collect()
    hipvmm.MemoryBudget("ends").close()


def test_a_callback_lives_while_a_call_is_under_way(monkeypatch):
    def trim(nbytes):
        """Nothing."""

    seen = weakref.ref(trim)
    budget = hipvmm.MemoryBudget("under_way", "64MiB", trim=trim)
    del trim
    make_room = lib().budget_make_room

    def closed_meanwhile(*args):
        budget.close()  # as another thread may
        gc.collect()
        assert seen() is not None
        make_room(*args)

    monkeypatch.setattr(lib(), "budget_make_room", closed_meanwhile)
    assert budget.make_room(1)
    gc.collect()
    assert budget.closed and seen() is None
    hipvmm.MemoryBudget("under_way").close()


def test_idle_memory_of_a_pool_serves_others():
    before = hipvmm.idle_statistics()
    with hipvmm.MemoryBudget("idle", "64MiB", patience=0.5):
        pool = hipvmm.Pool()
        pool.deallocate(pool.allocate(48 * MIB), 48 * MIB)
        hipvmm.synchronize()
        assert hipvmm.idle_statistics().asked == before.asked
        array = make_array(32)
        now = hipvmm.idle_statistics()
        assert now.asked > before.asked and now.refused == before.refused
        assert now.released_bytes >= before.released_bytes + 16 * MIB
        assert now.seconds > before.seconds
        del array, pool
        hipvmm.drain_retired_memory()
