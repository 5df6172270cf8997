# SPDX-License-Identifier: MIT
"""hipvmm.torch with a stand-in for PyTorch: what it passes, and that PyTorch's calls work so."""

import contextlib
import ctypes
import importlib.util
import os
import pathlib
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
            self.inner.alloc, self.inner.free = self.alloc, self.free
            return self.inner

    class MemPool:
        def __init__(self, allocator=None):
            self.allocator, self.segments = allocator, []

        def allocate(self, nbytes):
            self.segments.append((self.allocator.alloc(nbytes, 0, None), nbytes))
            return self.segments[-1][0]

        def snapshot(self):
            return [{"address": address, "total_size": size} for address, size in self.segments]

        def free(self):
            for address, size in self.segments:
                self.allocator.free(address, size, 0, None)
            self.segments.clear()

    @contextlib.contextmanager
    def use_mem_pool(pool, device=None):
        fake.pools.append((pool, device))
        yield
        fake.pools.append(None)

    @contextlib.contextmanager
    def graph(cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        fake.graphs.append(cuda_graph)
        yield

    def change_current_allocator(made):
        if fake.is_used:
            raise RuntimeError("Can't swap an already initialized allocator")
        fake.current = made

    def refused(device=None):
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")

    fake.__version__ = "2.4.0"
    fake.is_used, fake.current, fake.pools, fake.graphs = False, None, [], []
    fake.cuda, cuda.memory = cuda, memory
    fake.device = lambda text: types.SimpleNamespace(
        index=int(text.split(":")[1]) if ":" in text else None)
    cuda.current_device = lambda: 0
    cuda.MemPool, cuda.use_mem_pool, cuda.graph = MemPool, use_mem_pool, graph
    cuda.empty_cache = lambda: None
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
    hipvmm.torch.resume()
    assert hipvmm.torch.suspend({"py_torch_weights": "contents",
                                 "py_torch_cache": "nothing"}, storage="pageable") >= 8 << 20
    assert hipvmm.tag_statistics("py_torch_cache").bytes_on_host == 0
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


def test_a_wrong_keep_is_found_before_a_tag_sleeps(torch, monkeypatch):
    monkeypatch.setattr(hipvmm.torch._sleep, "tag_statistics", lambda tag: pytest.fail(tag))
    with pytest.raises(hipvmm.InvalidArgumentError, match="'all'.*contents, nothing"):
        hipvmm.torch.suspend({"py_torch_weights": "contents", "py_torch_cache": "all"})


SAMPLES = pathlib.Path(os.environ.get(  # .ci/python runs the tests from elsewhere
    "HIPVMM_SAMPLES", pathlib.Path(__file__).parents[2] / "samples" / "python"))


def sample(name):
    """A file of samples/python as a module, made for this stand-in of PyTorch."""
    spec = importlib.util.spec_from_file_location(name, SAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fill(address, value, nbytes=4 << 20):
    lib().fill_async(address, value, nbytes, None)


def last_byte(address, nbytes=4 << 20):
    content = ctypes.create_string_buffer(1)
    lib().copy(content, address + nbytes - 1, 1, None)
    return content.raw[0]


def asleep(*tags):
    return [hipvmm.tag_statistics(tag).is_asleep for tag in tags]


@needs_chunks
def test_vllms_sleep_mode(torch, monkeypatch):
    device_allocator = types.ModuleType("vllm.device_allocator")
    worker = types.ModuleType("vllm.v1.worker.gpu_worker")  # which has it by name
    package = types.ModuleType("vllm")
    package.device_allocator = device_allocator
    for module in (package, device_allocator, worker):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    device_allocator.get_mem_allocator_instance = worker.get_mem_allocator_instance = None
    sample("vllm_sleep").register()
    allocator = worker.get_mem_allocator_instance()
    assert allocator is device_allocator.get_mem_allocator_instance()
    assert allocator.get_current_usage() == 0
    memory, pools = {}, []
    for tag in ("weights", "kv_cache", "empty"):
        with allocator.use_memory_pool(tag=tag):
            pools.append(torch.pools[-1][0])
            if tag != "empty":
                memory[tag] = pools[-1].allocate(4 << 20)
    assert allocator.get_current_usage() == 8 << 20
    try:
        for level in (1, 2):
            fill(memory["weights"], level)
            allocator.sleep(offload_tags=("weights",) if level == 1 else ())
            assert asleep("weights", "kv_cache") == [True, True]
            kept = hipvmm.tag_statistics("weights").bytes_on_host
            assert (kept > 0) == (level == 1)
            assert hipvmm.tag_statistics("kv_cache").bytes_on_host == 0
            allocator.wake_up(["weights"])
            assert asleep("weights", "kv_cache") == [False, True]
            allocator.wake_up()
            assert asleep("weights", "kv_cache") == [False, False]
            assert level == 2 or last_byte(memory["weights"]) == level
        allocator.discard("kv_cache")
        assert asleep("weights", "kv_cache") == [False, True]
        allocator.wake_up(["kv_cache"])
        real = hipvmm.sleep.suspend

        def fail(tag, *args, **options):
            if tag == "kv_cache":
                raise hipvmm.HipError("the test says so")
            return real(tag, *args, **options)

        monkeypatch.setattr(hipvmm.torch._sleep, "suspend", fail)
        with pytest.raises(hipvmm.HipError):
            allocator.sleep(("weights",))
        assert asleep("weights", "kv_cache") == [False, False]
        assert last_byte(memory["weights"]) is not None
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    finally:
        for pool in pools:
            pool.free()


@needs_chunks
def test_sglangs_memory_saver(torch, monkeypatch):
    package = types.ModuleType("torch_memory_saver")
    package.torch_memory_saver = None
    monkeypatch.setitem(sys.modules, "torch_memory_saver", package)
    sample("sglang_sleep").register()
    saver = package.torch_memory_saver
    saver.hook_mode = "torch"  # as SGLang does
    memory, pools = {}, []
    for tag, backup in (("weights", True), ("kv_cache", False), ("kv_cache", False)):
        with saver.region(tag=tag, enable_cpu_backup=backup):
            pools.append(torch.pools[-1][0])
            memory[tag] = pools[-1].allocate(4 << 20)
            with saver.disable():
                assert torch.pools[-1][0].allocator is None
    with saver.cuda_graph(cuda_graph="graph", pool=None, tag="cuda_graph"):
        assert torch.graphs == ["graph"]
    kept = "weights with backup"
    fill(memory["weights"], 5)
    try:
        saver.pause("kv_cache")
        assert asleep(kept, "kv_cache") == [False, True]
        saver.pause()
        assert asleep(kept, "kv_cache") == [True, True]
        saver.pause("cuda_graph")  # a tag without memory
        saver.resume("weights")
        assert asleep(kept, "kv_cache") == [False, True] and last_byte(memory["weights"]) == 5
        saver.resume()
        assert asleep(kept, "kv_cache") == [False, False] and saver.enabled
    except hipvmm.UnsupportedError as why:
        pytest.skip(str(why))
    finally:
        for pool in pools:
            pool.free()


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


def test_statistics_make_no_pool(run_python, tmp_path):
    run_python("""
import sys, types
sys.modules.setdefault("torch", types.ModuleType("torch"))
import hipvmm, hipvmm.torch
hipvmm.set_logging_level("info")
assert hipvmm.torch.memory_stats(1)["reserved_bytes.all.current"] == 0
hipvmm.flush_logger()
""", HIPVMM_DEBUG_LOG_FILE=str(tmp_path / "log"))
    log = tmp_path / "log"
    assert not log.exists() or "the pool" not in log.read_text()
