# SPDX-License-Identifier: MIT
"""Slots that grow, and memory that sleeps."""

import gc
import threading
import weakref

import numpy as np
import pytest

import hipvmm
from conftest import needs_chunks, needs_host_access
from hipvmm._library import get_size, lib

MIB = 1 << 20
pytestmark = needs_chunks


def make(**options):
    return hipvmm.SlotArena(4, "8MiB", **{"planes": 2, "block": "2MiB", "prefetch": 0, **options})


def test_a_batch_grows_in_place():
    with make() as arena:
        assert (arena.slots, arena.planes, arena.bytes_per_slot) == (4, 2, 8 * MIB)
        slots = [arena.acquire(), arena.acquire()]
        arena.commit(slots, [100, 3 * MIB])
        pointer = arena.pointer(slots[1], 1)
        assert pointer == arena.ptr + arena.plane_stride + slots[1] * arena.slot_stride
        arena.commit(np.array(slots, "uint64"), np.array([200, 5 * MIB], "uint64"))
        assert arena.pointer(slots[1], 1) == pointer
        assert [arena.length(each) for each in slots] == [200, 5 * MIB]
        assert arena.capacity(slots[1]) == 6 * MIB
        now = arena.statistics()
        assert (now.slots_in_use, now.used_bytes) == (2, 2 * (200 + 5 * MIB))
        assert now.held_bytes == now.needed_bytes == 2 * (2 + 6) * MIB
        arena.truncate(slots[1], 10)
        arena.release(slots[0])
        assert not arena.in_use(slots[0]) and arena.in_use(slots[1])
        hipvmm.synchronize()
        assert arena.trim() == 2 * (2 + 4) * MIB
        assert repr(arena) == f"SlotArena(4, {8 * MIB}, planes=2, device=0)"
    assert repr(arena) == "SlotArena(closed)"
    with pytest.raises(hipvmm.InvalidHandleError, match="this SlotArena was closed"):
        arena.acquire()


def test_a_batch_that_does_not_fit_changes_nothing():
    arena = make(planes=1, budget="4MiB")
    assert arena.slots_that_fit(MIB) == 2
    with pytest.raises(hipvmm.OutOfMemoryError, match="budget") as failure:
        arena.commit([0, 1, 2], [1, 1, 1])
    assert failure.value.exhausted == "limit"
    assert arena.statistics().used_bytes == 0
    arena.set_budget(6 * MIB)
    arena.commit([0, 1, 2], [1, 1, 1])


def test_options_of_idle_memory():
    with make(floor="4MiB", priority=-3) as arena:
        arena.commit([0], [1])
    pool = hipvmm.Pool(floor="4MiB", priority=3)
    pool.deallocate(pool.allocate(MIB), MIB)
    with pytest.raises(hipvmm.InvalidArgumentError, match="priority"):
        make(priority=1001)


def test_wrong_numbers_are_refused():
    arena = make()
    for slots, lengths, error in (
            ([0], [1, 2], hipvmm.InvalidArgumentError), ([9], [1], hipvmm.OutOfRangeError),
            ([-1], [1], hipvmm.OutOfRangeError), ([0], [1 << 64], hipvmm.OutOfRangeError),
            ([0], [1.5], hipvmm.InvalidArgumentError), ("0", [1], hipvmm.InvalidArgumentError)):
        with pytest.raises(error):
            arena.commit(slots, lengths)
    numbers = np.zeros(2, "uint64")
    numbers.flags.writeable = False
    arena.commit(numbers, [1, 2])
    arena.commit(np.zeros(4, "uint64")[::2], np.array([3, 4]))
    assert arena.length(0) == 4
    for kind in ("uint64", "int64"):  # whose first rows alone would be committed
        with pytest.raises(hipvmm.InvalidArgumentError, match="slots are no whole numbers"):
            arena.commit(np.array([[1, 2]], kind), np.array([[5, 6]], kind))
    assert not arena.in_use(1)
    with pytest.raises(ValueError, match="bytes_per_slot"):
        hipvmm.SlotArena(4, 0)
    with pytest.raises(TypeError):
        hipvmm.SlotArena(1.5, "1MiB")
    with pytest.raises(ValueError, match="allowed: separate or packed"):
        make(layout="dense")


@needs_host_access
def test_views_are_no_copies_and_keep_the_memory():
    arena = make()
    arena.commit([1], [3 * 16 * 4 + 5])
    view = arena.view(1, 1, "float32", (16,))
    assert view.shape == (3, 16)
    assert view.__cuda_array_interface__["data"] == (arena.pointer(1, 1), False)
    first, second = np.from_dlpack(view), view.numpy_view()
    second[2, 3] = 7
    assert first[2, 3] == 7
    arena.commit([1], [5 * MIB])
    assert first[2, 3] == 7
    assert arena.view(0).shape == (0,)
    everything = np.from_dlpack(arena.addresses())
    assert everything.nbytes == arena.plane_stride + 4 * arena.slot_stride
    begin = arena.plane_stride + arena.slot_stride
    assert everything[begin:begin + 192].view("float32")[2 * 16 + 3] == 7
    gc.collect()
    before = get_size(lib().live_handles)
    arena.close()
    del view, everything, second
    gc.collect()
    assert first[2, 3] == 7
    del first
    gc.collect()
    assert get_size(lib().live_handles) == before - 1


@needs_host_access
def test_a_prefix_is_shared_until_it_is_written():
    arena = make(planes=1)
    arena.commit([0], [2 * MIB + 4])
    arena.view(0).numpy_view()[:] = 5
    try:
        arena.share_prefix(0, [2, 3], 2 * MIB + 4)
    except hipvmm.UnsupportedError:
        pytest.skip("aliases are not coherent here")
    assert arena.statistics().shared_bytes == 4 * MIB
    arena.make_writable(3, 0, 1)
    arena.view(3).numpy_view()[0] = 6
    hipvmm.synchronize()
    assert [int(arena.view(each).numpy_view()[0]) for each in (0, 2, 3)] == [5, 5, 6]


def test_memory_sleeps_and_wakes_by_its_tag():
    weights = hipvmm.GrowableArray("float32", max="64MiB", sleep_tag="py_weights")
    weights.append([1, 2, 3])
    before = weights.ptr
    try:
        released = hipvmm.suspend("py_weights")
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    assert released > 0
    now = hipvmm.tag_statistics("py_weights")
    assert now.is_asleep and now.objects == 1
    assert now.bytes_asleep == released and now.bytes_on_host > 0
    for call in (lambda: weights.append([4]), weights.tobytes):
        with pytest.raises(hipvmm.InvalidStateError, match="sleeps"):
            call()
    assert len(weights) == 3
    assert hipvmm.suspend("py_weights") == 0
    assert hipvmm.resume("py_weights") == released
    assert weights.ptr == before
    assert list(weights.copy_to_host()) == [1, 2, 3]
    with hipvmm.Stream() as stream:
        assert hipvmm.suspend("py_weights", "nothing", storage="pageable", stream=stream) > 0
    assert hipvmm.tag_statistics("py_weights").bytes_on_host == 0
    hipvmm.resume("py_weights")
    weights.append([4])


def test_memory_of_the_host_is_there_before_the_contents():
    numbers = hipvmm.GrowableArray("uint8", max="64MiB", sleep_tag="py_prepared")
    numbers.append([1, 2, 3])
    nbytes = hipvmm.prepare_suspend("py_prepared")
    assert hipvmm.tag_statistics("py_prepared").bytes_on_host == nbytes > 0
    assert hipvmm.prepare_suspend("py_prepared", "nothing") == 0
    assert hipvmm.tag_statistics("py_prepared").bytes_on_host == 0
    assert hipvmm.prepare_suspend("py_prepared", zeros=[(numbers.ptr, 3)]) == nbytes - 3
    hipvmm.prepare_suspend("py_prepared")
    try:
        hipvmm.suspend("py_prepared", storage="pinned_kept")
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    with pytest.raises(hipvmm.InvalidStateError, match="sleeps"):
        hipvmm.prepare_suspend("py_prepared")
    hipvmm.resume("py_prepared")
    assert hipvmm.tag_statistics("py_prepared").bytes_on_host == nbytes
    assert list(numbers.copy_to_host()) == [1, 2, 3]


def test_parts_of_a_tag_are_zeros_or_dropped_or_stay():
    first = hipvmm.GrowableArray("uint8", max="64MiB", sleep_tag="py_parts")
    stays = hipvmm.GrowableArray("uint8", max="64MiB", sleep_tag="py_parts")
    empty = hipvmm.GrowableArray("uint8", max="64MiB", sleep_tag="py_parts")
    first.append([1, 2, 3, 4])
    stays.append([5, 6])
    try:
        hipvmm.suspend("py_parts", zeros=[(first.ptr + 1, 2)], mapped=[empty, stays])
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    now = hipvmm.tag_statistics("py_parts")
    assert now.is_asleep and now.bytes_mapped > 0 and now.bytes_on_host > 0
    hipvmm.resume("py_parts")
    assert hipvmm.tag_statistics("py_parts").bytes_mapped == 0
    assert list(first.copy_to_host()) == [1, 0, 0, 4]
    assert list(stays.copy_to_host()) == [5, 6]
    with hipvmm.Stream() as stream:
        hipvmm.suspend("py_parts", "nothing", contents=[(first.ptr, 1)], zeros=[stays], stream=stream)
    assert hipvmm.tag_statistics("py_parts").bytes_on_host == 1
    hipvmm.resume("py_parts")
    assert list(first.copy_to_host())[0] == 1
    assert list(stays.copy_to_host()) == [0, 0]
    hipvmm.suspend("py_parts", "zeros")
    hipvmm.resume("py_parts")
    assert list(first.copy_to_host()) == [0, 0, 0, 0]
    for wrong in ([(0, 1)], [(first.ptr, 0)], [(first.ptr, 2), (first.ptr + 1, 1)]):
        with pytest.raises(hipvmm.InvalidArgumentError, match="range"):
            hipvmm.suspend("py_parts", zeros=wrong)
    with pytest.raises(hipvmm.InvalidArgumentError, match="allowed: contents, nothing, zeros"):
        hipvmm.suspend("py_parts", "all")


@needs_host_access
def test_an_arena_sleeps_and_wakes():
    arena = make(planes=1, sleep_tag="py_slots")
    slot = arena.acquire()
    arena.commit([slot], [1000])
    view, before = arena.view(slot).numpy_view(), arena.pointer(slot)
    view[:] = 7
    try:
        hipvmm.suspend("py_slots")
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    with pytest.raises(hipvmm.InvalidStateError, match="py_slots"):
        arena.commit([slot], [4 * MIB])
    hipvmm.resume("py_slots")
    assert arena.pointer(slot) == before
    assert set(view.tolist()) == {7}
    arena.commit([slot], [4 * MIB])


def test_a_pool_sleeps_and_wakes():
    pool = hipvmm.Pool(maximum="64MiB", sleep_tag="py_pool")
    buffer = hipvmm.DeviceBuffer.to_device(b"abc", mr=pool)
    try:
        hipvmm.suspend("py_pool")
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    with pytest.raises(hipvmm.InvalidStateError, match="py_pool"):
        pool.allocate(100)
    hipvmm.resume("py_pool")
    assert buffer.tobytes() == b"abc"


@needs_host_access
def test_no_view_is_made_of_memory_that_sleeps():
    numbers = hipvmm.GrowableArray("int32", sleep_tag="unseen")
    numbers.append([1, 2])
    other = hipvmm.GrowableArray("int32")
    arena = hipvmm.SlotArena(2, "4MiB", sleep_tag="unseen")
    slot = arena.acquire()
    arena.commit([slot], [8])
    try:
        hipvmm.suspend("unseen")
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    for use in (lambda: numbers.__cuda_array_interface__, numbers.__dlpack__, numbers.numpy_view,
                lambda: other.append(numbers), lambda: arena.view(slot)):
        with pytest.raises(hipvmm.InvalidStateError, match="the memory sleeps"):
            use()
    hipvmm.resume("unseen")
    other.append(numbers)
    assert other.copy_to_host().tolist() == [1, 2]
    assert numbers.numpy_view().tolist() == np.from_dlpack(numbers).tolist() == [1, 2]
    assert arena.view(slot).numpy_view().shape == (8,)


def test_contents_wait_in_a_file(tmp_path):
    numbers = hipvmm.GrowableArray("float32", max="64MiB", sleep_tag="py_file")
    numbers.append([1, 2, 3])
    try:
        hipvmm.suspend("py_file", storage="file", folder=tmp_path)
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    now = hipvmm.tag_statistics("py_file")
    assert now.bytes_on_disk == now.bytes_asleep > 0
    hipvmm.resume("py_file")
    assert list(numbers.copy_to_host()) == [1, 2, 3]
    with pytest.raises(ValueError, match="folder is for storage=file only"):
        hipvmm.suspend("py_file", folder=tmp_path)


def test_names_that_nothing_was_made_with_are_refused():
    for call in (hipvmm.suspend, hipvmm.prepare_suspend, hipvmm.resume, hipvmm.tag_statistics):
        with pytest.raises(ValueError, match="nothing was made with the tag 'py_misspelt'"):
            call("py_misspelt")
        with pytest.raises(ValueError, match="has a zero"):
            call("a\0b")
    with pytest.raises(ValueError, match="allowed: contents, nothing"):
        hipvmm.suspend("py_weights", "everything")


def full_arena(**options):
    """An arena of two blocks, both of which slots 0 and 1 have."""
    arena = make(planes=1, budget="4MiB", **options)
    arena.commit([0, 1], [1, 1])
    return arena


def test_an_eviction_callback_makes_room():
    seen = []

    def evict(missing):
        seen.append(missing)
        assert arena.slots_that_fit(1) == 0
        assert arena.view(1).shape == (1,)
        arena.release(1)

    arena = full_arena(evict=evict)
    arena.commit([2, 0], [1, 2])
    assert seen == [2 * MIB]
    assert arena.statistics().evictions == 1
    assert [arena.length(each) for each in range(4)] == [2, 0, 1, 0]
    arena.set_eviction(None)
    with pytest.raises(hipvmm.OutOfMemoryError):
        arena.commit([3], [1])
    assert len(seen) == 1
    arena.set_eviction(lambda missing: arena.release(2))
    arena.commit([3], [1])
    with pytest.raises(hipvmm.InvalidArgumentError, match="evict must be a function"):
        arena.set_eviction(7)


def test_what_an_eviction_callback_raises_comes_out_of_commit():
    arena = full_arena()
    failures = [
        (lambda missing: {}["no sequence"], KeyError, "no sequence"),
        (lambda missing: arena.release(0), hipvmm.InvalidArgumentError, "slot 0 is of the batch"),
        (lambda missing: arena.acquire(), hipvmm.InvalidStateError, "eviction callback"),
        (lambda missing: arena.commit([3], [1]), hipvmm.InvalidStateError, "eviction callback"),
        (lambda missing: arena.set_eviction(None), hipvmm.InvalidStateError, "eviction callback"),
    ]
    for evict, error, text in failures:
        arena.set_eviction(evict)
        with pytest.raises(error, match=text):
            arena.commit([2, 0], [1, 2])
        assert [arena.length(each) for each in range(4)] == [1, 1, 0, 0]

    class Stop(BaseException):
        """As KeyboardInterrupt."""

    def stop(missing):
        raise Stop

    arena.set_eviction(stop)
    with pytest.raises(Stop):
        arena.commit([2], [1])
    # A failure that the callback handles is not the commit's.
    def try_first(missing):
        with pytest.raises(hipvmm.InvalidArgumentError):
            arena.release(0)
        arena.release(1)

    arena.set_eviction(try_first)
    arena.commit([2, 0], [1, 2])
    assert arena.length(2) == 1


def test_an_arena_ends_with_its_eviction_callback():
    gc.collect()
    before = get_size(lib().live_handles)
    arena = full_arena()
    arena.set_eviction(lambda missing: arena.release(1))  # a circle
    del arena
    gc.collect()
    assert get_size(lib().live_handles) == before
    arena = full_arena()
    arena.set_eviction(lambda missing: arena.close())
    with pytest.raises(hipvmm.OutOfMemoryError):
        arena.commit([2], [1])
    assert arena.closed


def test_threads_may_set_eviction_callbacks_at_once(monkeypatch):
    arena = full_arena()
    set_eviction = lib().slot_arena_set_eviction

    def second(missing):
        arena.release(1)

    seen = weakref.ref(second)
    other = threading.Thread(target=arena.set_eviction, args=(second,))
    del second

    def set_meanwhile(*args):
        set_eviction(*args)
        monkeypatch.undo()
        other.start()
        other.join(0.1)

    monkeypatch.setattr(lib(), "slot_arena_set_eviction", set_meanwhile)
    arena.set_eviction(lambda missing: None)
    other.join()
    del other
    gc.collect()
    assert seen() is not None  # the library calls it
    arena.commit([2], [1])


@needs_host_access
def test_whatever_uses_memory_that_sleeps_is_refused():
    pool = hipvmm.Pool(maximum="64MiB", sleep_tag="py_refused")
    buffer = hipvmm.DeviceBuffer.to_device(b"abc", mr=pool)
    above = hipvmm.mr.LimitingResourceAdaptor(pool, 1 << 24)
    other = hipvmm.DeviceBuffer.to_device(b"def", mr=above)
    arena = hipvmm.SlotArena(2, "4MiB", sleep_tag="py_refused")
    slot = arena.acquire()
    arena.commit([slot], [8])
    view = arena.view(slot)
    awake = hipvmm.DeviceBuffer.to_device(b"ghi")
    try:
        hipvmm.suspend("py_refused")
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    uses = [view.__dlpack__, view.numpy_view, lambda: view.__cuda_array_interface__,
            lambda: awake.copy_from_device(buffer)]
    for each in (buffer, other):
        uses += [each.tobytes, each.copy_to_host, each.copy, each.__dlpack__, each.__reduce__,
                 lambda: each.__cuda_array_interface__, lambda: each.copy_from_host(b"x"),
                 lambda: each.copy_from_device(awake), lambda: each.resize(1 << 20)]
    for use in uses:
        with pytest.raises(hipvmm.InvalidStateError, match="py_refused"):
            use()
    assert awake.tobytes() == b"ghi"
    arena.addresses().__dlpack__()  # some without memory at any time
    hipvmm.resume("py_refused")
    assert (buffer.tobytes(), other.tobytes()) == (b"abc", b"def")
    view.__dlpack__()


def test_what_has_an_index_is_a_length():
    class Length:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            return self.value

    with hipvmm.SlotArena(4, "4MiB") as arena:
        slots = [arena.acquire(), arena.acquire()]
        arena.commit([Length(each) for each in slots], [Length(10), Length(20)])
        assert [arena.length(each) for each in slots] == [10, 20]
        with pytest.raises(hipvmm.OutOfRangeError):
            arena.commit([Length(each) for each in slots], [Length(-1), Length(20)])
