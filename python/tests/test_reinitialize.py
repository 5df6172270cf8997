# SPDX-License-Identifier: MIT
import os

import pytest

import hipvmm
from hipvmm import mr


def test_a_pool_with_sizes_as_text():
    hipvmm.reinitialize(pool_allocator=True, initial_pool_size="4MiB", maximum_pool_size="64MiB")
    pool = mr.get_current_device_resource()
    assert type(pool) is mr.PoolMemoryResource
    assert type(pool.upstream_mr) is mr.CudaMemoryResource
    assert pool.pool_size() >= 4 << 20
    assert hipvmm.DeviceBuffer.to_device(b"abc").tobytes() == b"abc"
    with pytest.raises(MemoryError):
        hipvmm.DeviceBuffer(size=128 << 20)
    assert "pool of device 0" in hipvmm.report()
    hipvmm.reinitialize()
    assert mr.get_current_device_resource_type() is mr.CudaMemoryResource
    assert hipvmm.report() == ""


def test_managed_memory_with_and_without_a_pool():
    hipvmm.reinitialize(managed_memory=True)
    assert mr.get_current_device_resource_type() is mr.ManagedMemoryResource
    hipvmm.reinitialize(managed_memory=True, pool_allocator=True, initial_pool_size=1 << 20)
    pool = mr.get_current_device_resource()
    assert type(pool.upstream_mr) is mr.ManagedMemoryResource
    assert hipvmm.DeviceBuffer.to_device(b"abc").tobytes() == b"abc"


def test_several_devices():
    if hipvmm.device_count() < 2:
        pytest.skip("there is one device")
    hipvmm.reinitialize(pool_allocator=True, devices=[0, 1], maximum_pool_size="64MiB")
    for device in (0, 1):
        assert mr.get_per_device_resource(device).device == device
    with pytest.raises(ValueError, match="99"):
        hipvmm.reinitialize(devices=[0, 99])
    assert mr.get_per_device_resource_type(0) is mr.PoolMemoryResource


def test_logging(tmp_path):
    name = tmp_path / "log.csv"
    hipvmm.reinitialize(logging=True, log_file_name=str(name))
    files = hipvmm.get_log_filenames()
    assert files == {0: str(tmp_path / "log.dev0.csv")}
    buffer = hipvmm.DeviceBuffer(size=1234)
    del buffer
    mr.get_current_device_resource().flush()
    rows = (tmp_path / "log.dev0.csv").read_text().splitlines()
    assert rows[0] == "Thread,Time,Action,Pointer,Size,Stream"
    assert [row.split(",")[2] for row in rows[1:]] == ["allocate", "free"]
    assert ",1234," in rows[1]


def test_logging_needs_a_file(monkeypatch):
    monkeypatch.delenv("RMM_LOG_FILE", raising=False)
    monkeypatch.delenv("HIPVMM_LOG_FILE", raising=False)
    with pytest.raises(ValueError, match="RMM_LOG_FILE"):
        hipvmm.reinitialize(logging=True)
    assert mr.get_current_device_resource_type() is mr.CudaMemoryResource


def test_the_file_of_the_log_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("RMM_LOG_FILE", str(tmp_path / "rmm.txt"))
    hipvmm.enable_logging()
    assert hipvmm.get_log_filenames()[0] == str(tmp_path / "rmm.dev0.txt")
    assert (tmp_path / "rmm.dev0.txt").exists()
    hipvmm.enable_logging(str(tmp_path / "second.txt"))
    assert hipvmm.get_log_filenames()[0] == str(tmp_path / "second.dev0.txt")
    hipvmm.disable_logging()
    assert mr.get_current_device_resource_type() is mr.CudaMemoryResource


def test_a_file_that_cannot_be_written():
    with pytest.raises(OSError, match="/proc"):
        hipvmm.reinitialize(logging=True, log_file_name="/proc/no/such/file.csv")


def test_hooks_run_first_and_in_reverse():
    called = []

    def first(*args, **kwargs):
        called.append(("first", args, kwargs))

    def second():
        called.append("second")

    assert hipvmm.register_reinitialize_hook(first, 1, key=2) is first
    hipvmm.register_reinitialize_hook(second)
    hipvmm.register_reinitialize_hook(second)
    hipvmm.reinitialize()
    assert called == ["second", "second", ("first", (1,), {"key": 2})]
    hipvmm.unregister_reinitialize_hook(second)
    hipvmm.unregister_reinitialize_hook(first)
    hipvmm.reinitialize()
    assert len(called) == 3


def test_logs_are_complete_when_the_interpreter_ends(run_python, tmp_path):
    run_python(f"""
import hipvmm
hipvmm.reinitialize(pool_allocator=True, logging=True, log_file_name={str(tmp_path / "a.csv")!r})
kept = [hipvmm.DeviceBuffer(size=100 + i) for i in range(5)]
array = hipvmm.GrowableArray()
array.append(b"abc")
""")
    rows = (tmp_path / "a.dev0.csv").read_text().splitlines()
    assert sum(",allocate," in row for row in rows) == 5
    assert sum(",free," in row for row in rows) == 5


def test_nothing_is_reported_when_the_interpreter_ends(run_python):
    text = run_python("""
import hipvmm
hipvmm.reinitialize(pool_allocator=True)
stream = hipvmm.Stream()
kept = hipvmm.DeviceBuffer(size=100, stream=stream)
tracking = hipvmm.mr.TrackingResourceAdaptor(hipvmm.mr.CudaMemoryResource())
tracked = hipvmm.DeviceBuffer(size=100, mr=tracking)
hipvmm.mr.set_current_device_resource(tracking)
more = hipvmm.DeviceBuffer(size=100)
array = hipvmm.GrowableArray(); array.resize(1000, stream)
import sys; sys.cycle = [kept, array]
sys.cycle.append(sys.cycle)
""")
    assert text == ""


def test_a_child_of_fork_may_end():
    buffer = hipvmm.DeviceBuffer.to_device(b"abc")
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert buffer.tobytes() == b"abc"


def test_the_same_log_again(tmp_path):
    name = tmp_path / "log.csv"
    for nbytes in (111, 222):
        hipvmm.reinitialize(logging=True, log_file_name=str(name), pool_allocator=nbytes > 111)
        hipvmm.DeviceBuffer(size=nbytes)
    mr.get_current_device_resource().flush()
    rows = (tmp_path / "log.dev0.csv").read_text().splitlines()
    assert [row.split(",")[4] for row in rows[1:]] == ["222", "222"]
    with pytest.raises(ValueError, match="99"):
        hipvmm.reinitialize(logging=True, log_file_name=str(name), devices=[0, 99])
    assert hipvmm.get_log_filenames()[0] == str(tmp_path / "log.dev0.csv")
    hipvmm.enable_logging(str(name))
    assert hipvmm.get_log_filenames()[0] == str(tmp_path / "log.dev0.csv")


def test_a_log_that_cannot_begin_leaves_the_one_that_is_there(tmp_path):
    hipvmm.enable_logging(str(tmp_path / "first.csv"))
    other = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), str(tmp_path / "taken.csv"))
    with pytest.raises(hipvmm.SystemFailureError, match="another adaptor"):
        hipvmm.enable_logging(str(tmp_path / "taken.csv"))
    del other
    assert hipvmm.get_log_filenames()[0] == str(tmp_path / "first.dev0.csv")
    hipvmm.DeviceBuffer(size=123)
    hipvmm.disable_logging()
    assert ",123," in (tmp_path / "first.dev0.csv").read_text()


def test_statistics_end_on_the_device_on_which_they_began():
    if hipvmm.device_count() < 2:
        pytest.skip("there is one device")
    before = hipvmm.current_device()
    try:
        with hipvmm.statistics.statistics():
            hipvmm._library.lib().device_make_current(1)
    finally:
        hipvmm._library.lib().device_make_current(before)
    assert mr.get_per_device_resource_type(before) is mr.CudaMemoryResource
