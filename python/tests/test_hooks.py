# SPDX-License-Identifier: MIT
"""The hooks of CuPy and Numba with stand-ins: what they call, not what those packages do."""

import contextlib
import copy
import ctypes
import gc
import sys
import types

import pytest

import hipvmm
from hipvmm import mr


@pytest.fixture
def counted():
    resource = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    mr.set_current_device_resource(resource)
    return resource


@pytest.fixture
def cupy(monkeypatch):
    """What the hook uses of CuPy."""
    import hipvmm.cupy

    fake = types.ModuleType("cupy")
    state = types.SimpleNamespace(stream=None, device=0, allocator=None, of_thread=None)
    fake.state = state

    class Stream:
        """Ends as CuPy's does: with its last reference."""

        def __init__(self, device_id=0):
            self.owned = hipvmm.Stream(max(device_id, 0)) if device_id >= 0 else None
            self.ptr = self.owned.ptr if self.owned else 0
            self.device_id = device_id

        def synchronize(self):
            hipvmm.synchronize()

    class OutOfMemoryError(MemoryError):
        def __init__(self, size, total, limit=0):
            self._size, self._total, self._limit = size, total, limit
            super(OutOfMemoryError, self).__init__(f"CuPy: {size}")

    class Memory:
        def __init__(self, ptr, size, device_id, end=None):
            self.ptr, self.size, self.device_id, self.end = ptr, size, device_id, end

        def __del__(self):
            if self.ptr and self.end is not None:
                self.end(self.ptr, self.device_id)

    class UnownedMemory(Memory):
        def __init__(self, ptr, size, owner, device_id):
            if device_id < 0 and not ptr:
                raise RuntimeError("UnownedMemory requires explicit device ID")
            super().__init__(ptr, size, device_id)
            self.owner = owner

    class MemoryPointer:
        def __init__(self, mem, offset):
            self.mem, self.ptr = mem, mem.ptr + offset

    class CFunctionAllocator:
        """Keeps its owner, as CuPy's; its memory does not."""

        def __init__(self, param, malloc_func, free_func, owner):
            allocate = ctypes.CFUNCTYPE(
                ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(malloc_func)
            free = ctypes.CFUNCTYPE(
                None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(free_func)
            self.owner = owner

            def malloc(size):
                ptr = allocate(param, size, state.device) or 0 if size else 0
                return MemoryPointer(
                    Memory(ptr, size, state.device, lambda at, device: free(param, at, device)), 0)

            self.malloc = malloc

    @contextlib.contextmanager
    def using_allocator(function):
        before, state.of_thread = state.of_thread, function
        try:
            yield
        finally:
            state.of_thread = before

    def set_allocator(function):
        if state.of_thread is not None:
            raise ValueError("inside using_allocator")
        state.allocator = function

    fake.Stream = Stream
    fake.cuda = types.SimpleNamespace(
        get_current_stream=lambda: state.stream, UnownedMemory=UnownedMemory,
        MemoryPointer=MemoryPointer, CFunctionAllocator=CFunctionAllocator,
        device=types.SimpleNamespace(get_device_id=lambda: state.device),
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        set_allocator=set_allocator, using_allocator=using_allocator,
        get_allocator=lambda: state.of_thread or state.allocator)
    own = types.SimpleNamespace(malloc=lambda nbytes: None)
    fake.get_default_memory_pool = lambda: own
    state.allocator, state.stream = own.malloc, Stream(-1)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    yield fake
    for known in (hipvmm.cupy._streams, hipvmm.cupy._bound, hipvmm.cupy._previous,
                  hipvmm.cupy._out_of_memory):
        known.clear()
    for device in (0, 1):
        with _pool(device) as pool:
            pool.trim(0, 1.0)


class _pool(hipvmm.mr._AnyPool):
    """The pool of a device."""

    def __init__(self, device):
        lib = hipvmm._library.lib()
        super().__init__(hipvmm._library.get_address(lib.device_pool, device))


MB = 1 << 20


def test_cupy_has_the_pool_of_its_device(cupy):
    import hipvmm.cupy

    hipvmm.cupy.install()
    hipvmm.cupy.install()
    assert hipvmm.cupy.is_installed()
    before = hipvmm.cupy.memory_statistics()
    array = cupy.state.allocator(3 * MB)
    assert array.ptr and array.mem.size == 3 * MB
    now = hipvmm.cupy.memory_statistics()
    assert now.used == before.used + 3 * MB
    assert now.peak_used >= now.used and now.peak_reserved >= now.reserved >= now.used
    assert "MiB" in hipvmm.cupy.report()
    cupy.state.device = 1
    with_other = cupy.state.allocator(MB)
    assert hipvmm.cupy.memory_statistics(1).used == MB
    assert hipvmm.cupy.memory_statistics(0).used == now.used
    assert cupy.state.allocator(0).ptr == 0
    del array, with_other
    assert hipvmm.cupy.memory_statistics(0).used == before.used
    assert hipvmm.cupy.memory_statistics(1).used == 0
    hipvmm.cupy.empty_cache()
    hipvmm.cupy.uninstall()
    assert cupy.state.allocator is cupy.get_default_memory_pool().malloc
    assert not hipvmm.cupy.is_installed()


def test_cupy_has_what_was_set_for_the_device(cupy, counted):
    import hipvmm.cupy

    hipvmm.cupy.install()
    array = cupy.state.allocator(1000)
    assert counted.allocation_counts.current_bytes == 1000
    mr.set_current_device_resource(None)
    del array
    assert counted.allocation_counts.current_bytes == 0


def test_cupy_in_a_block_only(cupy):
    import hipvmm.cupy

    before = cupy.state.allocator
    with hipvmm.cupy.pool():
        assert hipvmm.cupy.is_installed()
        array = cupy.cuda.get_allocator()(MB)
        with pytest.raises(ValueError, match="using_allocator"):
            hipvmm.cupy.install()
    assert cupy.state.allocator is before
    assert not hipvmm.cupy.is_installed()
    assert hipvmm.cupy.memory_statistics().used >= MB
    del array


def test_cupy_without_memory_raises_the_errors_of_both(cupy):
    import hipvmm.cupy

    hipvmm.cupy.install()
    mr.set_current_device_resource(hipvmm.Pool(maximum="16MiB"))
    for error in (cupy.cuda.memory.OutOfMemoryError, hipvmm.OutOfMemoryError, MemoryError):
        with pytest.raises(error, match="64") as raised:
            cupy.state.allocator(64 * MB)
    assert raised.value.bytes_requested == 64 * MB
    assert raised.value.exhausted == "limit"
    assert raised.value._size == 64 * MB
    assert type(copy.copy(raised.value)) is cupy.cuda.memory.OutOfMemoryError


def test_cupy_arrays_in_circles_make_room(cupy):
    import hipvmm.cupy

    hipvmm.cupy.install()
    mr.set_current_device_resource(hipvmm.Pool(maximum="16MiB"))
    circle = [cupy.state.allocator(12 * MB)]
    circle.append(circle)
    gc.disable()
    try:
        del circle
        assert cupy.state.allocator(12 * MB).ptr
    finally:
        gc.enable()


def test_cupy_streams_live_until_the_pools_know(cupy):
    import hipvmm.cupy

    hipvmm.cupy.install()
    default = cupy.state.stream
    kept = []
    for _ in range(3):
        cupy.state.stream = cupy.Stream()
        kept.append(cupy.state.allocator(MB))
        cupy.state.allocator(MB)
    # Two more than the last are gone, the others with them; arrays outlive their stream.
    alive = [each for each in hipvmm.cupy._streams.values() if each.kept is not None]
    assert [each.kept for each in alive] == [cupy.state.stream]
    external = cupy.Stream()
    external.device_id = -1  # an ExternalStream
    cupy.state.stream = external
    kept.append(cupy.state.allocator(MB))
    hipvmm.cupy.forget_stream(external)
    assert external.ptr not in hipvmm.cupy._streams
    cupy.state.stream = default
    del alive
    hipvmm.cupy.empty_cache()
    assert not [each for each in hipvmm.cupy._streams.values() if each.kept is not None]
    del kept
    assert hipvmm.cupy.memory_statistics().used == 0


def test_cupy_by_the_resource_of_rmm(cupy, counted):
    from hipvmm.allocators.cupy import rmm_cupy_allocator

    assert rmm_cupy_allocator is hipvmm.cupy.allocator
    pointer = rmm_cupy_allocator(1000)
    assert pointer.ptr == pointer.mem.owner.ptr
    assert pointer.mem.size == 1000
    assert pointer.mem.device_id == 0
    assert counted.allocation_counts.current_bytes == 1000
    del pointer
    gc.collect()
    assert counted.allocation_counts.current_bytes == 0
    nothing = rmm_cupy_allocator(0)
    assert nothing.ptr == 0
    assert nothing.mem.device_id == 0


def test_cupy_arrays_may_end_after_everything_else(run_python):
    # In this order: the package's objects, its modules, then what C has left.
    script = """
import ctypes, sys, types
import hipvmm
from hipvmm import _library
library = _library.lib().loaded
library.hipvmm_device_allocate.restype = ctypes.c_void_p
library.hipvmm_device_allocate.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(
    ctypes.cast(library.hipvmm_device_deallocate, ctypes.c_void_p).value)
class Array:
    def __init__(self):
        self.ptr, self.free = library.hipvmm_device_allocate(None, 1 << 20, 0), free
    def __del__(self):
        self.free(None, self.ptr, 0)
        print("freed", flush=True)
hipvmm.mr.set_current_device_resource(hipvmm.Pool())
in_a_set_pool = Array()
hipvmm.mr.set_current_device_resource(None)
in_the_pool_of_the_device = Array()
keep = types.ModuleType("aaa"); keep.arrays = [in_a_set_pool, in_the_pool_of_the_device]
keep.itself = keep
sys.modules["aaa"] = keep
"""
    assert run_python(script).count("freed") == 2


def test_cupy_that_is_not_there(monkeypatch):
    import hipvmm.cupy

    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ModuleNotFoundError, match="hipvmm.cupy needs CuPy"):
        hipvmm.cupy.install()


@pytest.fixture(params=["bindings", "numbers"])
def numba(monkeypatch, request):
    """What the hook uses of Numba: of its current releases, and of those without bindings."""
    import hipvmm.numba

    fake, cuda = types.ModuleType("numba"), types.ModuleType("numba.cuda")
    cudadrv, driver = types.ModuleType("numba.cuda.cudadrv"), types.ModuleType("driver")
    has_bindings = request.param == "bindings"

    class CudaAPIError(Exception):
        def __init__(self, code, msg):
            self.code, self.msg = code, msg
            super().__init__(code, msg)

    class HostOnlyCUDAMemoryManager:
        def __init__(self, *args, **kwargs):
            self.context = kwargs.pop("context")
            self.allocations, self.tries, self.cleanup_disabled = UniqueDict(), 0, False

        def _attempt_allocation(self, allocator):
            try:
                return allocator()
            except CudaAPIError as failure:
                assert failure.code == fake.out_of_memory
                self.tries += 1
                return allocator()

        def reset(self):
            self.allocations.clear()

        @contextlib.contextmanager
        def defer_cleanup(self):
            self.cleanup_disabled = True
            yield
            self.cleanup_disabled = False

    class UniqueDict(dict):
        def __setitem__(self, key, value):
            assert key not in self
            super().__setitem__(key, value)

    class MemoryPointer:
        def __init__(self, context, pointer, size, owner=None, finalizer=None):
            # Numba makes a CUdeviceptr of one type only, and passes on the other.
            assert type(pointer) is (ctypes.c_void_p if has_bindings else ctypes.c_uint64)
            self.context, self.size, self.finalizer = context, size, finalizer
            self.address = pointer.value or 0

    fake.out_of_memory = 2
    if has_bindings:
        fake.out_of_memory = object()
        driver.binding = types.SimpleNamespace(
            CUresult=types.SimpleNamespace(CUDA_ERROR_OUT_OF_MEMORY=fake.out_of_memory))
    else:
        driver.USE_NV_BINDING = False
    driver.CudaAPIError = CudaAPIError
    cuda.HostOnlyCUDAMemoryManager = HostOnlyCUDAMemoryManager
    cuda.MemoryPointer = MemoryPointer
    cuda.MemoryInfo = lambda free, total: (free, total)
    cuda.set_memory_manager = lambda manager: setattr(fake, "manager", manager)
    fake.cuda, cuda.cudadrv, cudadrv.driver = cuda, cudadrv, driver
    for name, module in (("numba", fake), ("numba.cuda", cuda), ("numba.cuda.cudadrv", cudadrv),
                         ("numba.cuda.cudadrv.driver", driver)):
        monkeypatch.setitem(sys.modules, name, module)
    hipvmm.numba._made.clear()
    yield fake
    hipvmm.numba._made.clear()


def _context(device=0):
    return types.SimpleNamespace(device=types.SimpleNamespace(id=device))


def test_numba(numba, counted):
    import hipvmm.allocators.numba
    import hipvmm.numba

    hipvmm.numba.install()
    assert numba.manager is hipvmm.numba._numba_memory_manager
    assert numba.manager is hipvmm.allocators.numba.RMMNumbaManager
    assert numba.manager(context=None).interface_version == 1
    manager = numba.manager(context=_context())
    manager.initialize()
    pointer = manager.memalloc(1000)
    assert pointer.size == 1000
    assert pointer.address in manager.allocations
    assert counted.allocation_counts.current_bytes == 1000
    pointer.finalizer()
    pointer.finalizer()
    assert counted.allocation_counts.current_bytes == 0
    for nothing in (manager.memalloc(0), manager.memalloc(0)):
        assert nothing.address == 0
        nothing.finalizer()
    free, total = manager.get_memory_info()
    assert 0 < free <= total
    with pytest.raises(NotImplementedError, match="publish"):
        manager.get_ipc_handle(pointer)
    with pytest.raises(AttributeError):
        hipvmm.numba.no_such_name


def test_numba_has_the_pool_of_its_device(numba):
    import hipvmm.numba

    manager = hipvmm.numba._numba_memory_manager(context=_context(1))
    pool = _pool(1)
    before = pool.statistics().used_current
    pointer = manager.memalloc(3 * MB)
    assert pool.statistics().used_current == before + 3 * MB
    pointer.finalizer()
    assert pool.statistics().used_current == before
    pool.trim(0, 1.0)


def test_numba_defers_and_resets(numba, counted):
    import hipvmm.numba

    manager = hipvmm.numba._numba_memory_manager(context=_context())
    pointer = manager.memalloc(1000)
    with manager.defer_cleanup():
        assert manager.cleanup_disabled
        with manager.defer_cleanup():
            pointer.finalizer()
        assert counted.allocation_counts.current_bytes == 1000
    assert counted.allocation_counts.current_bytes == 0
    pointer = manager.memalloc(1000)
    manager.reset()
    assert counted.allocation_counts.current_bytes == 0
    pointer.finalizer()
    assert counted.allocation_counts.total_count == 2


def test_numba_without_memory_tries_again_and_raises_the_errors_of_both(numba):
    import hipvmm.numba

    manager = hipvmm.numba._numba_memory_manager(context=_context())
    mr.set_current_device_resource(hipvmm.Pool(maximum="16MiB"))
    driver = sys.modules["numba.cuda.cudadrv.driver"]
    for error in (driver.CudaAPIError, hipvmm.OutOfMemoryError, MemoryError):
        with pytest.raises(error, match="64") as raised:
            manager.memalloc(64 * MB)
    assert manager.tries == 3
    assert raised.value.bytes_requested == 64 * MB
    with manager.defer_cleanup():
        pointer = manager.memalloc(12 * MB)
        pointer.finalizer()
        again = manager.memalloc(12 * MB)  # what was held back makes room
    again.finalizer()


def test_numba_has_an_address_twice_after_a_reset(numba, counted):
    import hipvmm.numba

    manager = hipvmm.numba._numba_memory_manager(context=_context())
    first = manager.memalloc(1000)
    manager.reset()
    manager.allocations.clear()
    second = manager.memalloc(1000)
    if second.address != first.address:  # as if it were the same
        block = manager.allocations.pop(second.address)
        manager.allocations[first.address] = block
        first.finalizer()
        assert manager.allocations == {first.address: block}
        manager.allocations = {second.address: block}
    first.finalizer()
    second.finalizer()
    assert counted.allocation_counts.current_bytes == 0
