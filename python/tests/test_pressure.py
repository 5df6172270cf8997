# SPDX-License-Identifier: MIT
"""Watermarks of device memory."""

import gc
import os
import sys
import threading

import pytest

import hipvmm

MIB = 1 << 20


def held():
    """Bytes that the process holds when it holds nothing."""
    gc.collect()
    hipvmm.drain_retired_memory()
    with pytest.raises(hipvmm.OutOfMemoryError):  # empties the cache of chunks
        hipvmm.GrowableArray("uint8", max="1TiB").resize(2 * hipvmm.device_memory().total)
    with hipvmm.MemoryPressure(device_memory=False) as now:
        return now.now().held_bytes


def within_64(callback=None, **options):
    return hipvmm.MemoryPressure(callback, limit=held() + 64 * MIB, low=32 * MIB, high=16 * MIB,
                                 critical="8MiB", hysteresis="0%", device_memory=False, **options)


def make_array(mib):
    array = hipvmm.GrowableArray("uint8", max="256MiB", step_limit=0)
    array.resize(mib * MIB)
    return array


def test_notes_are_waited_for():
    with within_64() as pressure:
        assert pressure.try_next() is None
        array = make_array(50)
        note = pressure.wait(10)
        assert (note.level, note.previous, note.bound) == ("high", "none", "limit")
        assert note.free_bytes == 14 * MIB and note.largest_request >= note.free_bytes
        assert (note.reason.kind, note.reason.holder) == ("grow", "buffer")
        assert note.reason.bytes == 50 * MIB and note.reason.seconds > 0
        assert pressure.reasons()[0] == note.reason
        assert pressure.now().level == "high"
        assert repr(pressure) == "MemoryPressure(device=0)"
        del array
    assert pressure.closed
    with pytest.raises(hipvmm.InvalidHandleError):
        pressure.now()


@pytest.mark.parametrize("delivery", ["library_thread", "requesting_thread"])
def test_a_callback_may_close_its_own_object(delivery):
    came = threading.Event()
    notes = []

    def call(note):
        notes.append(note)
        pressure.close()
        gc.collect()
        came.set()

    pressure = within_64(call, delivery=delivery)
    array = make_array(40)
    assert came.wait(10)
    array.resize(60 * MIB)
    assert [note.level for note in notes] == ["low"]
    del array


def test_what_a_callback_raises_is_unraisable(monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.append(args.exc_value))

    def call(note):
        raise KeyError(note.level)

    with within_64(call, delivery="requesting_thread"):
        array = make_array(40)
        assert [each.args for each in raised] == [("low",)]
        del array


def test_close_ends_a_wait_in_another_thread():
    pressure = within_64()
    found = []

    def wait():
        try:
            found.append(pressure.wait(10))
        except hipvmm.InvalidHandleError:
            pass  # closed before it began

    thread = threading.Thread(target=wait)
    thread.start()
    pressure.close()
    thread.join(5)
    assert not thread.is_alive() and found in ([None], [])


def test_bad_arguments():
    for bad in ({"low": "101%"}, {"hysteresis": "x"}, {"delivery": "me"}, {"device": 99},
                {"interval": -1}):
        with pytest.raises(hipvmm.InvalidArgumentError):
            hipvmm.MemoryPressure(**bad)
    with pytest.raises(hipvmm.InvalidArgumentError):
        hipvmm.MemoryPressure(5)


def test_a_child_of_fork_is_refused():
    pressure = within_64()
    child = os.fork()
    if child == 0:
        try:
            pressure.now()
        except hipvmm.UnsupportedError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    pressure.close()


def test_the_interpreter_ends_with_a_callback(run_python):
    script = """
import hipvmm
pressure = hipvmm.MemoryPressure(lambda note: None, low="99%", interval=0.001)
array = hipvmm.GrowableArray("uint8", max="256MiB")
array.resize(64 << 20)
print("ends")
"""
    assert "ends" in run_python(script)
