# SPDX-License-Identifier: MIT
"""hipvmm.torch with a stand-in for PyTorch: what it passes, and that PyTorch's calls work so."""

import contextlib
import ctypes
import sys
import types

import pytest

import hipvmm
from conftest import needs_chunks
from hipvmm._library import lib


class Allocator:
    """What CUDAPluggableAllocator is to Python and to C++: functions by address."""

    def __init__(self):
        self.functions = {}

    def __getattr__(self, name):
        if not name.startswith("set_") or name == "set_erase_stream_fn":
            raise AttributeError(name)  # as releases that lack one
        return lambda address: self.functions.__setitem__(name, address)


@pytest.fixture
def torch(monkeypatch):
    """What the module uses of PyTorch."""
    import hipvmm.torch

    fake, cuda, memory = (types.ModuleType(name) for name in (
        "torch", "torch.cuda", "torch.cuda.memory"))

    class CUDAPluggableAllocator:
        def __init__(self, path, alloc, free):
            library = ctypes.CDLL(path)
            self.alloc, self.free = getattr(library, alloc), getattr(library, free)
            self.alloc.restype = ctypes.c_void_p
            self.alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
            self.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
            self.free.restype = None
            self.inner = Allocator()

        def allocator(self):
            return self.inner

    class MemPool:
        def __init__(self, allocator):
            self.allocator = allocator

    @contextlib.contextmanager
    def use_mem_pool(pool, device=None):
        fake.pools.append((pool, device))
        yield
        fake.pools.append(None)

    def change_current_allocator(made):
        if fake.is_used:
            raise RuntimeError("Can't swap an already initialized allocator")
        fake.current = made

    def refused(device=None):
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")

    fake.__version__ = "2.4.0"
    fake.is_used, fake.current, fake.pools = False, None, []
    fake.cuda, cuda.memory = cuda, memory
    fake.device = lambda text: types.SimpleNamespace(
        index=int(text.split(":")[1]) if ":" in text else None)
    cuda.current_device = lambda: 0
    cuda.MemPool, cuda.use_mem_pool = MemPool, use_mem_pool
    cuda.memory_stats = memory.memory_stats = refused
    cuda.memory_summary = memory.memory_summary = refused
    memory.CUDAPluggableAllocator = CUDAPluggableAllocator
    memory.change_current_allocator = change_current_allocator
    for name, module in (("torch", fake), ("torch.cuda", cuda), ("torch.cuda.memory", memory)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(hipvmm.torch, "_allocator", None)
    monkeypatch.setattr(hipvmm.torch, "_is_installed", False)
    monkeypatch.setattr(hipvmm.torch, "_of_tags", {})
    yield fake
    hipvmm.torch.empty_cache()


def test_install(torch):
    hipvmm.torch.install()
    assert hipvmm.torch.is_installed()
    made = torch.current
    hipvmm.torch.install()
    assert torch.current is made
    # Those of this release of PyTorch, each a function of the library.
    assert set(made.inner.functions) == {
        "set_reset_fn", "set_memory_fraction_fn", "set_record_stream_fn",
        "set_begin_allocate_to_pool", "set_end_allocate_to_pool_fn", "set_release_pool"}
    assert all(made.inner.functions.values())
    before = torch.cuda.memory_stats()
    memory = made.alloc(1 << 20, 0, None)
    record = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        made.inner.functions["set_record_stream_fn"])
    stream = hipvmm.Stream()
    record(memory, stream.ptr)
    now = torch.cuda.memory.memory_stats("cuda:0")
    assert now["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == 1 << 20
    assert now["allocation.all.allocated"] - before["allocation.all.allocated"] == 1
    assert now["reserved_bytes.all.current"] >= 1 << 20
    made.free(memory, 1 << 20, 0, None)
    assert torch.cuda.memory_stats("cuda")["allocation.all.freed"] == now[
        "allocation.all.freed"] + 1
    torch.cuda.reset_peak_memory_stats(0)
    after = hipvmm.torch.memory_stats(0)
    assert after["allocated_bytes.all.peak"] == after["allocated_bytes.all.current"]
    assert "pool" in hipvmm.torch.report()
    # PyTorch's own would look for more entries than there are.
    for module in (torch.cuda, torch.cuda.memory):
        assert module.memory_summary(abbreviated=True) == hipvmm.torch.report()
    # What training scripts print.
    assert {"num_alloc_retries", "num_ooms", "active_bytes.all.peak",
            "reserved_bytes.all.peak"} <= set(after)
    stream.close()


def test_install_without_statistics(torch):
    hipvmm.torch.install(statistics=False)
    for refused in (torch.cuda.memory_stats, torch.cuda.memory_summary):
        with pytest.raises(RuntimeError):
            refused()
    assert "num_ooms" in hipvmm.torch.memory_stats()
    with pytest.raises(hipvmm.InvalidArgumentError):
        hipvmm.torch.memory_stats(99)


def test_install_too_late(torch):
    torch.is_used = True
    with pytest.raises(hipvmm.HipvmmError, match="too late"):
        hipvmm.torch.install()
    assert not hipvmm.torch.is_installed()


def test_pool(torch):
    with hipvmm.torch.pool() as first:
        assert torch.pools == [(first, None)]
    with hipvmm.torch.pool("cuda:1") as second:
        assert torch.pools[-1] == (second, "cuda:1")
    assert torch.pools[-1] is None
    # PyTorch keeps pointers to it: there is one, for good.
    assert first.allocator is second.allocator
    hipvmm.torch.install()
    with hipvmm.torch.pool() as nothing:
        assert nothing is None


def test_pool_of_an_old_release(torch):
    del torch.cuda.MemPool
    with pytest.raises(hipvmm.UnsupportedError, match="2.4.0 has no torch.cuda.MemPool"):
        with hipvmm.torch.pool():
            pass


@needs_chunks
def test_pools_with_a_tag_sleep_and_wake(torch):
    with hipvmm.torch.pool(tag="py_torch_weights") as weights:
        assert torch.pools == [(weights, None)]
    with hipvmm.torch.pool("cuda:1", tag="py_torch_cache") as cache, \
            hipvmm.torch.pool(tag="py_torch_cache") as other, hipvmm.torch.pool() as untagged:
        assert cache.allocator is other.allocator
        assert len({each.allocator for each in (weights, cache, untagged)}) == 3
    made = {name: each for name, each in hipvmm.torch._of_tags.items()}
    assert list(made) == ["py_torch_weights", "py_torch_cache"]
    memory = {name: each.alloc(4 << 20, 0, None) for name, each in made.items()}
    assert all(memory.values())
    lib().fill_async(memory["py_torch_weights"], 7, 4 << 20, None)
    try:
        released = hipvmm.torch.suspend("py_torch_cache", "nothing")
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    assert released >= 4 << 20
    assert not hipvmm.tag_statistics("py_torch_weights").is_asleep
    assert hipvmm.torch.suspend() >= 4 << 20
    for name in made:
        assert hipvmm.tag_statistics(name).is_asleep
    assert hipvmm.torch.resume(["py_torch_weights"]) >= 4 << 20
    content = ctypes.create_string_buffer(1)
    lib().copy(content, memory["py_torch_weights"] + (4 << 20) - 1, 1, None)
    assert content.raw == b"\7"
    made["py_torch_cache"].free(memory["py_torch_cache"], 4 << 20, 0, None)
    hipvmm.torch.resume()
    made["py_torch_weights"].free(memory["py_torch_weights"], 4 << 20, 0, None)
    # All or none: what slept for it wakes where another tag cannot.
    with pytest.raises(ValueError, match="nothing was made with the tag"):
        hipvmm.torch.suspend(["py_torch_weights", "py_torch_misspelt"])
    assert not hipvmm.tag_statistics("py_torch_weights").is_asleep


def test_tags_that_there_are_too_many_of(torch):
    for number in range(8):
        try:
            hipvmm.torch._allocator_of(f"py_torch_{number}")
        except hipvmm.OutOfRangeError as why:
            assert "8 other tags have pools already" in str(why)
            break
    else:
        with pytest.raises(hipvmm.OutOfRangeError):
            hipvmm.torch._allocator_of("py_torch_more")
    hipvmm.torch.install()
    with pytest.raises(hipvmm.UnsupportedError, match="after install"):
        with hipvmm.torch.pool(tag="py_torch_weights"):
            pass
