# SPDX-License-Identifier: MIT
import copy
import gc
import pickle

import pytest

import hipvmm
from conftest import needs_host_access
from hipvmm._library import lib

np = pytest.importorskip("numpy")


def test_size_and_ptr():
    buffer = hipvmm.DeviceBuffer(size=100)
    assert buffer.size == buffer.nbytes == len(buffer) == 100
    assert buffer.ptr != 0
    assert buffer.capacity() >= 100
    assert "size=100" in repr(buffer)


def test_empty():
    buffer = hipvmm.DeviceBuffer()
    assert buffer.size == 0
    assert buffer.ptr == 0
    assert buffer.tobytes() == b""
    assert hipvmm.DeviceBuffer.to_device(b"").size == 0


def test_to_device_and_back():
    a = np.array([1, 2, 3], dtype="float64")
    buffer = hipvmm.DeviceBuffer.to_device(a.tobytes())
    assert buffer.size == 24
    assert np.array_equal(np.frombuffer(buffer.tobytes()), a)
    assert bytes(buffer) == a.tobytes()
    assert hipvmm.DeviceBuffer.to_device(a).tobytes() == a.tobytes()


def test_copy_to_host():
    buffer = hipvmm.DeviceBuffer.to_device(b"abcdef")
    assert bytes(buffer.copy_to_host()) == b"abcdef"
    room = np.zeros(8, dtype="uint8")
    assert buffer.copy_to_host(room) is room
    assert bytes(room) == b"abcdef\0\0"
    with pytest.raises(ValueError, match="less than the buffer"):
        buffer.copy_to_host(np.zeros(5, dtype="uint8"))
    with pytest.raises(ValueError, match="to write"):
        buffer.copy_to_host(b"constant")


def test_copy_from_host_and_device():
    buffer = hipvmm.DeviceBuffer.to_device(b"abcdef")
    buffer.copy_from_host(b"xy")
    assert buffer.tobytes() == b"xycdef"
    buffer.copy_from_device(hipvmm.DeviceBuffer.to_device(b"123"))
    assert buffer.tobytes() == b"123def"
    with pytest.raises(IndexError, match="more than the buffer"):
        buffer.copy_from_host(b"1234567")
    with pytest.raises(ValueError, match="no array of a device"):
        buffer.copy_from_device(b"host")
    with pytest.raises(ValueError, match="not contiguous|contiguous"):
        buffer.copy_from_host(np.zeros((4, 4))[:, ::2])


def test_copies_of_an_address():
    first = hipvmm.DeviceBuffer.to_device(b"abcdef")
    assert hipvmm.DeviceBuffer(ptr=first.ptr, size=3).tobytes() == b"abc"


def test_copies_share_nothing():
    first = hipvmm.DeviceBuffer.to_device(b"abc")
    for second in (first.copy(), copy.copy(first), copy.deepcopy(first),
                   pickle.loads(pickle.dumps(first))):
        assert second.ptr != first.ptr
        assert second.tobytes() == b"abc"


def test_resize_keeps_the_bytes():
    buffer = hipvmm.DeviceBuffer.to_device(b"abc")
    buffer.resize(1_000_000)
    assert buffer.size == 1_000_000
    assert buffer.tobytes()[:3] == b"abc"
    held = buffer.capacity()
    buffer.resize(2)
    assert buffer.tobytes() == b"ab"
    assert buffer.capacity() == held
    buffer.reserve(2_000_000)
    assert buffer.size == 2
    assert buffer.capacity() == 2_000_000


def test_streams_are_those_of_the_calls():
    with hipvmm.Stream() as stream:
        buffer = hipvmm.DeviceBuffer.to_device(b"abc", stream=stream)
        assert buffer.__cuda_array_interface__["stream"] in (None, stream.ptr)
        assert buffer.tobytes(stream) == b"abc"
        del buffer


def test_copies_in_the_default_stream_wait_for_that_of_the_buffer(monkeypatch):
    stream, pool = hipvmm.Stream(), hipvmm.Pool(maximum="64MiB")
    buffer = hipvmm.DeviceBuffer.to_device(b"abcd", stream, pool)
    source = hipvmm.DeviceBuffer.to_device(b"1234")
    waited, synchronize = [], lib().synchronize
    monkeypatch.setattr(lib(), "synchronize",
                        lambda value: (waited.append(value), synchronize(value)))
    for use in (lambda: buffer.copy_from_device(source), lambda: buffer.copy_from_host(b"12"),
                buffer.copy_to_host, buffer.tobytes, buffer.copy, lambda: buffer.resize(4 << 20)):
        waited.clear()
        use()
        assert {stream.ptr, 0} <= set(waited)
    assert buffer.tobytes()[:4] == b"1234"
    waited.clear()
    buffer.copy_from_device(source)  # now it is the default stream's
    assert stream.ptr not in waited


def test_a_stream_that_is_none_is_not_noted():
    pool = hipvmm.Pool(maximum="64MiB")
    buffer = hipvmm.DeviceBuffer.to_device(b"abcd", mr=pool)
    with pytest.raises(hipvmm.InvalidArgumentError, match="str is no stream"):
        buffer.tobytes("text")
    del buffer
    gc.collect()
    assert pool.statistics().used_current == 0


def test_the_array_interface():
    buffer = hipvmm.DeviceBuffer.to_device(b"abc")
    interface = buffer.__cuda_array_interface__
    assert interface["data"] == (buffer.ptr, False)
    assert interface["shape"] == (3,)
    assert interface["typestr"] == "|u1"


@needs_host_access
def test_dlpack():
    buffer = hipvmm.DeviceBuffer.to_device(b"abc")
    view = np.from_dlpack(buffer)
    assert bytes(view) == b"abc"
    del buffer
    gc.collect()
    assert bytes(view) == b"abc"


def test_memory_is_freed_when_the_buffer_ends():
    statistics = hipvmm.mr.StatisticsResourceAdaptor(hipvmm.mr.CudaMemoryResource())
    buffer = hipvmm.DeviceBuffer(size=1000, mr=statistics)
    assert buffer.mr is statistics
    assert statistics.allocation_counts.current_bytes == 1000
    buffer.resize(2000)
    assert statistics.allocation_counts.current_bytes == 2000
    del buffer
    gc.collect()
    assert statistics.allocation_counts.current_bytes == 0


def test_a_buffer_keeps_its_resource():
    hipvmm.mr.set_current_device_resource(
        hipvmm.mr.PoolMemoryResource(hipvmm.mr.CudaMemoryResource()))
    buffer = hipvmm.DeviceBuffer.to_device(b"abc")
    hipvmm.mr.set_current_device_resource(None)
    gc.collect()
    assert buffer.tobytes() == b"abc"


def test_what_cannot_be_allocated_is_a_memory_error():
    with pytest.raises(MemoryError, match="out of device memory") as caught:
        hipvmm.DeviceBuffer(size=1 << 50)
    assert caught.value.exhausted == "device_memory"
    assert caught.value.bytes_requested == 1 << 50
