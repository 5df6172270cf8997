# SPDX-License-Identifier: MIT
import ctypes
import os
import re
from pathlib import Path

import pytest

import hipvmm
from hipvmm import _library


def header():
    """hipvmm.h of the repository, or the one that HIPVMM_HEADER names, and those beside it."""
    named = os.environ.get("HIPVMM_HEADER")
    path = Path(named) if named else Path(__file__).parents[2] / "include/hipvmm/hipvmm.h"
    if not path.exists():
        pytest.skip("the header is not here: set HIPVMM_HEADER")
    names = ("hipvmm.h", "python.h", "serving.h")
    text = "".join(path.with_name(name).read_text() for name in names)
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def ctype_of(parameter):
    """What ctypes calls the type of a parameter of C."""
    handles = (r"hipvmm_(buffer|resource|stream|event|publication|attachment|slot_arena|budget"
               r"|pressure|evictable|checkpoint)")
    kinds = [
        (rf"{handles}\* \w+", ctypes.POINTER(ctypes.c_void_p)),
        (rf"{handles} \w+", ctypes.c_void_p),
        (r"void\*( const)?\* \w+", ctypes.POINTER(ctypes.c_void_p)),
        (r"(const )?void\* \w+", ctypes.c_void_p),
        (r"const char\*\* \w+", ctypes.POINTER(ctypes.c_char_p)),
        (r"(const )?char\* \w+", ctypes.c_char_p),
        (r"(const )?size_t\* \w+", ctypes.POINTER(ctypes.c_size_t)),
        (r"size_t \w+", ctypes.c_size_t),
        (r"uint64_t\* \w+", ctypes.POINTER(ctypes.c_uint64)),
        (r"(int|hipvmm_right)\* \w+", ctypes.POINTER(ctypes.c_int)),
        (r"(int|hipvmm_right|hipvmm_tail|hipvmm_keep) \w+", ctypes.c_int),
        (r"unsigned \w+", ctypes.c_uint),
        (r"const hipvmm_access\* \w+", ctypes.POINTER(_library.Access)),
        (r"const hipvmm_suspend_range\* \w+", ctypes.POINTER(_library.SuspendRange)),
        (r"hipvmm_buffer_statistics\* \w+", ctypes.POINTER(_library.BufferStatistics)),
        (r"hipvmm_pool_statistics\* \w+", ctypes.POINTER(_library.PoolStatistics)),
        (r"hipvmm_counters\* \w+", ctypes.POINTER(_library.Counters)),
        (r"hipvmm_slot_arena_layout\* \w+", ctypes.POINTER(_library.SlotLayout)),
        (r"hipvmm_slot_arena_statistics\* \w+", ctypes.POINTER(_library.SlotStatistics)),
        (r"hipvmm_evictable_statistics\* \w+", ctypes.POINTER(_library.EvictableStatistics)),
        (r"hipvmm_tag_statistics\* \w+", ctypes.POINTER(_library.TagStatistics)),
        (r"hipvmm_failure_callback \w+", _library.FailureCallback),
        (r"hipvmm_budget_statistics\* \w+", ctypes.POINTER(_library.BudgetStatistics)),
        (r"hipvmm_budget_holder\* \w+", ctypes.POINTER(_library.BudgetHolder)),
        (r"hipvmm_idle_statistics\* \w+", ctypes.POINTER(_library.IdleStatistics)),
        (r"hipvmm_pressure_note\* \w+", ctypes.POINTER(_library.PressureNote)),
        (r"hipvmm_memory_change\* \w+", ctypes.POINTER(_library.MemoryChange)),
        (r"hipvmm_pressure_callback \w+", _library.PressureCallback),
        (r"hipvmm_fill_callback \w+", _library.FillCallback),
        (r"hipvmm_trim_callback \w+", _library.TrimCallback),
        (r"hipvmm_evict_callback \w+", _library.EvictCallback),
        (r"hipvmm_allocate_callback \w+", _library.AllocateCallback),
        (r"hipvmm_deallocate_callback \w+", _library.DeallocateCallback),
    ]
    for pattern, kind in kinds:
        if re.fullmatch(pattern, parameter):
            return kind
    raise AssertionError(parameter)


def test_functions_are_declared_as_in_the_header():
    declared = dict(re.findall(r"\nhipvmm_status hipvmm_(\w+)\(([^;]*)\);", header()))
    for name, signature in _library.FUNCTIONS.items():
        parameters = [" ".join(each.split()) for each in declared[name].split(",")]
        if parameters == ["void"]:
            parameters = []
        assert _library.parameter_types(signature) == [ctype_of(each) for each in parameters], name


def test_every_function_that_the_package_needs_is_in_the_library():
    for name in _library.FUNCTIONS:
        assert callable(getattr(_library.lib(), name))
    with pytest.raises(AttributeError):
        _library.lib().no_such_function


def test_structs_have_the_sizes_of_the_header():
    # All members but the handles' are of 8 bytes or pairs of 4.
    assert ctypes.sizeof(_library.Failure) == 8 + 4 * 4 + 2 * 8
    assert ctypes.sizeof(_library.BufferStatistics) == 9 * 8
    assert ctypes.sizeof(_library.PoolStatistics) == 13 * 8
    assert ctypes.sizeof(_library.Counters) == 7 * 8
    assert ctypes.sizeof(_library.SlotLayout) == 9 * 8
    assert ctypes.sizeof(_library.SlotStatistics) == 16 * 8
    assert ctypes.sizeof(_library.TagStatistics) == 7 * 8
    assert ctypes.sizeof(_library.BudgetStatistics) == 5 * 8
    assert ctypes.sizeof(_library.BudgetHolder) == 3 * 8 + 32
    assert ctypes.sizeof(_library.IdleStatistics) == 6 * 8
    assert ctypes.sizeof(_library.MemoryChange) == 6 * 8
    assert ctypes.sizeof(_library.PressureNote) == 14 * 8
    assert ctypes.sizeof(_library.Access) == 8


def test_the_version_is_that_of_the_library():
    assert hipvmm.__version__ == _library.lib().version.replace("-dev", ".dev0")


def test_a_text_is_not_cut_at_a_zero():
    def three_bytes(text, room, length):
        length._obj.value = 3
        if text is not None:
            ctypes.memmove(text, b"a\0b", 4)

    assert _library.get_text(three_bytes) == "a\0b"


def test_a_missing_library_is_an_error_that_lists_where_it_was_looked_for(run_python):
    script = """
import hipvmm
try:
    hipvmm.device_count()
except ImportError as failure:
    print(type(failure).__name__, failure)
"""
    text = run_python(script, HIPVMM_LIBRARY="/no/such/libhipvmm.so")
    assert "LibraryNotFoundError" in text
    assert "/no/such/libhipvmm.so (HIPVMM_LIBRARY)" in text
    assert "set HIPVMM_LIBRARY" in text
    text = run_python(script, HIPVMM_LIBRARY="", LD_LIBRARY_PATH="")
    if "LibraryNotFoundError" in text:
        assert "beside the package" in text
        assert "the loader's path" in text


def test_another_library_is_refused(run_python):
    text = run_python("""
import hipvmm
try:
    hipvmm.device_count()
except ImportError as failure:
    print(failure)
""", HIPVMM_LIBRARY="libc.so.6")
    assert "it is no libhipvmm with a C interface" in text


def test_devices():
    assert hipvmm.provider() in ("amd", "cuda", "host")
    assert hipvmm.device_count() >= 1
    assert hipvmm.current_device() == 0
    memory = hipvmm.device_memory()
    assert 0 < memory.free <= memory.total
    assert hipvmm.device_name(0)
    assert hipvmm.can_access_peer(0, 0)
    assert "virtual_memory: " in hipvmm.capability()
    hipvmm.synchronize()
    hipvmm.drain_retired_memory()
    with pytest.raises(ValueError, match="99"):
        hipvmm.device_name(99)


def test_streams():
    with hipvmm.Stream() as stream:
        assert stream.ptr != 0
        assert stream.__cuda_stream__() == (0, stream.ptr)
        stream.synchronize()
    assert stream.closed
    with pytest.raises(hipvmm.InvalidHandleError, match="was closed"):
        stream.ptr
    stream.close()


def test_events_order_streams():
    with hipvmm.Stream() as first, hipvmm.Stream() as second, hipvmm.Event() as between:
        assert between.done  # never recorded
        assert between.ptr != 0
        between.record(first)
        second.wait(between)
        between.wait(second)
        second.wait(first)
        with first.record() as recorded:
            recorded.synchronize()
            assert recorded.done
        with pytest.raises(hipvmm.InvalidHandleError, match="was closed"):
            recorded.record(first)
        for other in (None, first.ptr, "first"):
            with pytest.raises(TypeError, match="no Event and no Stream"):
                second.wait(other)
        first.synchronize()
        between.synchronize()
        assert between.done
    with pytest.raises(ValueError, match="99"):
        hipvmm.Event(99)


def test_streams_of_other_packages():
    from hipvmm.device import stream_value

    class Of:
        def __init__(self, **attributes):
            self.__dict__.update(attributes)

        def synchronize(self):
            pass

    assert stream_value(None) == 0
    assert stream_value(7) == 7
    assert stream_value(Of(ptr=8)) == 8
    assert stream_value(Of(cuda_stream=9)) == 9
    assert stream_value(Of(handle=ctypes.c_void_p(10))) == 10
    assert stream_value(Of(handle=ctypes.c_void_p())) == 0
    assert stream_value(Of(__cuda_stream__=(0, 11))) == 11
    assert stream_value(Of(__cuda_stream__=lambda: (0, 12))) == 12
    Of.__name__ = "Event"
    for wrong in ("text", Of(ptr=8), Of(handle=8), hipvmm.Event(), hipvmm.Pool(),
                  hipvmm.DeviceBuffer(size=8), hipvmm.GrowableArray("float32")):
        with pytest.raises(ValueError, match=f"{type(wrong).__name__} is no stream"):
            stream_value(wrong)


def test_exceptions_are_also_the_built_in_ones():
    assert issubclass(hipvmm.OutOfMemoryError, MemoryError)
    assert issubclass(hipvmm.InvalidArgumentError, ValueError)
    assert issubclass(hipvmm.OutOfRangeError, IndexError)
    assert issubclass(hipvmm.UnsupportedError, NotImplementedError)
    assert issubclass(hipvmm.IpcError, ConnectionError)
    assert issubclass(hipvmm.SystemFailureError, OSError)
    assert issubclass(hipvmm.LibraryNotFoundError, ImportError)
    for each in ("HipError", "OutOfMemoryError", "IpcError"):
        assert issubclass(getattr(hipvmm, each), hipvmm.HipvmmError)


def test_logging_levels():
    before = hipvmm.get_logging_level()
    hipvmm.set_logging_level("error")
    assert hipvmm.get_logging_level() == hipvmm.logging_level.error
    assert hipvmm.should_log("critical")
    assert not hipvmm.should_log("info")
    assert not hipvmm.should_log("off")
    hipvmm.set_logging_level(hipvmm.LoggingLevel.off)
    hipvmm.log("info", "a line that is not written")
    hipvmm.flush_logger()
    hipvmm.set_flush_level("info")
    with pytest.raises(ValueError, match="'loud' is no level; allowed: trace"):
        hipvmm.set_logging_level("loud")
    hipvmm.set_logging_level(before)


def test_info_prints_the_library_and_the_devices(capsys):
    from hipvmm import info

    assert info.main([]) == 0
    text = capsys.readouterr().out
    assert _library.lib().path in text
    assert "device 0: " in text
    assert "path: " in text
    assert "visible_at_once" not in text
    assert info.main(["--traits"]) == 0
    assert "visible_at_once" in capsys.readouterr().out


def test_info_without_a_library_fails_with_a_sentence(run_python):
    text = run_python("import sys; from hipvmm import info; sys.exit(info.main([]))", status=1,
                      HIPVMM_LIBRARY="/no/such/file")
    assert text.startswith("hipvmm.info: libhipvmm.so was not found")
