# SPDX-License-Identifier: MIT
"""The plugin in Numba itself, where that is installed: its classes need no GPU."""

import ctypes
import types

import pytest

import hipvmm
from hipvmm import mr

pytest.importorskip("numba")
pytest.importorskip("numba.cuda")
driver = pytest.importorskip("numba.cuda.cudadrv.driver")


class Context:
    """What the manager asks of a context, which Numba makes with a GPU only."""

    device = types.SimpleNamespace(id=0)


@pytest.fixture
def manager(monkeypatch):
    import hipvmm.numba

    hipvmm.numba._made.clear()
    monkeypatch.setattr(driver, "_memory_manager", None)
    monkeypatch.setattr(driver.config, "CUDA_MEMORY_MANAGER", "hipvmm.numba")
    driver._ensure_memory_manager()
    assert driver._memory_manager is hipvmm.numba.HipvmmNumbaManager
    yield driver._memory_manager(context=Context())
    hipvmm.numba._made.clear()


def test_arrays_have_memory_of_the_resource(manager):
    counted = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    mr.set_current_device_resource(counted)
    manager.initialize()
    pointer = manager.memalloc(1000)
    assert counted.allocation_counts.current_bytes == 1000
    address = pointer.device_ctypes_pointer.value
    assert list(manager.allocations) == [address]
    part = pointer.view(100, 200)
    assert part.device_ctypes_pointer.value == address + 100
    assert part.size == 100
    assert isinstance(pointer.device_ctypes_pointer, (ctypes.c_void_p, ctypes.c_size_t))
    del part, pointer
    assert counted.allocation_counts.current_bytes == 0
    owned = manager.memalloc(10).own()
    pointer = manager.memalloc(10)
    pointer.free()
    del owned, pointer
    assert counted.allocation_counts.current_bytes == 0
    with manager.defer_cleanup():
        pointer = manager.memalloc(10)
        del pointer
        assert counted.allocation_counts.current_bytes == 10
    assert counted.allocation_counts.current_bytes == 0
    assert manager.get_memory_info().free > 0
    manager.reset()


def test_out_of_memory_is_tried_again_and_is_numbas(manager, monkeypatch):
    flushed = []
    monkeypatch.setattr(manager.deallocations, "clear", lambda: flushed.append(1))
    mr.set_current_device_resource(hipvmm.Pool(maximum="16MiB"))
    with pytest.raises(driver.CudaAPIError, match="64") as raised:
        manager.memalloc(64 << 20)
    assert isinstance(raised.value, MemoryError)
    assert flushed == [1]
