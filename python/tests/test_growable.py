# SPDX-License-Identifier: MIT
import copy
import gc
import pickle
import threading

import pytest

import hipvmm
from conftest import exported, needs_chunks, needs_host_access

np = pytest.importorskip("numpy")


def test_an_empty_array():
    array = hipvmm.GrowableArray("float32", max="64MiB")
    assert len(array) == array.size == array.nbytes == 0
    assert array.shape == (0,)
    assert array.ndim == 1
    assert array.dtype == np.float32
    assert array.typestr == "<f4"
    assert array.itemsize == 4
    assert array.device == 0
    assert array.max_size >= 16 << 20
    assert array.tobytes() == b""
    assert array.copy_to_host().shape == (0,)
    assert "shape=(0,)" in repr(array)


def test_appended_rows_are_read_again():
    array = hipvmm.GrowableArray("int32", max="64MiB")
    array.append([1, 2, 3])
    array.append(np.arange(4, 7, dtype="int32"))
    array.extend(range(7, 9))
    array.append(())
    array.append(np.array([9], dtype="int32").tobytes())
    assert np.array_equal(array.copy_to_host(), np.arange(1, 10, dtype="int32"))


def test_growth_does_not_move():
    array = hipvmm.GrowableArray("float32", max="256MiB")
    array.append([1, 2, 3])
    before = array.ptr
    array.resize(5_000_000)
    if array.is_address_stable:
        assert array.ptr == before
    assert array.shape == (5_000_000,)
    host = array.copy_to_host()
    assert list(host[:4]) == [1, 2, 3, 0]
    assert array.capacity >= 5_000_000
    assert array.statistics().growth_steps == 2
    assert array.statistics().peak_bytes >= 20_000_000
    assert array.explain()


def test_rows():
    array = hipvmm.GrowableArray("float64", (3,), max="64MiB")
    array.append(np.eye(3))
    array.append([[1, 2, 3]])
    array.append([4, 5, 6])
    assert array.shape == (5, 3)
    assert array.copy_to_host()[3:].tolist() == [[1, 2, 3], [4, 5, 6]]
    array.write(0, [[9, 9, 9]])
    assert array.copy_to_host()[0].tolist() == [9, 9, 9]
    with pytest.raises(ValueError, match="of no rows"):
        array.append(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="no whole number of rows"):
        array.append(b"12345678")
    with pytest.raises(ValueError, match="begin with 1"):
        hipvmm.GrowableArray("float64", (0,))


@pytest.mark.parametrize("row_shape, given, advice", [
    ((), np.zeros((3, 3), "float32"), r"array.reshape\(-1\), or row_shape=\(3,\)"),
    ((), [[1, 2], [3, 4]], r"array.reshape\(-1\), or row_shape=\(2,\)"),
    ((), np.zeros((0, 5), "float32"), r"array.reshape\(-1\), or row_shape=\(5,\)"),
    ((), [[]], r"array.reshape\(-1\)$"),
    ((), memoryview(np.zeros((3, 3), "float32")), r"array.reshape\(-1\), or row_shape=\(3,\)"),
    ((3,), np.zeros((2, 2, 3), "float32"), r"array.reshape\(-1, 3\), or row_shape=\(2, 3\)"),
    ((3,), np.zeros((0, 5), "float32"), r"array.reshape\(-1, 3\), or row_shape=\(5,\)"),
    ((3,), [1, 2, 3, 4, 5, 6], r"array.reshape\(-1, 3\)$"),
    ((3,), 5, r"rows of the shape \(3,\)$"), ((3,), [4, 5], r"rows of the shape \(3,\)$")])
def test_other_shapes_of_rows_are_refused(row_shape, given, advice):
    array = hipvmm.GrowableArray("float32", row_shape, max="64MiB")
    array.resize(9)
    for call in (lambda: array.append(given), lambda: array.write(0, given)):
        with pytest.raises(hipvmm.InvalidArgumentError, match=r"the shape \(.*" + advice):
            call()
    assert len(array) == 9


def test_other_shapes_of_rows_of_a_device_are_refused():
    points = hipvmm.GrowableArray("float32", (3,), max="64MiB")
    points.append(np.eye(3, dtype="float32"))
    points.append(points[:1])
    numbers = hipvmm.GrowableArray("float32", max="64MiB")
    with pytest.raises(ValueError, match=r"the shape \(4, 3\) is of no rows of the shape \(\): "):
        numbers.append(points)
    assert len(points) == 4 and len(numbers) == 0


def test_sizes_are_rows():
    array = hipvmm.GrowableArray("int16", (2,), max="64MiB")
    array.reserve(1000)
    assert array.capacity >= 1000
    array.resize(10)
    array.resize_uninitialized(5)
    assert len(array) == 5
    array.clear()
    assert len(array) == 0
    with pytest.raises(IndexError):
        array.resize(-1)
    with pytest.raises(IndexError):
        array.resize(1 << 62)


def test_a_queue():
    array = hipvmm.GrowableArray("uint8", max="64MiB")
    array.append(b"abcdef")
    array.erase_front(2)
    assert array.tobytes() == b"cdef"
    array.append(b"gh")
    assert array.tobytes() == b"cdefgh"
    with pytest.raises(IndexError):
        array.erase_front(7)


@needs_chunks
def test_shrinking_releases_chunks():
    array = hipvmm.GrowableArray(max="256MiB", step_limit=0)
    for size in (4 << 20, 8 << 20, 12 << 20):
        array.resize_uninitialized(size)
    array.resize(1)
    assert array.shrink_to_fit() == 8 << 20
    array.shrink_to_fit(replace_tail=True)
    assert array.nbytes == 1


def test_other_types_are_refused():
    array = hipvmm.GrowableArray("float32", max="64MiB")
    with pytest.raises(ValueError, match="astype"):
        array.append(np.zeros(3, dtype="float64"))
    with pytest.raises(ValueError, match="cannot be on a device"):
        hipvmm.GrowableArray(object)
    with pytest.raises(ValueError, match="byte order"):
        hipvmm.GrowableArray(">f4")
    with pytest.raises(ValueError, match="no type"):
        hipvmm.GrowableArray("nonsense")
    with pytest.raises(ValueError, match="there is no 'maxi'"):
        hipvmm.GrowableArray(maxi=1)
    assert len(array) == 0


def test_what_is_not_contiguous_on_the_host_is_copied():
    array = hipvmm.GrowableArray("int64", max="64MiB")
    array.append(np.arange(10)[::2])
    assert array.copy_to_host().tolist() == [0, 2, 4, 6, 8]


def test_from_the_device():
    array = hipvmm.GrowableArray("uint8", max="64MiB")
    array.append(hipvmm.DeviceBuffer.to_device(b"abc"))
    array.append(array)
    assert array.tobytes() == b"abcabc"
    floats = hipvmm.GrowableArray("float32", max="64MiB")
    with pytest.raises(ValueError, match=r"the elements are \|u1"):
        floats.append(array)

    class Strided:
        __cuda_array_interface__ = {"data": (array.ptr, False), "shape": (2,), "typestr": "|u1",
                                    "strides": (2,), "version": 3}

    with pytest.raises(ValueError, match="not contiguous"):
        array.append(Strided())


def test_streams():
    with hipvmm.Stream() as one, hipvmm.Stream() as two:
        array = hipvmm.GrowableArray("uint8", max="64MiB")
        array.append(b"abc", one)
        one.synchronize()
        array.append(b"def", two)
        assert array.tobytes(two) == b"abcdef"
        assert array.__cuda_array_interface__["stream"] in (None, two.ptr)
        array.close()
        with pytest.raises(hipvmm.InvalidHandleError):
            array.append(b"g")
        assert repr(array) == "GrowableArray(closed)"


def test_the_array_interface():
    array = hipvmm.GrowableArray("float32", (2,), max="64MiB")
    assert array.__cuda_array_interface__["data"] == (0, False)
    array.append([1, 2])
    interface = array.__cuda_array_interface__
    assert interface["data"] == (array.ptr, False)
    assert interface["shape"] == (1, 2)
    assert interface["typestr"] == "<f4"
    assert interface["version"] == 3


@needs_host_access
def test_numpy_shares_the_memory():
    array = hipvmm.GrowableArray("int32", max="64MiB")
    assert array.numpy_view().shape == (0,)
    array.append([1, 2, 3])
    view = array.numpy_view()
    view[1] = 7
    assert array.copy_to_host().tolist() == [1, 7, 3]
    array.append([4])
    assert view.tolist() == [1, 7, 3]
    del array
    gc.collect()
    assert view.tolist() == [1, 7, 3]


def test_slices_are_views_of_rows():
    array = hipvmm.GrowableArray("int32", (2,), max="64MiB")
    array.append(np.arange(20, dtype="int32").reshape(10, 2))
    some = array[2:5]
    assert (len(some), some.shape, some.ndim, some.size, some.nbytes) == (3, (3, 2), 2, 6, 24)
    assert (some.dtype, some.typestr, some.device) == (array.dtype, "<i4", array.device)
    assert some.ptr == array.ptr + 16
    assert some.copy_to_host().tolist() == [[4, 5], [6, 7], [8, 9]]
    assert some.tobytes() == array.tobytes()[16:40]
    assert some[1:].copy_to_host().tolist() == [[6, 7], [8, 9]]
    assert array[-1:].copy_to_host().tolist() == [[18, 19]]
    assert array[:].__cuda_array_interface__ == array.__cuda_array_interface__
    interface = some.__cuda_array_interface__
    assert interface["data"] == (array.ptr + 16, False) and interface["shape"] == (3, 2)
    assert len(array[7:3]) == 0 and array[20:].copy_to_host().shape == (0, 2)
    # Rows of its own are appended, and the view sees what is written.
    array.append(some)
    assert array[10:].copy_to_host().tolist() == some.copy_to_host().tolist()
    array.write(2, [[0, 1]])
    assert some.copy_to_host().tolist() == [[0, 1], [6, 7], [8, 9]]


def test_slices_follow_their_array():
    array = hipvmm.GrowableArray("uint8", mr=hipvmm.mr.CudaMemoryResource())
    array.append(b"abcdef")
    some = array[1:3]
    array.resize(1 << 20)  # to other addresses
    assert some.ptr == array.ptr + 1 and some.tobytes() == b"bc"
    array.resize(2)
    for use in (some.tobytes, some.copy_to_host, lambda: some.ptr,
                lambda: some.__cuda_array_interface__, some.__dlpack__):
        with pytest.raises(hipvmm.OutOfRangeError, match="rows 1 to 3 of an array that has 2 now"):
            use()
    array.close()
    with pytest.raises(hipvmm.InvalidHandleError):
        some.tobytes()


@pytest.mark.parametrize("index", [0, -1, (0, 1), [0, 1], None, "a", slice(0, 4, 2),
                                   slice(None, None, -1)])
def test_what_is_no_slice_of_rows_says_what_to_do(index):
    array = hipvmm.GrowableArray("uint8", max="64MiB")
    array.append(b"abcdef")
    for rows in (array, array[1:5]):
        with pytest.raises(TypeError, match="cupy.asarray"):
            rows[index]
    with pytest.raises(TypeError):
        array[0:2] = b"xy"
    with pytest.raises(TypeError, match="copy_to_host"):
        np.asarray(array[1:5])


@needs_host_access
def test_dlpack_of_a_slice():
    array = hipvmm.GrowableArray("int32", max="64MiB")
    array.append([1, 2, 3, 4])
    view = np.from_dlpack(array[1:3])
    del array
    gc.collect()
    assert view.tolist() == [2, 3]


@needs_host_access
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16",
                                   "float32", "float64", "complex64"])
def test_dlpack(dtype):
    array = hipvmm.GrowableArray(dtype, (2,), max="64MiB")
    array.append(np.array([[1, 0], [1, 1]], dtype=dtype))
    if hipvmm.provider() == "host":
        assert array.__dlpack_device__() == (1, 0)
    if dtype == "bool" and tuple(map(int, np.__version__.split(".")[:2])) < (1, 25):
        pytest.skip("this numpy takes no booleans from DLPack")
    view = np.from_dlpack(array)
    assert view.dtype == np.dtype(dtype)
    assert view.tolist() == np.array([[1, 0], [1, 1]], dtype=dtype).tolist()
    del array
    gc.collect()
    assert view.shape == (2, 2)


@needs_host_access
def test_a_capsule_that_nobody_takes_frees_its_array():
    from hipvmm._library import get_size, lib

    gc.collect()
    before = get_size(lib().live_handles), exported()
    array = hipvmm.GrowableArray(max="64MiB")
    array.append(b"abc")
    capsule = array.__dlpack__()
    del array
    gc.collect()
    assert get_size(lib().live_handles) == before[0] + 1
    del capsule
    assert (get_size(lib().live_handles), exported()) == before


@needs_host_access
def test_requests_of_dlpack_that_cannot_be_met():
    array = hipvmm.GrowableArray(max="64MiB")
    array.append(b"abc")
    with pytest.raises(hipvmm.UnsupportedError):
        array.__dlpack__(copy=True)
    with pytest.raises(hipvmm.UnsupportedError):
        array.__dlpack__(dl_device=(2, 5))
    assert array.__dlpack__(stream=-1, max_version=(1, 0)) is not None


def test_where_host_code_may_not_go(run_python):
    text = run_python("""
import hipvmm
if hipvmm.provider() != "host":
    print("not the host provider")
else:
    array = hipvmm.GrowableArray()
    array.append(b"abc")
    assert array.tobytes() == b"abc"
    for call in (array.numpy_view, array.__dlpack__):
        try:
            call()
        except NotImplementedError as why:
            print(why)
""", HIPVMM_HOST_PROFILE="cuda-13")
    assert "not the host provider" in text or (
        "host code may not use memory of device 0" in text and "it is no GPU" in text)


def test_in_memory_of_a_resource():
    pool = hipvmm.Pool(maximum="64MiB")
    array = hipvmm.GrowableArray("int32", mr=pool)
    array.append([1, 2, 3])
    pool.close()
    array.resize(10_000)
    assert array.copy_to_host()[:3].tolist() == [1, 2, 3]
    pinned = hipvmm.GrowableArray("int32", mr=hipvmm.mr.PinnedHostMemoryResource())
    pinned.append([4, 5])
    assert pinned.numpy_view().tolist() == [4, 5]
    assert np.from_dlpack(pinned).tolist() == [4, 5]


@needs_chunks
def test_rights():
    if hipvmm.device_count() < 2 or not hipvmm.can_access_peer(1, 0):
        pytest.skip("there are no two devices that reach each other")
    array = hipvmm.GrowableArray(max="64MiB", access="1:read_write")
    assert array.access(1) == "read_write"
    array.set_access({})
    assert array.access(1) == "none"
    array.grant(1)
    assert array.access(1) == "read_write"
    other = hipvmm.GrowableArray(device=1, max="64MiB")
    assert other.device == 1
    other.append(b"abc")
    assert other.tobytes() == b"abc"


def test_out_of_memory_leaves_the_array():
    array = hipvmm.GrowableArray("float64", max="1TiB")
    array.append([1.0])
    with pytest.raises(MemoryError):
        array.resize(1 << 34)
    assert array.copy_to_host().tolist() == [1.0]


def test_threads_append_whole_rows():
    array = hipvmm.GrowableArray("int64", (4,), max="64MiB")

    def work(number):
        for _ in range(50):
            array.append([number] * 4)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    rows = array.copy_to_host()
    assert rows.shape == (200, 4)
    assert all(len(set(row)) == 1 for row in rows.tolist())


def test_without_numpy(run_python):
    text = run_python("""
import os, sys, tempfile
sys.modules["numpy"] = None
import hipvmm
array = hipvmm.GrowableArray("float32", max="64MiB")
array.append([1, 2.5])
assert array.dtype == "<f4"
print(list(array.copy_to_host()), array.shape)
pairs = hipvmm.GrowableArray("<i8", (2,))
pairs.append(range(4))
print(list(pairs.copy_to_host()), pairs.shape)
pairs.append([[4, 5], (6, 7)])
print(list(pairs.copy_to_host()), pairs.shape)
for wrong in ([[1, 2, 3], [4, 5, 6]], [[1, 2], [3]], [[1, 2], 3]):
    try:
        pairs.append(wrong)
    except ValueError as why:
        print(why)
print(pairs.shape)
if "path: fallback" not in hipvmm.capability(0):
    shared = hipvmm.GrowableArray("<i8", (2,), shareable="posix_fd", max="64MiB")
    shared.append([[8, 9]])
    folder = tempfile.mkdtemp()
    with shared.publish(folder + "/p") as published:
        published.announce()
        with hipvmm.attach(folder + "/p", "<i8", (2,)) as seen:
            assert seen.wait(1, 10)
            assert list(seen.copy_to_host()) == [8, 9]
    os.rmdir(folder)
buffer = hipvmm.DeviceBuffer.to_device(b"abc")
print(buffer.copy_to_host())
for wrong in (lambda: hipvmm.GrowableArray("nonsense"), lambda: array.append(["a"]),
              array.numpy_view):
    try:
        wrong()
    except (ValueError, NotImplementedError) as why:
        print(why)
""")
    assert "[1.0, 2.5] (2,)" in text
    assert "[0, 1, 2, 3] (2, 2)" in text
    assert "[0, 1, 2, 3, 4, 5, 6, 7] (4, 2)" in text
    assert "the shape (2, 3) is of no rows of the shape (2,)" in text
    assert text.count("a list of lists of different lengths") == 2
    assert "\n(4, 2)\n" in text
    assert "bytearray(b'abc')" in text
    assert "allowed without numpy: bool" in text
    assert "'a' is no float32: " in text
    assert "numpy is not installed" in text


_LISTS = """
import sys
if sys.argv[1] == "without":
    sys.modules["numpy"] = None
import warnings
warnings.simplefilter("ignore")
from math import inf, nan
import hipvmm
values = [0, 1, 2, -1, True, 0.5, 1.0, nan, inf, -inf, 1e39, None, 1j, "a", "1.5", b"2", object(),
          *(sign * 2**bits + more for bits in (7, 8, 15, 16, 31, 32, 63, 64, 200)
            for sign in (1, -1) for more in (-1, 0, 1)), 10**400]
for dtype in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
              "float32", "float64"):
    for value in values:
        for given in ([value], (0, value), value):
            if given is value and isinstance(value, (type(None), str, bytes, object)) and (
                    not isinstance(value, (int, float, complex))):
                continue
            array = hipvmm.GrowableArray(dtype, max="2MiB")
            try:
                array.append(given)
                found = array.tobytes().hex()
            except Exception as failure:
                found = type(failure).__name__
            print(dtype, type(value).__name__, str(value)[:30].split(" at ")[0], found)
            array.close()
"""


def test_lists_are_what_numpy_makes_of_them(run_python):
    without = run_python(_LISTS, arguments=["without"]).splitlines()
    assert without == run_python(_LISTS, arguments=["with"]).splitlines()
    assert "bool int 2 01" in without


def test_what_owns_a_handle_is_copied_by_its_contents():
    for made in (hipvmm.Pool(), hipvmm.Stream(), hipvmm.GrowableArray("float32", [1, 2])):
        for fails in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"copy_to_host\(\)"):
                fails(made)
        assert not copy.copy(made).closed
