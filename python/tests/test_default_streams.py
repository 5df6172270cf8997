# SPDX-License-Identifier: MIT
"""Default streams are those of an object's device, whichever is current; notes of streams."""

import ctypes
import gc
import weakref

import pytest

import hipvmm
from hipvmm._library import lib

np = pytest.importorskip("numpy")
pytestmark = [
    pytest.mark.skipif(hipvmm.provider() != "host", reason="the host provider has such devices"),
    pytest.mark.skipif(hipvmm.device_count() < 2, reason="two devices are needed"),
]
_LARGE = 256 << 20  # bytes whose fill is not done at once

_CHECKED = """
import hipvmm
from hipvmm._library import lib
from hipvmm.device import current

def waits_of_another_device():
    a = hipvmm.GrowableArray(device=1)
    a.grant(0)
    a.resize(1 << 20)
    a.__dlpack__()
    b = hipvmm.GrowableArray(device=0)
    b.append(a)
    lib().synchronize(0)
    a.close()

def appends_of_another_device():
    a = hipvmm.GrowableArray(device=0)
    a.grant(1)
    a.resize(1 << 20)
    b = hipvmm.GrowableArray(device=1)
    b.append(a)
    b.append(a[:100])
    b._synchronize()

def buffers_of_another_device():
    pool = hipvmm.Pool(1)
    pool.grant(0)
    buffer = hipvmm.DeviceBuffer(size=1 << 20, mr=pool)
    buffer.tobytes()
    more = hipvmm.DeviceBuffer.to_device(bytes(1000), mr=pool)
    buffer.copy_from_device(more)
    hipvmm.DeviceBuffer(ptr=buffer.ptr, size=100, mr=pool).copy().tobytes()
    stream = hipvmm.Stream(1)
    buffer.copy_from_host(bytes(10), stream)
    buffer.copy_from_host(bytes(10))

import sys
getattr(sys.modules[__name__], sys.argv[1])()
print("done")
"""


@pytest.mark.parametrize("case", [
    "waits_of_another_device", "appends_of_another_device", "buffers_of_another_device"])
def test_work_is_ordered_whichever_device_is_current(run_python, case):
    printed = run_python(_CHECKED, arguments=[case], HIPVMM_HOST_CHECK="1",
                         HIPVMM_HOST_MEMORY="1GiB", HIPVMM_HOST_PEERS="0-1")
    assert printed == "done\n"


def test_events_are_of_the_default_stream_of_their_device():
    array = hipvmm.GrowableArray(device=1)
    event = hipvmm.Event(1)
    array.resize(_LARGE)
    event.record()
    array._synchronize()
    assert event.done
    stream = hipvmm.Stream(0)
    event.wait()
    event.wait(stream)
    assert hipvmm.current_device() == 0


def test_the_array_interface_names_no_default_stream_of_another_device():
    array = hipvmm.GrowableArray(device=1)
    event = hipvmm.Event(1)
    array.resize(_LARGE)
    event.record()
    assert array.__cuda_array_interface__["stream"] is None and event.done
    buffer = hipvmm.DeviceBuffer(size=10, mr=hipvmm.Pool(1))
    assert buffer.__cuda_array_interface__["stream"] is None
    with hipvmm.device.current(1):
        assert buffer.__cuda_array_interface__["stream"] == 1


def test_attachments_are_read_whichever_device_is_current(tmp_path):
    array = hipvmm.GrowableArray(device=1, shareable="posix_fd")
    array.append(b"abc")
    with array.publish(tmp_path / "p") as published:
        published.announce()
        for options in ({}, {"device": 1}):
            with hipvmm.attach(tmp_path / "p", **options) as attached:
                attached.refresh()
                assert attached.tobytes() == b"abc"
                if hipvmm.is_host_accessible(1):
                    assert bytes(attached.numpy_view()) == b"abc"


def _pinned(nbytes):
    resource = hipvmm.mr.PinnedHostMemoryResource()
    address = resource.allocate(nbytes)
    memory = np.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), dtype="uint8")
    weakref.finalize(memory.base, resource.deallocate, address, nbytes)
    return memory


@pytest.mark.parametrize("call", ["append", "write"])
def test_pinned_memory_is_kept_until_it_was_read(call):
    nbytes = 1 << 20
    array, stream = hipvmm.GrowableArray(), hipvmm.Stream()
    array.resize(nbytes)
    array._synchronize()
    freed = []
    memory = _pinned(nbytes)
    memory[:] = 1
    weakref.finalize(memory.base, freed.append, 1)
    busy = hipvmm.GrowableArray()
    busy.resize(_LARGE, stream)
    if call == "append":
        array.append(memory, stream)
    else:
        array.write(0, memory, stream)
    del memory
    gc.collect()
    assert not freed
    array._synchronize()
    gc.collect()
    assert freed
    assert array.tobytes()[nbytes if call == "append" else 0:] == b"\1" * nbytes


def test_owners_of_pinned_memory_are_few():
    array, alive = hipvmm.GrowableArray(), []
    for _ in range(40):
        memory = np.ones(10, dtype="uint8")[2:]
        alive.append(weakref.ref(memory))
        array.append(memory)
    del memory
    assert sum(each() is not None for each in alive) <= 8
    grown = bytearray(8)
    array.append(grown)
    grown += b"1"  # nobody holds its memory


def test_a_wait_of_another_thread_does_not_forget_a_stream(monkeypatch):
    array, stream = hipvmm.GrowableArray(), hipvmm.Stream()
    resize = lib().buffer_resize

    def interrupted(*args):
        array._synchronize()
        resize(*args)

    monkeypatch.setattr(lib(), "buffer_resize", interrupted)
    array.resize(1000, stream)
    assert stream.ptr in array._streams
