# SPDX-License-Identifier: MIT
"""hipvmm.torch.reserve: tensors over addresses whose first rows have memory."""

import copy
import gc
import pickle
import time

import pytest

import hipvmm
import hipvmm.torch
from hipvmm._library import lib
from transformers_support import MIB, DEVICE, needs_growth, torch

pytestmark = needs_growth
keeps = "quirk re_reserve" in hipvmm.capability(0)


def lost_by(reserved):
    """Bytes of the device that end with the tensor; released chunks are kept for a second."""

    def free():
        gc.collect()
        hipvmm.synchronize()
        hipvmm.drain_retired_memory()
        time.sleep(1.3)
        return hipvmm.device_memory(0).free

    before = free()
    del reserved[:]
    return free() - before


@pytest.mark.parametrize("shape, dtype", [
    ((1 << 20,), "float32"), ((4096, 3, 85), "float16"), ((7, 1 << 19), "int64"), ((1, 1), "uint8")])
def test_the_shape_is_whole_from_the_beginning(shape, dtype):
    reserved = hipvmm.torch.reserve(shape, getattr(torch, dtype))
    address = reserved.tensor.data_ptr()
    assert tuple(reserved.tensor.shape) == shape and reserved.tensor.is_contiguous()
    assert reserved.tensor.device.type == DEVICE
    assert (reserved.committed, reserved.held_bytes) == (0, 0)
    assert reserved.row_bytes * shape[0] == reserved.tensor.numel() * reserved.tensor.element_size()
    for rows in (1, shape[0] // 2, shape[0]):
        reserved.commit(rows)
        reserved.tensor[:rows] = 3
        assert reserved.committed >= rows
    assert bool((reserved.tensor == 3).all())
    assert reserved.tensor.data_ptr() == address


def test_memory_follows_the_rows():
    row = MIB // 4
    reserved = hipvmm.torch.reserve((1 << 20, row // 4), torch.float32)
    for rows in (1, 100, 400, 400):
        reserved.commit(rows)
        assert rows * row <= reserved.held_bytes <= rows * row + 4 * MIB
    reserved.tensor[:400] = torch.arange(400.0)[:, None].to(DEVICE)
    held, released = reserved.held_bytes, reserved.decommit(10)
    assert released == held - reserved.held_bytes
    assert reserved.committed == 10
    assert released == 0 if keeps else reserved.held_bytes <= 10 * row + 4 * MIB
    assert reserved.tensor[:10, 5].tolist() == list(range(10))
    reserved.commit(300)
    reserved.tensor[:300].zero_()
    held = reserved.held_bytes
    own = [reserved]
    del reserved
    assert lost_by(own) == held


def test_first_rows_have_a_storage_of_their_own():
    reserved = hipvmm.torch.reserve((1 << 30, 64), torch.int16)
    with pytest.raises(hipvmm.OutOfRangeError, match="1 rows of which 0 have memory"):
        reserved.first_rows(1)
    reserved.commit(300)
    rows = reserved.first_rows(300)
    rows[:] = 7
    assert rows.shape == (300, 64) and bool((reserved.tensor[:300] == 7).all())
    assert torch.equal(pickle.loads(pickle.dumps(rows[5:9])), rows[5:9])
    assert reserved.first_rows(0).shape == (0, 64)


def test_a_chunk_that_is_mostly_unused_gives_way():
    reserved = hipvmm.torch.reserve((1 << 20, 256), torch.float32)
    reserved.commit(1 << 16)  # 64 MiB at once
    reserved.tensor[:1000] = 7
    reserved.decommit(1000)
    assert bool((reserved.tensor[:1000] == 7).all())
    if not keeps:
        assert reserved.held_bytes <= 5 * MIB
    assert reserved.decommit(1000) == 0
    reserved.decommit()
    assert reserved.committed == 0
    if not keeps:
        assert reserved.held_bytes == 0


def test_many_rounds_hold_no_more_than_one():
    reserved = hipvmm.torch.reserve((64, MIB // 4), torch.float32)
    reserved.commit(64)
    most = reserved.held_bytes
    for each in range(300):
        reserved.decommit(each % 3)
        reserved.commit(64 - each % 5)
    assert reserved.held_bytes <= most
    own = [reserved]
    del reserved
    assert lost_by(own) <= most


def test_what_does_not_fit_changes_nothing():
    total = hipvmm.device_memory(0).total
    reserved = hipvmm.torch.reserve((2 * total // MIB, MIB), torch.uint8)
    reserved.commit(3)
    reserved.tensor[:3] = 9
    with pytest.raises(hipvmm.OutOfMemoryError):
        reserved.commit(reserved.tensor.shape[0])
    assert reserved.committed == 3 and reserved.held_bytes <= 4 * MIB
    assert bool((reserved.tensor[:3] == 9).all())
    for rows in (-1, reserved.tensor.shape[0] + 1):
        with pytest.raises(hipvmm.OutOfRangeError, match=f"{rows} rows of a tensor that has"):
            reserved.commit(rows)
        with pytest.raises(hipvmm.OutOfRangeError):
            reserved.decommit(rows)


@pytest.mark.parametrize("shape", [(), (0, 4), (4, 0), (-1,)])
def test_a_shape_without_rows_is_refused(shape):
    with pytest.raises(hipvmm.InvalidArgumentError, match="each of length 1 or more"):
        hipvmm.torch.reserve(shape)


def test_a_wrong_dtype_is_named():
    with pytest.raises(hipvmm.InvalidArgumentError, match="dtype is 'bfloat17'"):
        hipvmm.torch.reserve((4,), "bfloat17")


@pytest.mark.parametrize("option", ["max", "mr", "past_max", "step_limit", "without_vmm"])
def test_an_option_that_the_tensor_sets_is_refused(option):
    with pytest.raises(hipvmm.InvalidArgumentError, match=f"{option} is no option of a reserved"):
        hipvmm.torch.reserve((4, 4), **{option: "1GiB"})


def test_devices_are_named_as_pytorch_names_them(monkeypatch):
    from hipvmm import device

    assert hipvmm.torch.reserve((4, 4), device=DEVICE).tensor.device.type == DEVICE
    assert hipvmm.torch.reserve((4, 4), device=0).tensor.device.type == DEVICE
    for name in ("meta", torch.device("meta")):
        with pytest.raises(hipvmm.InvalidArgumentError, match="has no memory of hipvmm"):
            hipvmm.torch.reserve((4, 4), device=name)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    for provider, name, ordinal in (
            ("amd", "cuda:2", 2), ("cuda", "cuda", 3), ("amd", None, 3), ("amd", 1, 1),
            ("host", 1, 1), ("host", "cpu", 0), ("host", "cuda:1", 1)):
        monkeypatch.setattr(device, "provider", lambda: provider)
        assert device.ordinal_in_torch(name) == ordinal
    with pytest.raises(hipvmm.InvalidArgumentError):  # not the current GPU in silence
        monkeypatch.setattr(device, "provider", lambda: "amd")
        device.ordinal_in_torch("cpu")


def test_more_addresses_than_there_are_is_an_error_of_the_shape():
    with pytest.raises(hipvmm.OutOfMemoryError, match=r"\(1073741824, 1048576\)") as failure:
        hipvmm.torch.reserve((1 << 30, 1 << 20), torch.float32)
    assert failure.value.exhausted == "addresses" and failure.value.bytes_requested == 1 << 52


def test_each_failure_leaves_the_rows_as_they_say(monkeypatch):
    from hipvmm.growable import GrowableArray

    calls, fails = [0], [0]

    def fail_in_turn(name):
        real = getattr(GrowableArray, name)

        def call(self, *args, **options):
            calls[0] += 1
            if calls[0] == fails[0]:
                raise hipvmm.HipError("the test says so")
            return real(self, *args, **options)

        monkeypatch.setattr(GrowableArray, name, call)

    fail_in_turn("resize_uninitialized")
    fail_in_turn("shrink_to_fit")
    for failing in range(1, 20):
        with hipvmm.torch.reserve((1 << 16, 256), torch.float32) as reserved:
            calls[0], fails[0], failed = 0, failing, 0
            for rows in (3, 1 << 15, 1 << 14, 5, 1 << 13, 0):  # 32 MiB in one chunk
                try:
                    (reserved.commit if rows > reserved.committed else reserved.decommit)(rows)
                except hipvmm.HipError:
                    failed += 1
                assert reserved.committed * reserved.row_bytes <= reserved.held_bytes
                reserved.tensor[:reserved.committed] = rows  # all of them have memory
                assert bool((reserved.tensor[:reserved.committed] == rows).all())
            if not failed:
                break
    assert 5 < failing < 19


def test_the_end_releases_all():
    reserved = hipvmm.torch.reserve((1024, 1024), torch.float32)
    with reserved:
        reserved.commit(1000)
        view = reserved.tensor[5:7]
        view.zero_()
    assert repr(reserved) == "ReservedTensor(closed)" and reserved.committed == 0
    for call in (reserved.commit, reserved.decommit):
        with pytest.raises(hipvmm.InvalidHandleError, match="this ReservedTensor was closed"):
            call(1)
    reserved.close()
    assert float(view.sum()) == 0.0
    own = [view]
    del view
    assert lost_by(own) >= 1000 << 12


def test_a_tensor_outlives_its_reservation():
    reserved = hipvmm.torch.reserve((1024, 1024), torch.float32)
    reserved.commit(10)
    view = reserved.tensor[2:4]
    view.fill_(5.0)
    del reserved
    gc.collect()
    assert float(view.sum()) == 5.0 * 2048


def test_it_sleeps_by_its_tag():
    reserved = hipvmm.torch.reserve((1024, 1024), torch.float32, sleep_tag="reserved")
    reserved.commit(1000)
    reserved.tensor[:1000] = 4
    hipvmm.suspend("reserved")
    for call in (reserved.commit, reserved.decommit):
        for rows in (0, 1000, 1024):
            with pytest.raises(hipvmm.InvalidStateError):
                call(rows)
    hipvmm.resume("reserved")
    assert bool((reserved.tensor[:1000] == 4).all())
    assert reserved.committed == 1000


def test_inference_mode_leaves_a_normal_tensor():
    with torch.inference_mode():
        reserved = hipvmm.torch.reserve((64, 64))
        reserved.commit(2)
    reserved.tensor[:2] = 1
    assert not reserved.tensor.is_inference() and float(reserved.tensor[:2].sum()) == 128


def test_text_reads_no_row():
    reserved = hipvmm.torch.reserve((1 << 30,), torch.int8)
    assert repr(reserved) == "ReservedTensor(shape=(1073741824,), dtype=torch.int8, committed=0)"
    assert lib().path  # and nothing else was asked


def test_a_child_of_fork_is_refused(run_python):
    run_python("""
import os
import hipvmm, hipvmm.torch, torch
reserved = hipvmm.torch.reserve((1024, 1024))
reserved.commit(3)
child = os.fork()
if child == 0:
    for call in (reserved.commit, reserved.decommit):
        try:
            call(2)
        except hipvmm.UnsupportedError:
            continue
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")


@pytest.mark.parametrize("profile", ["rocm-6.4", "rocm-7.2", "rocm-7.14"])
@pytest.mark.skipif(hipvmm.provider() != "host", reason="profiles of the host provider")
def test_profiles(profile, run_under_profile):
    run_under_profile(profile, "follows or unused or failure or end_releases", "test_reserved.py")


def test_a_copy_is_refused_with_the_remedy():
    rows = hipvmm.torch.reserve((1000, 1000))
    rows.commit(2)
    for fails in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"tensor\[:committed\].clone\(\)"):
            fails(rows)
