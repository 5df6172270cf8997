# SPDX-License-Identifier: MIT
"""What programs do by mistake, or at a bad moment: wrong sizes, closed objects, exits, forks."""

import array
import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

import hipvmm
from conftest import exported, needs_host_access
from hipvmm import mr
from hipvmm._library import get_size, lib


@pytest.mark.parametrize("size", [-1, -(1 << 64) + 5, 1 << 64, (1 << 64) + 100])
def test_sizes_that_c_would_cut_off(size):
    pool = hipvmm.Pool(maximum="64MiB")
    for call in (lambda: hipvmm.DeviceBuffer(size=size), lambda: pool.allocate(size),
                 lambda: pool.trim(size), lambda: hipvmm.GrowableArray(device=size),
                 lambda: mr.LimitingResourceAdaptor(pool, size)):
        with pytest.raises(ValueError, match="and must be from|device -1 does not exist"):
            call()
    buffer = hipvmm.DeviceBuffer(size=10)
    with pytest.raises(ValueError):
        buffer.resize(size)
    assert buffer.size == 10


def test_sizes_are_whole_numbers():
    numbers, arena = hipvmm.GrowableArray("float32"), hipvmm.SlotArena(1, "2MiB")
    for call in (lambda: arena.view(arena.acquire(), 0, "uint8", (2.5,)),
                 lambda: hipvmm.DeviceBuffer(size=1.5), lambda: numbers.resize(1.5),
                 lambda: hipvmm.Pool().allocate("5"),
                 lambda: hipvmm.GrowableArray("float32", (2.7,)),
                 lambda: hipvmm.Attachment("nowhere", "float32", ("2",))):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            call()
    numbers.resize(np.int64(3))
    assert len(numbers) == 3


@pytest.mark.parametrize("zero", [0, 0.0, np.int64(0), "0", "0%", "0.0 GiB", " 0b "])
def test_a_size_of_zero_is_not_the_default(zero):
    plain, pinned = mr.CudaMemoryResource(), mr.PinnedHostMemoryResource()
    for name, call in (("maximum", lambda: hipvmm.Pool(maximum=zero)),
                       ("max", lambda: hipvmm.GrowableArray(max=zero)),
                       ("block", lambda: hipvmm.SlotArena(1, "2MiB", block=zero)),
                       ("arena_size", lambda: mr.ArenaMemoryResource(plain, zero)),
                       ("maximum_pool_size", lambda: mr.PoolMemoryResource(plain, 0, zero)),
                       ("maximum_pool_size", lambda: mr.PoolMemoryResource(pinned, 0, zero)),
                       ("maximum_pool_size", lambda: hipvmm.reinitialize(
                           pool_allocator=True, maximum_pool_size=zero))):
        with pytest.raises(hipvmm.InvalidArgumentError, match=f"^{name} is .*0.*: leave it out for"):
            call()
    hipvmm.Pool(initial=zero, maximum="64MiB", release_threshold=zero).close()  # zero is meant
    assert hipvmm.SlotArena(1, "2MiB", budget=zero, floor=zero).statistics().budget_bytes == 0


def test_messages_name_arguments_of_python():
    pool, numbers = hipvmm.Pool(maximum="64MiB"), hipvmm.GrowableArray("float32", sleep_tag="named")
    arena = hipvmm.SlotArena(1, "2MiB")
    for call, name in ((lambda: pool.allocate(-1), "size"),
                       (lambda: hipvmm.DeviceBuffer(size=-1), "size"),
                       (lambda: numbers.grant(1 << 40), "device"),
                       (lambda: pool.trim(-1), "size"), (lambda: arena.truncate(-1, 0), "slot"),
                       (lambda: arena.truncate(0, -1), "size")):
        with pytest.raises(hipvmm.InvalidArgumentError, match=f"^{name} is -?[0-9]+, and must be "):
            call()
    with pytest.raises(hipvmm.InvalidArgumentError, match="^nothing was made with the tag 'none'"):
        hipvmm.suspend("none", zeros=[(1, 2)])
    numbers.append([1])
    hipvmm.suspend("named")
    try:
        with pytest.raises(hipvmm.InvalidStateError,
                           match=r"^the memory sleeps: call hipvmm.resume\(\) first"):
            numbers.__cuda_array_interface__
        with pytest.raises(hipvmm.HipvmmError, match="^(?!hipvmm_)(?!.*hipvmm_resume)"):
            numbers.append([2])
    finally:
        hipvmm.resume("named")


def test_what_is_no_number_is_a_type_error():
    pool, numbers = hipvmm.Pool(maximum="64MiB"), hipvmm.GrowableArray("float32")
    for call in (lambda: pool.allocate(None), lambda: numbers.grant(None),
                 lambda: mr.LimitingResourceAdaptor(pool, None),
                 lambda: hipvmm.can_access_peer(0, None)):
        with pytest.raises(TypeError, match="(size|device) is None, and must be from"):
            call()
    for device in ("cuda:0", 0.5):  # neither a device's number, nor cut off to one
        with pytest.raises(TypeError, match="is no number of a device"):
            hipvmm.Pool(device=device)
    with pytest.raises(hipvmm.InvalidArgumentError, match="the resource is int"):
        mr.set_current_device_resource(3)


def test_arguments_of_another_type_are_named():
    for call in (lambda: hipvmm.DeviceBuffer(size=1, mr=5),
                 lambda: hipvmm.DeviceBuffer.to_device(b"a", mr=5),
                 lambda: hipvmm.GrowableArray("float32", mr=5)):
        with pytest.raises(hipvmm.InvalidArgumentError,
                           match="the mr is int, and must be a MemoryResource"):
            call()
    for call in (lambda: hipvmm.GrowableArray("float32", 3),
                 lambda: hipvmm.attach("/nowhere", "float32", 3)):
        with pytest.raises(TypeError, match="row_shape is int, and must be a tuple such as "):
            call()
    arena = hipvmm.SlotArena(2, "2MiB")
    with pytest.raises(TypeError, match="slots is int, and must be a list"):
        arena.commit(arena.acquire(), [1])
    with pytest.raises(TypeError, match="lengths is int, and must be a list"):
        arena.commit([0], 1)


def test_arguments_that_are_nearly_right():
    plain = mr.CudaMemoryResource()
    for call in (lambda: plain.is_equal(5), lambda: mr.BinningMemoryResource(plain).add_bin(256, 5)):
        with pytest.raises(hipvmm.InvalidArgumentError, match=" is int, and must be a MemoryResource"):
            call()
    for dtype in ("a,b=c", "50%", "\ud800"):
        with pytest.raises(hipvmm.InvalidArgumentError, match="is no type of elements"):
            hipvmm.GrowableArray(dtype)
    with pytest.raises(TypeError, match="is no number of a device"):
        hipvmm.Stream(np.float32(1.5))
    with pytest.raises(TypeError, match="as an integer"):
        hipvmm.Evictable("none", priority=1.5)
    with pytest.raises(TypeError, match="notes are list"):
        hipvmm.save_checkpoint("none", "/nowhere", [1])
    for address in (-4096, 1 << 64):
        with pytest.raises(hipvmm.InvalidArgumentError, match="the address of a callback is"):
            mr.CallbackMemoryResource(lambda *_, at=address: at, lambda *_: None).allocate(10)


def test_slots_and_lengths_of_pytorch():
    torch = pytest.importorskip("torch")
    arena = hipvmm.SlotArena(2, "2MiB")
    slots = [arena.acquire(), arena.acquire()]
    arena.commit(torch.tensor(slots), [torch.tensor(10), torch.tensor(20)])
    assert [arena.length(each) for each in slots] == [10, 20]


def test_rows_beyond_an_array_are_named_as_rows():
    points = hipvmm.GrowableArray("float32", (3,))
    points.append([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(IndexError, match="erase_front: 3 rows of an array that has 2"):
        points.erase_front(3)
    with pytest.raises(IndexError, match="write: 1 rows from row 2 on of an array that has 2"):
        points.write(2, [7, 8, 9])
    assert points.copy_to_host().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_elements_are_not_copied_to_others():
    numbers = hipvmm.GrowableArray("float32")
    numbers.append([1, 2])
    wide = np.zeros(2, "float64")
    with pytest.raises(hipvmm.InvalidArgumentError, match="are float64, those of the array float32"):
        numbers.copy_to_host(wide)
    assert not wide.any()
    content = bytearray(8)
    numbers.copy_to_host(content)
    assert content == np.array([1, 2], "float32").tobytes()
    numbers.copy_to_host(np.zeros(8, "uint8"))  # bytes too


def test_timeouts():
    pool = hipvmm.Pool(maximum="64MiB")
    assert pool.trim(timeout=float("inf")) == 0
    for timeout in (-1, float("nan")):
        with pytest.raises(ValueError, match="must be 0 or more"):
            pool.trim(timeout=timeout)


def test_times_of_options_are_in_seconds_and_as_long_as_possible():
    with hipvmm.MemoryBudget("py_patience", "64MiB", patience=float("inf")):
        pass
    hipvmm.MemoryPressure(interval=float("inf")).close()
    for name, make in (("patience", lambda time: hipvmm.MemoryBudget("py_patience", patience=time)),
                       ("interval", lambda time: hipvmm.MemoryPressure(interval=time))):
        for wrong in (90000.5, -1, float("nan")):
            with pytest.raises(hipvmm.InvalidArgumentError,
                               match=f"^{name} is {wrong} seconds, and must be from 0 to 86400"):
                make(wrong)


@pytest.mark.parametrize("values", [[300], [-129], [1.5], ["a"], "1", None, {}, [2**70],
                                    array.array("d", [1.0]), memoryview(array.array("d", [1.0])),
                                    np.array([1.0])])
def test_values_that_do_not_fit_are_refused(values):
    numbers = hipvmm.GrowableArray("int8")
    with pytest.raises(hipvmm.InvalidArgumentError):
        numbers.append(values)
    assert len(numbers) == 0


def test_the_value_that_does_not_fit_is_named(run_python):
    script = """
import sys
if {without}:
    sys.modules["numpy"] = None
import hipvmm
numbers = hipvmm.GrowableArray("int8")
for wrong in [1, 300, 2], [-1.5], 2**70, "hello", None:
    try:
        numbers.append(wrong)
    except hipvmm.InvalidArgumentError as why:
        print(why)
"""
    accepted = "cannot be appended: give a list of numbers, bytes, or an array of int8"
    for without in (False, True):
        lines = run_python(script.format(without=without)).splitlines()
        for line, begin in zip(lines, ("300 is no int8: ", "-1.5 is no int8: ",
                                       "1180591620717411303424 is no int8: ",
                                       f"str {accepted}", f"NoneType {accepted}"), strict=True):
            assert line.startswith(begin)


def test_values_that_fit():
    numbers = hipvmm.GrowableArray("int8")
    for values in ([-128, 127], 5, (1,), range(3), [True], np.int64(7), array.array("b", [9]),
                   memoryview(array.array("b", [8])), b"ab", []):
        numbers.append(values)
    assert list(numbers.copy_to_host()) == [-128, 127, 5, 1, 0, 1, 2, 1, 7, 9, 8, 97, 98]
    points = hipvmm.GrowableArray("float32", (3,))
    points.append([])
    points.append([[1, 2, 3]])
    assert points.shape == (1, 3)


def test_elements_that_are_no_numbers_are_refused():
    for dtype in ("S4", "M8[ns]", "V8", np.dtype(("f4", (3,))), object):
        with pytest.raises(hipvmm.InvalidArgumentError):
            hipvmm.GrowableArray(dtype)
    with pytest.raises(hipvmm.InvalidArgumentError, match="lengths begin with 1"):
        hipvmm.attach("/nowhere", "float32", (0,))
    with pytest.raises(TypeError, match="copy_to_host"):
        np.asarray(hipvmm.GrowableArray("float32"))


def test_types_without_numpy(monkeypatch):
    from hipvmm import _dtype

    monkeypatch.setattr(_dtype, "numpy_or_none", lambda: None)
    assert _dtype.dtype_of("complex64").typestr == "<c8"
    assert _dtype.dtype_of("float16").itemsize == 2
    for name in ("float8", "int128", "complex8", "int12", "f1", "<i16"):
        with pytest.raises(hipvmm.InvalidArgumentError):
            _dtype.dtype_of(name)


def test_texts_that_would_be_cut_off():
    with pytest.raises(hipvmm.InvalidArgumentError, match="comma or a zero"):
        hipvmm.GrowableArray(max="64MiB\0junk")
    with pytest.raises(hipvmm.InvalidArgumentError, match="has a zero"):
        hipvmm.attach("/tmp/a\0b")


def test_a_closed_resource_serves_the_buffers_that_it_made():
    used = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    with hipvmm.Pool(maximum="64MiB") as pool:
        buffer = hipvmm.DeviceBuffer.to_device(b"abc", mr=pool)
    assert pool.closed
    assert buffer.tobytes() == b"abc"
    with pytest.raises(hipvmm.InvalidHandleError):
        hipvmm.DeviceBuffer(size=1, mr=pool)
    with mr.StatisticsResourceAdaptor(used) as counted:
        other = hipvmm.DeviceBuffer(size=1000, mr=counted)
    del other
    gc.collect()
    assert used.allocation_counts.current_bytes == 0


def test_a_closed_stream_frees_what_was_used_in_it():
    pool = hipvmm.Pool(maximum="64MiB")
    with hipvmm.Stream() as stream:
        buffer = hipvmm.DeviceBuffer(size=1000, stream=stream, mr=pool)
    assert buffer.__cuda_array_interface__["stream"] is None
    del buffer
    gc.collect()
    assert pool.statistics().used_current == 0


@needs_host_access
def test_a_closed_stream_is_waited_for():
    with hipvmm.Stream() as stream:
        numbers = hipvmm.GrowableArray("float32")
        numbers.append([1, 2, 3], stream)
    assert numbers.__cuda_array_interface__["stream"] is None
    numbers.append([4], None)
    assert list(numbers.numpy_view()) == [1, 2, 3, 4]
    assert list(np.from_dlpack(numbers)) == [1, 2, 3, 4]


def test_all_streams_of_an_array_are_waited_for(monkeypatch):
    first, second = hipvmm.Stream(), hipvmm.Stream()
    numbers = hipvmm.GrowableArray("float32")
    numbers.append([1], first)
    numbers.append([2], second)
    waited = []
    monkeypatch.setattr(hipvmm.growable, "synchronize_last",
                        lambda stream, device=None: waited.append(stream))
    assert numbers.__cuda_array_interface__["stream"] is None
    assert waited == [first, second]
    numbers.append([3], second)
    expected = None if hipvmm.provider() == "amd" else second.ptr
    assert numbers.__cuda_array_interface__["stream"] == expected


@needs_host_access  # a GPU's driver may crash
@pytest.mark.parametrize("number", [-1, 0x123450, 1 << 64])
def test_a_wrong_stream_spoils_nothing(number):
    numbers, pool = hipvmm.GrowableArray(), hipvmm.Pool(maximum="64MiB")
    numbers.append(b"abc")
    buffer = hipvmm.DeviceBuffer.to_device(b"abc", mr=pool)
    for call in (lambda: numbers.append(b"d", number), lambda: numbers.tobytes(number),
                 lambda: buffer.tobytes(number), lambda: buffer.copy_from_host(b"d", number)):
        with pytest.raises((hipvmm.HipError, hipvmm.InvalidArgumentError), match="stream"):
            call()
    assert numbers.numpy_view().tobytes() == np.from_dlpack(numbers).tobytes() == b"abc"
    assert buffer.tobytes() == np.from_dlpack(buffer).tobytes() == b"abc"
    assert buffer.__cuda_array_interface__["stream"] == 1
    del buffer
    gc.collect()
    assert pool.statistics().used_current == 0


@needs_host_access
def test_a_stream_that_its_owner_has_destroyed_is_waited_for_with_its_device():
    numbers, pool = hipvmm.GrowableArray(), hipvmm.Pool(maximum="64MiB")
    with hipvmm.Stream() as stream:
        numbers.append(b"abc", stream.ptr)
        buffer = hipvmm.DeviceBuffer.to_device(b"abc", stream.ptr, mr=pool)
    assert numbers.numpy_view().tobytes() == b"abc"
    assert buffer.tobytes() == np.from_dlpack(buffer).tobytes() == b"abc"


def test_numbers_that_c_would_cut_off_in_streams_and_rights():
    numbers = hipvmm.GrowableArray(sleep_tag="cut off")
    numbers.append(b"abc")
    with pytest.raises(hipvmm.InvalidArgumentError, match="^the stream is 18446744073709551616, and"):
        hipvmm.suspend("cut off", stream=1 << 64)
    for call in (numbers.set_access, hipvmm.Pool(maximum="64MiB").set_access):
        with pytest.raises(hipvmm.InvalidArgumentError, match="^device is 4294967296, and must be"):
            call({1 << 32: "none"})
        with pytest.raises(TypeError, match="^rights are list, and must be a dict such as"):
            call([1])
    pool = hipvmm.Pool(maximum="64MiB")
    pool.deallocate(np.uint64(pool.allocate(100)), np.int64(100))  # no number of Python's
    assert pool.statistics().used_current == 0


def test_the_stream_of_another_array_is_waited_for(monkeypatch):
    stream = hipvmm.Stream()
    waited = []
    synchronize = lib().synchronize
    monkeypatch.setattr(lib(), "synchronize",
                        lambda value: (waited.append(value), synchronize(value)))
    source = hipvmm.DeviceBuffer.to_device(b"abcd")

    class Produced:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "|u1", "data": (source.ptr, True),
                                    "version": 3, "stream": stream.ptr}

    numbers = hipvmm.GrowableArray("uint8")
    numbers.append(Produced())
    assert waited == [stream.ptr]
    numbers.append(Produced(), stream)
    hipvmm.DeviceBuffer(size=4).copy_from_device(Produced(), stream)
    assert waited == [stream.ptr]
    assert numbers.tobytes(stream) == b"abcdabcd"


@needs_host_access
def test_a_view_keeps_the_memory_of_a_buffer_that_is_resized():
    buffer = hipvmm.DeviceBuffer.to_device(b"abc" * 1000)
    view = np.from_dlpack(buffer)
    buffer.resize(4 << 20)
    del buffer
    gc.collect()
    assert view.tobytes() == b"abc" * 1000


@needs_host_access
def test_a_buffer_is_no_copy_for_dlpack():
    buffer = hipvmm.DeviceBuffer.to_device(b"abc")
    with pytest.raises(hipvmm.UnsupportedError):
        buffer.__dlpack__(copy=True)
    with pytest.raises(hipvmm.UnsupportedError):
        buffer.__dlpack__(dl_device=(2, 5))


@needs_host_access
def test_a_capsule_is_taken_once():
    numbers = hipvmm.GrowableArray("float32")
    numbers.append([1, 2])
    capsule = numbers.__dlpack__()

    class Producer:
        def __dlpack__(self, **_):
            return capsule

        def __dlpack_device__(self):
            return (1, 0)

    view = np.from_dlpack(Producer())
    with pytest.raises(ValueError):
        np.from_dlpack(Producer())
    del numbers
    gc.collect()
    assert list(view) == [1, 2]


@needs_host_access
def test_a_capsule_that_is_refused_leaves_the_error(run_python):
    printed = run_python("""
import gc
import numpy as np
import hipvmm
flags = hipvmm.GrowableArray("bool")
flags.resize(4)
try:
    view = np.from_dlpack(flags)
    del view
except (RuntimeError, BufferError):
    pass  # a numpy that takes no booleans
gc.collect()
print(sum(type(each).__name__ == "_Exported" for each in gc.get_objects()))
""")
    assert printed == "0\n"


@needs_host_access
@pytest.mark.parametrize("take", [True, False])
def test_a_tensor_that_ends_leaves_the_error_that_is_raised(take):
    # PyTorch's tensors and capsules, unlike numpy's arrays, do not keep the error themselves.
    make = pytest.importorskip("torch").from_dlpack if take else lambda each: each.__dlpack__()
    numbers = hipvmm.GrowableArray("float32")
    numbers.resize(4)
    before = exported()
    with pytest.raises(ValueError, match="too many values"):
        first, second = (make(numbers) for _ in range(3))
    assert exported() == before


_ENDS_IN_A_THREAD_OF_C = """
import atexit, ctypes, gc
def end_in_thread():
    from hipvmm import _dlpack
    found = [each for each in gc.get_objects() if type(each) is _dlpack._Exported]
    for each in found:
        thread = ctypes.c_size_t()
        libc = ctypes.CDLL(None)
        address = ctypes.c_void_p(ctypes.addressof(each))
        libc.pthread_create(ctypes.byref(thread), None,
                            ctypes.c_void_p(each.managed.deleter), address)
        libc.pthread_join(thread, None)
    del found, each
    print(sum(type(each) is _dlpack._Exported for each in gc.get_objects()))
if {at_exit}:
    atexit.register(end_in_thread)
import hipvmm
set_name = ctypes.pythonapi.PyCapsule_SetName
set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
numbers = hipvmm.GrowableArray("float32")
numbers.resize(4)
capsule = numbers.__dlpack__()
set_name(capsule, b"used_dltensor")
if not {at_exit}:
    end_in_thread()
"""


@needs_host_access
@pytest.mark.parametrize("at_exit, left", [(False, 0), (True, 1)])
def test_a_thread_without_python_ends_a_tensor(run_python, at_exit, left):
    assert run_python(_ENDS_IN_A_THREAD_OF_C.format(at_exit=at_exit)) == f"{left}\n"


@needs_host_access
def test_tensors_outlive_the_interpreters_modules(run_python):
    assert run_python("""
import builtins, sys
import numpy as np
import hipvmm
numbers = hipvmm.GrowableArray("float32")
numbers.resize(4)
sys.kept = np.from_dlpack(numbers), numbers.__dlpack__()
builtins.kept = np.from_dlpack(numbers), numbers.__dlpack__()
print("end")
""") == "end\n"


def test_the_interpreter_ends_while_threads_use_buffers(run_python):
    printed = run_python("""
import threading, time
import hipvmm
def work():
    try:
        while True:
            buffer = hipvmm.DeviceBuffer.to_device(bytes(1_000_000))
            numbers = hipvmm.GrowableArray("float32", max="64MiB")
            numbers.append([1, 2])
            for _ in range(20):
                buffer.tobytes()
    except hipvmm.InvalidHandleError:
        pass
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
print("end")
""")
    assert "Fatal" not in printed


@pytest.mark.parametrize("slow", ["allocate", "deallocate"])
def test_the_interpreter_waits_for_what_threads_make_and_destroy(run_python, slow):
    assert run_python("""
import atexit, threading, time, sys
import hipvmm
from hipvmm import mr
slow = sys.argv[1]
def last():  # is called last, in the thread that ends the interpreter, which may go on
    hipvmm.DeviceBuffer()
    print("end")
atexit.register(last)
memory = mr.CudaMemoryResource()
inside, ending = threading.Event(), threading.Event()
def wait(function):
    if slow == function:
        inside.set()
        ending.wait()
        time.sleep(0.05)
def allocate(nbytes, stream):
    wait("allocate")
    return memory.allocate(nbytes)
def deallocate(pointer, nbytes, stream):
    wait("deallocate")
    memory.deallocate(pointer, nbytes)
def work():
    try:
        hipvmm.DeviceBuffer(size=1000, mr=mr.CallbackMemoryResource(allocate, deallocate))
        while True:
            hipvmm.DeviceBuffer(size=1000, mr=memory)
    except hipvmm.InvalidHandleError:
        pass
threading.Thread(target=work, daemon=True).start()
inside.wait()
atexit.register(ending.set)
""", arguments=[slow], HIPVMM_HOST_LEAKS="1") == "end\n"


def test_the_exit_does_not_free_a_buffer_that_a_call_uses():
    buffer = hipvmm.DeviceBuffer.to_device(b"abc")
    block = buffer._block
    with block.use():
        ending = threading.Thread(target=block._finalizer)
        ending.start()
        ending.join(0.05)
        assert ending.is_alive()
    ending.join()
    with pytest.raises(hipvmm.InvalidHandleError, match="freed at exit"):
        buffer.tobytes()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_error_of_a_callback_is_not_kept_for_later():
    memory = mr.CudaMemoryResource()
    calls = []

    def allocate(nbytes, stream):
        calls.append(nbytes)
        if len(calls) == 1:
            raise KeyError("the first")
        return memory.allocate(nbytes, stream)

    resource = mr.FailureCallbackResourceAdaptor(
        mr.CallbackMemoryResource(allocate, lambda ptr, nbytes, _: memory.deallocate(ptr, nbytes)),
        lambda nbytes: True)
    buffer = hipvmm.DeviceBuffer(size=10, mr=resource)
    assert buffer.size == 10
    with pytest.raises(hipvmm.InvalidArgumentError, match="junk"):
        hipvmm.GrowableArray(max="junk")


def test_a_callback_that_uses_the_array_that_grows_is_refused():
    memory = mr.CudaMemoryResource()
    resource = mr.CallbackMemoryResource(
        lambda nbytes, stream: len(numbers) or memory.allocate(nbytes),
        lambda ptr, nbytes, _: memory.deallocate(ptr, nbytes))
    numbers = hipvmm.GrowableArray("float32", mr=resource)
    with pytest.raises(hipvmm.InvalidArgumentError, match="in use by the call"):
        numbers.append([1, 2, 3])
    assert len(numbers) == 0


def test_a_bin_that_is_its_own_is_refused():
    bins = mr.BinningMemoryResource(mr.CudaMemoryResource())
    with pytest.raises(hipvmm.InvalidArgumentError, match="no request would end"):
        bins.add_bin(4096, bins)


def test_cycles_are_collected():
    gc.collect()
    before = get_size(lib().live_handles)
    for _ in range(5):
        held = []
        pool = hipvmm.Pool(maximum="64MiB")
        held += [held, pool, hipvmm.DeviceBuffer(size=100, mr=pool),
                 hipvmm.GrowableArray("float32", mr=pool), hipvmm.Stream()]
    del held, pool
    gc.collect()
    assert get_size(lib().live_handles) == before


def test_an_array_is_closed_while_threads_use_it():
    wrong = []

    def use(numbers):
        try:
            while True:
                numbers.append([1])
                numbers.tobytes()
        except hipvmm.InvalidHandleError:
            pass
        except BaseException as why:  # noqa: B902
            wrong.append(why)

    for _ in range(10):
        numbers = hipvmm.GrowableArray("float32", max="64MiB")
        threads = [threading.Thread(target=use, args=(numbers,)) for _ in range(3)]
        for each in threads:
            each.start()
        numbers.close()
        for each in threads:
            each.join()
    assert not wrong


def test_a_child_of_fork_exits_and_says_nothing(run_python):
    assert run_python("""
import os, sys
import hipvmm
numbers = hipvmm.GrowableArray("float32", max="64MiB")
numbers.append([1, 2, 3])
stream = hipvmm.Stream()
memory = hipvmm.DeviceBuffer(size=100, stream=stream)
hipvmm.reinitialize(pool_allocator=True)
of_pool = hipvmm.DeviceBuffer(size=100)
child = os.fork()
if child == 0:
    for use in (lambda: len(numbers), lambda: memory.ptr, lambda: of_pool.ptr, of_pool.tobytes,
                lambda: of_pool.__cuda_array_interface__, lambda: stream.ptr, stream.synchronize,
                lambda: hipvmm.DeviceBuffer(size=10), hipvmm.mr.get_current_device_resource,
                lambda: hipvmm.DeviceBuffer(size=10, mr=of_pool.mr), lambda: of_pool.mr.device):
        try:
            use()
        except hipvmm.UnsupportedError:
            continue
        sys.exit(4)
    sys.exit(3)
print(os.WEXITSTATUS(os.waitpid(child, 0)[1]), numbers.tobytes() != b"", flush=True)
""") == "3 True\n"


def test_all_devices_or_none_also_where_others_set_the_resource():
    from ctypes import byref, c_void_p

    other = c_void_p()
    lib().pool_create(0, b"maximum=64MiB", byref(other))
    lib().set_device_resource(0, other)
    try:
        with pytest.raises(hipvmm.InvalidArgumentError):
            hipvmm.reinitialize(managed_memory=True, devices=[0, 99])
        assert mr.get_per_device_resource(0).kind == "pool"
        hipvmm.reinitialize(devices=np.int64(0))
    finally:
        lib().reset_device_resource(0)
        lib().resource_destroy(other)


def test_a_path_of_pathlib(tmp_path):
    numbers = hipvmm.GrowableArray("uint8", max="64MiB")
    try:
        numbers = hipvmm.GrowableArray("uint8", max="64MiB", shareable="posix_fd")
    except hipvmm.UnsupportedError:
        pytest.skip("memory cannot be shared")
    with numbers.publish(tmp_path / "numbers") as published:
        numbers.append(b"abc")
        published.announce()
        with hipvmm.attach(tmp_path / "numbers") as attached:
            assert attached.wait(3, float("inf"))
            assert attached.tobytes() == b"abc"
            with pytest.raises(ValueError):
                attached.wait(-1, 0)
    assert published.path == os.fspath(tmp_path / "numbers")


def test_paths_may_be_bytes_and_what_has_no_encoding_is_refused(tmp_path):
    folder = tmp_path / "b\udcff"  # of a file system with other names than UTF-8
    folder.mkdir()
    numbers = hipvmm.GrowableArray("uint8", max="64MiB", sleep_tag="py_bytes")
    numbers.append(b"abc")
    for each in (os.fsencode(folder), os.fspath(folder)):
        try:
            assert hipvmm.suspend("py_bytes", storage="file", folder=each) > 0
        except hipvmm.UnsupportedError as why:
            pytest.skip(str(why))
        hipvmm.resume("py_bytes")
        with hipvmm.Evictable("py_bytes", storage="file", folder=each):
            pass
        file = each + (b"/x" if isinstance(each, bytes) else "/x")
        with mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), file) as log:
            assert log.get_file_name() == os.path.join(os.fspath(folder), "x.dev0")
    assert numbers.tobytes() == b"abc"
    for fails in (lambda: hipvmm.suspend("py_bytes", folder="\ud800"),
                  lambda: hipvmm.suspend("\ud800"), lambda: hipvmm.MemoryBudget("\ud800"),
                  lambda: hipvmm.Attachment("\ud800", "uint8")):
        with pytest.raises(hipvmm.InvalidArgumentError, match="ud800"):
            fails()


class _Engine:
    """Owns what calls it."""

    def __init__(self, make):
        self.memory = hipvmm.GrowableArray(sleep_tag="engine")
        self.memory.append(b"abc")
        self.owned = make(self.called)

    def called(self, _):
        gc.collect()  # of the engine too, if nobody else has it
        self.result = True


@pytest.mark.parametrize("make", [
    lambda call: hipvmm.MemoryPressure(call), lambda call: hipvmm.MemoryBudget("circle", trim=call),
    lambda call: hipvmm.Evictable("engine", fill=call),
    lambda call: hipvmm.SlotArena(1, "2MiB", evict=call),
    lambda call: mr.FailureCallbackResourceAdaptor(mr.CudaMemoryResource(), call)])
def test_owners_of_callbacks_that_call_them_end(make):
    gc.collect()
    before = get_size(lib().live_handles)
    ends = weakref.ref(_Engine(make))
    assert ends() is not None
    gc.collect()
    assert ends() is None and get_size(lib().live_handles) == before


def test_a_callback_may_collect_its_owner(run_python):
    assert run_python("""
import gc, threading, hipvmm
came, held = threading.Event(), []
def make():
    def called(note):
        circle.append(held.pop())  # from now on only the callback has it
        gc.collect()
        came.set()
    circle = []
    return called
held.append(hipvmm.MemoryPressure(make(), limit="8MiB", low="90%", device_memory=False))
numbers = hipvmm.GrowableArray()
numbers.resize(6 << 20)
print(came.wait(10))
gc.collect()
""") == "True\n"


@pytest.mark.parametrize("kind", ["pressure", "attachment"])
def test_an_interrupt_ends_a_wait(kind, tmp_path):
    array = hipvmm.GrowableArray(shareable="posix_fd", max="64MiB")
    with hipvmm.MemoryPressure() as pressure, array.publish(str(tmp_path / "rows")) as published:
        with hipvmm.attach(published.path) as seen:
            wait = {"pressure": lambda: pressure.wait(20), "attachment": lambda: seen.wait(1, 20)}
            interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
            interrupt.start()
            begin = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                while True:  # maybe there is a note already
                    assert wait[kind]() is not False
            assert time.monotonic() < begin + 5
            interrupt.join()
