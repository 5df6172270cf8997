# SPDX-License-Identifier: MIT
import gc
import os
import sys
import threading

import pytest

import hipvmm
from hipvmm import mr
from conftest import needs_chunks


def serves(resource):
    for nbytes in (1, 4096):
        address = resource.allocate(nbytes)
        assert address
        resource.deallocate(address, nbytes)


def all_kinds():
    cuda = mr.CudaMemoryResource()
    return [
        cuda,
        mr.HipMemoryResource(0),
        mr.ManagedMemoryResource(),
        mr.PinnedHostMemoryResource(mapped=True),
        mr.Pool(maximum="64MiB"),
        mr.PoolMemoryResource(cuda, initial_pool_size="2MiB", maximum_pool_size="64MiB"),
        mr.PoolMemoryResource(mr.ManagedMemoryResource(), initial_pool_size=2**20),
        mr.ArenaMemoryResource(cuda, arena_size="64MiB"),
        mr.FixedSizeMemoryResource(cuda, block_size=4096, blocks_to_preallocate=4),
        mr.BinningMemoryResource(cuda, 8, 10),
        mr.LimitingResourceAdaptor(cuda, 1 << 20),
        mr.StatisticsResourceAdaptor(cuda),
        mr.TrackingResourceAdaptor(cuda, capture_stacks=True),
        mr.FailureCallbackResourceAdaptor(cuda, lambda nbytes: False),
        mr.CallbackMemoryResource(cuda.allocate, cuda.deallocate),
    ]


@pytest.mark.parametrize("resource", all_kinds(), ids=lambda each: type(each).__name__)
def test_each_kind_serves_and_can_be_the_devices(resource):
    assert isinstance(resource, mr.MemoryResource)
    serves(resource)
    if resource.device in (0, None):
        mr.set_current_device_resource(resource)
        assert mr.get_current_device_resource() is resource
        assert mr.get_current_device_resource_type() is type(resource)
        assert hipvmm.DeviceBuffer.to_device(b"abc").tobytes() == b"abc"


def test_a_pool_of_hips_own():
    try:
        resource = mr.CudaAsyncMemoryResource(release_threshold="8MiB")
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    serves(resource)


def test_the_initial_resource_is_hip_malloc():
    assert mr.get_current_device_resource_type() is mr.CudaMemoryResource
    assert mr.get_per_device_resource_type(0) is mr.CudaMemoryResource
    assert hipvmm.is_initialized()


def test_upstreams_are_kept_and_known():
    pool = mr.Pool(maximum="64MiB")
    statistics = mr.StatisticsResourceAdaptor(pool)
    assert statistics.upstream_mr is pool
    assert statistics.get_upstream() is pool
    pool.close()
    serves(statistics)
    with pytest.raises(ValueError, match="the upstream is int"):
        mr.StatisticsResourceAdaptor(7)


def test_a_closed_resource_is_an_error():
    pool = mr.Pool()
    pool.close()
    with pytest.raises(hipvmm.InvalidHandleError, match="Pool was closed"):
        pool.allocate(1)


def test_statistics_have_levels():
    resource = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    address = resource.allocate(1000)
    assert resource.allocation_counts == mr.Statistics(1000, 1, 1000, 1, 1000, 1)
    assert resource.push_counters().current_bytes == 1000
    resource.deallocate(address, 1000)
    assert resource.pop_counters().current_bytes == -1000
    assert resource.allocation_counts.current_bytes == 0
    with pytest.raises(IndexError):
        resource.pop_counters()


def test_statistics_of_the_current_device():
    from hipvmm import statistics

    assert statistics.get_statistics() is None
    assert statistics.push_statistics() is None
    with statistics.statistics():
        buffer = hipvmm.DeviceBuffer(size=100)
        assert statistics.get_statistics().current_bytes == 100
    assert statistics.get_statistics() is None
    statistics.enable_statistics()
    statistics.enable_statistics()
    more = hipvmm.DeviceBuffer(size=50)
    assert statistics.push_statistics().current_bytes == 50
    assert statistics.pop_statistics().total_bytes == 0
    del buffer, more


def test_the_profiler_counts_calls_and_blocks():
    from hipvmm import statistics

    records = statistics.ProfilerRecords()

    @statistics.profiler(records=records)
    def fill(nbytes):
        return hipvmm.DeviceBuffer(size=nbytes)

    fill(10)  # nothing is counted yet
    assert records.records == {}
    with statistics.statistics():
        fill(100)
        kept = fill(300)
        with statistics.profiler(records=records, name="block"):
            fill(1000)
            with pytest.raises(RuntimeError):
                with statistics.profiler(records=records, name="block"):
                    raise RuntimeError("counted all the same")
        with pytest.raises(hipvmm.InvalidArgumentError):
            with statistics.profiler(records=records):
                pass
        del kept
    (name,) = [each for each in records.records if each != "block"]
    assert name.endswith("(test_the_profiler_counts_calls_and_blocks.<locals>.fill)")
    assert "test_mr.py:" in name
    record = records.records[name]
    assert (record.num_calls, record.memory_total, record.memory_peak) == (3, 1400, 1000)
    block = records.records["block"]
    assert (block.num_calls, block.memory_total, block.memory_peak) == (2, 1000, 1000)
    lines = records.report(ordered_by="memory_total").splitlines()
    assert lines[-2].endswith(name) and lines[-1].endswith("block")
    with pytest.raises(hipvmm.InvalidArgumentError):
        records.report(ordered_by="time")


def test_a_limit_is_a_memory_error():
    resource = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 1 << 20)
    assert resource.get_allocation_limit() == 1 << 20
    address = resource.allocate(1000)
    assert resource.get_allocated_bytes() == 1024
    with pytest.raises(hipvmm.OutOfMemoryError) as caught:
        resource.allocate(1 << 20)
    assert caught.value.exhausted == "limit"
    resource.deallocate(address, 1000)


def test_tracking_lists_what_is_allocated():
    resource = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
    address = resource.allocate(1234)
    assert resource.get_allocated_bytes() == 1234
    assert "1234" in resource.get_outstanding_allocations_str()
    resource.log_outstanding_allocations()
    resource.deallocate(address, 1234)
    assert resource.get_outstanding_allocations_str() == ""


def test_bins_go_by_size():
    upstream = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    of_bin = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    binning = mr.BinningMemoryResource(upstream)
    binning.add_bin(4096, of_bin)
    assert binning.bin_mrs == [of_bin]
    small, large = binning.allocate(4096), binning.allocate(8192)
    assert of_bin.allocation_counts.current_bytes == 4096
    assert upstream.allocation_counts.current_bytes == 8192
    binning.deallocate(small, 4096)
    binning.deallocate(large, 8192)
    binning.add_bin(65536)
    serves(binning)


def test_fixed_size_blocks():
    resource = mr.FixedSizeMemoryResource(mr.CudaMemoryResource(), 1000, 2)
    assert resource.get_block_size() == 1024
    with pytest.raises(MemoryError):
        resource.allocate(1025)


def test_a_failure_callback_frees_and_is_asked_again():
    pool = mr.Pool(maximum="8MiB")
    kept = [pool.allocate(4 << 20)]
    asked = []

    def free_something(nbytes):
        asked.append(nbytes)
        if not kept:
            return False
        pool.deallocate(kept.pop(), 4 << 20)
        return True

    resource = mr.FailureCallbackResourceAdaptor(pool, free_something)
    address = resource.allocate(8 << 20)
    assert asked == [8 << 20]
    with pytest.raises(MemoryError):
        resource.allocate(1 << 20)
    resource.deallocate(address, 8 << 20)
    with pytest.raises(ValueError, match="must be a function"):
        mr.FailureCallbackResourceAdaptor(pool, 7)


def test_what_a_failure_callback_raises_comes_out():
    class Stop(Exception):
        pass

    def stop(nbytes):
        raise Stop(f"{nbytes} bytes")

    resource = mr.FailureCallbackResourceAdaptor(mr.Pool(maximum="8MiB"), stop)
    with pytest.raises(Stop, match="bytes") as caught:
        resource.allocate(64 << 20)
    assert isinstance(caught.value.__cause__, MemoryError)
    serves(resource)


def test_what_an_allocation_callback_raises_comes_out():
    def allocate(nbytes, stream):
        raise KeyError("no memory")

    resource = mr.CallbackMemoryResource(allocate, lambda ptr, nbytes, stream: None)
    with pytest.raises(KeyError):
        resource.allocate(10)
    with pytest.raises(ValueError, match="must be functions"):
        mr.CallbackMemoryResource(None, None)


def test_a_callback_sees_sizes_and_streams():
    pool = mr.Pool(maximum="64MiB")
    seen = []

    def allocate(nbytes, stream):
        seen.append(("allocate", nbytes, stream))
        return pool.allocate(nbytes, stream)

    def deallocate(ptr, nbytes, stream):
        seen.append(("deallocate", nbytes, stream))
        pool.deallocate(ptr, nbytes, stream)

    resource = mr.CallbackMemoryResource(allocate, deallocate)
    with hipvmm.Stream() as stream:
        resource.deallocate(resource.allocate(100, stream), 100, stream)
        assert seen == [("allocate", 100, stream.ptr), ("deallocate", 100, stream.ptr)]


def test_a_callback_outlives_its_object():
    pool = mr.Pool(maximum="64MiB")
    mr.set_current_device_resource(mr.CallbackMemoryResource(
        lambda nbytes, stream: pool.allocate(nbytes, stream),
        lambda ptr, nbytes, stream: pool.deallocate(ptr, nbytes, stream)))
    gc.collect()
    assert hipvmm.DeviceBuffer.to_device(b"abc").tobytes() == b"abc"


def test_memory_of_a_callback_outlives_its_object(run_python):
    # Freed thunks of ctypes end the process at best.
    run_python("""
import gc, hipvmm
from hipvmm._library import lib
pool, freed = hipvmm.Pool(maximum="64MiB"), []
def deallocate(ptr, nbytes, stream):
    freed.append(ptr)
    pool.deallocate(ptr, nbytes, stream)
resource = hipvmm.mr.CallbackMemoryResource(pool.allocate, deallocate)
hipvmm.mr.set_current_device_resource(resource)
block = lib().loaded.hipvmm_device_allocate_sync(64, 0)
hipvmm.mr.set_current_device_resource(None)
del resource, deallocate
gc.collect()
others = [hipvmm.mr.CallbackMemoryResource(lambda *_: 0, lambda *_: None) for _ in range(50)]
lib().loaded.hipvmm_device_deallocate_sync(block)
assert freed == [block], freed
""")


def test_pool():
    with mr.Pool(initial="4MiB", maximum="64MiB", release_threshold=1 << 30,
                 reuse_opportunistic=False) as pool:
        assert isinstance(pool, hipvmm.Pool)
        assert pool.kind == "pool"
        assert pool.device == 0
        assert pool.release_threshold == 1 << 30
        pool.release_threshold = 1 << 20
        assert pool.release_threshold == 1 << 20
        address = pool.allocate(3 << 20)
        assert pool.statistics().used_current >= 3 << 20
        pool.deallocate_by_address(address)
        assert pool.statistics().used_current == 0
        pool.reset_peaks()
        assert pool.trim(timeout=1.0) > 0
        assert pool.statistics().reserved_current == 0
        assert "pool of device 0" in pool.report()
        assert pool.explain()
        with hipvmm.Stream() as one, hipvmm.Stream() as two:
            pool.note_stream_wait(one, two)
            pool.forget_stream(two)


def test_wrong_options_of_a_pool_name_what_is_allowed():
    with pytest.raises(ValueError, match="there is no 'maxium'; did you mean maximum"):
        mr.Pool(maxium="64MiB")
    with pytest.raises(ValueError, match="maximum=many is refused"):
        mr.Pool(maximum="many")
    with pytest.raises(ValueError, match="more than"):
        mr.PoolMemoryResource(mr.ManagedMemoryResource(), "2MiB", "1MiB")


@needs_chunks
def test_rights_of_a_pool():
    if hipvmm.device_count() < 2 or not hipvmm.can_access_peer(1, 0):
        pytest.skip("there are no two devices that reach each other")
    pool = mr.Pool()
    pool.grant(1)
    assert pool.access(1) == "read_write"
    pool.set_access({1: "none"})
    assert pool.access(1) == "none"
    with pytest.raises(ValueError, match="allowed: none, read, read_write"):
        pool.grant(1, "write")


def test_a_resource_of_another_device_is_refused():
    if hipvmm.device_count() < 2:
        pytest.skip("there is one device")
    other = mr.Pool(1)
    with pytest.raises(ValueError):
        mr.set_per_device_resource(0, other)
    assert mr.get_per_device_resource_type(0) is mr.CudaMemoryResource
    mr.set_per_device_resource(1, other)
    assert mr.get_per_device_resource(1) is other


def test_threads_use_one_pool():
    pool = mr.Pool(maximum="256MiB")
    failures = []

    def work():
        try:
            with hipvmm.Stream() as stream:
                for index in range(50):
                    content = bytes([index]) * 1000
                    buffer = hipvmm.DeviceBuffer.to_device(content, stream, pool)
                    assert buffer.tobytes(stream) == content
                    del buffer
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []


def test_defaults_from_the_environment(run_python):
    script = """
import hipvmm
try:
    pool = hipvmm.Pool()
    pool.allocate(8 << 20)
except Exception as failure:
    print(type(failure).__name__, failure)
"""
    assert "OutOfMemoryError" in run_python(script, HIPVMM_CONF="pool.maximum=4MiB")
    text = run_python(script, HIPVMM_CONF="pool.maxi=4MiB")
    assert "InvalidArgumentError" in text
    assert "HIPVMM_CONF: there is no 'pool.maxi'" in text


def test_no_handle_is_left():
    from hipvmm._library import get_size, lib

    gc.collect()
    before = get_size(lib().live_handles)
    for resource in all_kinds():
        serves(resource)
        del resource
    mr.get_current_device_resource()
    gc.collect()
    assert get_size(lib().live_handles) == before


def raising(error):
    cuda, raised = mr.CudaMemoryResource(), []

    def allocate(nbytes, stream):
        if not raised:
            raised.append(1)
            raise error
        return cuda.allocate(nbytes, stream)

    return mr.CallbackMemoryResource(allocate, cuda.deallocate)


def test_an_interrupt_of_a_callback_is_not_lost():
    with pytest.raises(KeyboardInterrupt):
        mr.PoolMemoryResource(raising(KeyboardInterrupt())).allocate(1000)


def test_what_a_callback_raises_is_reported_if_the_call_succeeds(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: reported.append(str(found.exc_value)))
    pool = mr.PoolMemoryResource(raising(ValueError("no luck")))
    pool.deallocate(pool.allocate(1000), 1000)
    assert reported == ["no luck"]
    pool = mr.PoolMemoryResource(raising(MemoryError()))
    pool.deallocate(pool.allocate(1000), 1000)
    assert reported == ["no luck"]


def test_text_is_taken_whole_or_refused(tmp_path):
    cuda = mr.CudaMemoryResource()
    for wrong in (lambda: mr.LoggingResourceAdaptor(cuda, str(tmp_path / "a\0b")),
                  lambda: hipvmm.log("info", "a\0b"), lambda: hipvmm.log("info", "\ud800"),
                  lambda: hipvmm.GrowableArray(sleep_tag=" w"),
                  lambda: hipvmm.GrowableArray(sleep_tag="w\n"),
                  lambda: hipvmm.suspend("w", storage="file", folder="/x ")):
        with pytest.raises(hipvmm.InvalidArgumentError):
            wrong()
    assert os.listdir(tmp_path) == []


def test_dlpack_has_memory_that_a_gpu_reaches_as_the_gpus(monkeypatch):
    from hipvmm import _dlpack

    managed = mr.StatisticsResourceAdaptor(mr.ManagedMemoryResource())
    found = {each: (hipvmm.DeviceBuffer(size=10, mr=each), hipvmm.GrowableArray(mr=each))
             for each in (managed, mr.PinnedHostMemoryResource(), mr.CudaMemoryResource())}
    for name, kinds in (("cuda", (2, 3, 2)), ("amd", (10, 11, 10))):
        for module in (_dlpack, mr):
            monkeypatch.setattr(module, "provider", lambda: name)
        for kind, objects in zip(kinds, found.values()):
            assert [each.__dlpack_device__() for each in objects] == [(kind, 0)] * 2
