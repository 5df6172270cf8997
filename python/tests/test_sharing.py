# SPDX-License-Identifier: MIT
import subprocess
import sys

import pytest

import hipvmm
from conftest import needs_chunks

np = pytest.importorskip("numpy")

pytestmark = needs_chunks


def shareable(*args, **kwargs):
    return hipvmm.GrowableArray(*args, max="64MiB", past_max="refuse", shareable="posix_fd",
                                **kwargs)


def test_another_process_reads_and_follows(tmp_path):
    path = str(tmp_path / "numbers")
    array = shareable("int32")
    with array.publish(path, max_importers=4) as published:
        child = subprocess.Popen([sys.executable, "-c", f"""
import hipvmm
seen = hipvmm.attach({path!r}, "int32")
for rows in (3, 100_003):
    assert seen.wait(rows, 10)
    assert seen.copy_to_host()[-3:].tolist() == list(range(rows - 3, rows))
    print(len(seen), flush=True)
"""], stdout=subprocess.PIPE, text=True)
        array.append(range(3))
        published.announce()
        assert child.stdout.readline() == "3\n"
        assert published.importers == 1
        array.append(range(3, 100_003))
        published.announce()
        assert child.stdout.readline() == "100003\n"
        assert child.wait(10) == 0


def test_an_attachment_in_this_process(tmp_path):
    path = str(tmp_path / "rows")
    array = shareable("float64", (2,))
    published = array.publish(path)
    seen = hipvmm.attach(path, "float64", (2,))
    assert len(seen) == 0
    array.append([[1, 2], [3, 4]])
    published.announce()
    assert seen.wait(2, 5)
    assert seen.refresh() == 2
    assert seen.shape == (2, 2)
    assert seen.device == 0
    assert seen.is_open
    assert seen.copy_to_host().tolist() == [[1, 2], [3, 4]]
    assert seen.__cuda_array_interface__["data"] == (seen.ptr, True)
    assert not seen.wait(3, 0.01)
    if hipvmm.is_host_accessible(0):
        view = seen.numpy_view()
        assert view.tolist() == [[1, 2], [3, 4]]
        with pytest.raises(ValueError):
            view[0] = 0
    published.close()
    array.close()
    assert seen.copy_to_host().tolist() == [[1, 2], [3, 4]]
    seen.close()


def test_kept_memory_outlives_its_process(tmp_path, run_python):
    path, kept_at = str(tmp_path / "numbers"), str(tmp_path / "kept")
    writer = subprocess.Popen([sys.executable, "-c", f"""
import hipvmm
array = hipvmm.GrowableArray("int32", max="64MiB", past_max="refuse", shareable="posix_fd")
published = array.publish({path!r})
array.append(range(1000))
published.announce()
hipvmm.synchronize()
print("ready", flush=True)
input()
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "ready\n"
    with hipvmm.keep(path, kept_at, max_importers=2) as kept:
        writer.kill()
        writer.communicate()
        seen = hipvmm.attach(kept_at, "int32")
        assert seen.copy_to_host().tolist() == list(range(1000))
        assert kept.importers == 1
        assert kept.path == kept_at
        run_python(f"import hipvmm; assert len(hipvmm.attach({kept_at!r}, 'int32')) == 1000")
    assert not seen.wait(1001, 5)
    assert seen.copy_to_host().tolist() == list(range(1000))
    with pytest.raises(ConnectionError, match="kept"):
        hipvmm.attach(kept_at)
    with pytest.raises(ConnectionError, match="numbers"):
        hipvmm.keep(path, kept_at)
    with pytest.raises(ValueError, match="there is no 'right'"):
        hipvmm.keep(path, kept_at, right="read")


def test_errors(tmp_path):
    path = str(tmp_path / "none")
    with pytest.raises(ConnectionError, match=path):
        hipvmm.attach(path)
    plain = hipvmm.GrowableArray(max="64MiB")
    plain.append(b"abc")
    published = plain.publish(path)
    with pytest.raises(ValueError, match="shareable|shared"):
        published.announce()
    with pytest.raises(hipvmm.IpcError):
        shareable().publish(path)
    with pytest.raises(ValueError, match="there is no 'patients'"):
        shareable().publish(str(tmp_path / "other"), patients=5)
