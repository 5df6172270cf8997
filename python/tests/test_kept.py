# SPDX-License-Identifier: MIT
"""hipvmm.torch.keep and attach with PyTorch on the CPU, which stands for the one of a GPU."""

import itertools
import os
import signal
import socket
import time

import pytest

import hipvmm
from conftest import needs_chunks, needs_host_access

torch = pytest.importorskip("torch")

pytestmark = [needs_chunks, needs_host_access]

WRITER = """
import os, sys, signal, torch, hipvmm.torch
keeper = hipvmm.torch.keep(sys.argv[1], {
    "weight": torch.arange(12, dtype=torch.float32).view(3, 4),
    "bias": torch.ones(300_000, dtype=torch.bfloat16),
    "scale": torch.tensor(7), "none": torch.empty(0, 5)})
print(keeper, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

READER = """
import sys, torch, hipvmm.torch
seen = hipvmm.torch.attach(sys.argv[1])
assert seen["weight"].tolist() == torch.arange(12.0).view(3, 4).tolist()
"""


@pytest.fixture
def kept(tmp_path, monkeypatch, run_python):
    """The name of tensors of a process that was killed, and the process that keeps them."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    process = int(run_python(WRITER, status=-signal.SIGKILL, arguments=["weights"]))
    yield "weights", process
    try:
        hipvmm.torch.forget("weights")
    except hipvmm.IpcError:
        pass


def ends(process):
    """Whether a process that is not this one's child ends within some seconds."""
    for _ in range(1000):
        try:
            with open(f"/proc/{process}/stat") as about:
                is_zombie = about.read().rsplit(")", 1)[1].split()[0] == "Z"
            # Its other threads have its descriptors, and may end later.
            if is_zombie and len(os.listdir(f"/proc/{process}/task")) == 1:
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def test_tensors_outlive_their_process(kept, run_python):
    import hipvmm.torch

    name, process = kept
    seen = hipvmm.torch.attach(name)
    assert list(seen) == ["weight", "bias", "scale", "none"]
    assert torch.equal(seen["weight"], torch.arange(12.0).view(3, 4))
    assert seen["bias"].dtype == torch.bfloat16
    assert seen["bias"].sum(dtype=torch.float64) == 300_000
    assert seen["scale"].shape == () and int(seen["scale"]) == 7
    assert seen["none"].shape == (0, 5)
    writer = hipvmm.torch.attach(name, read_only=False)
    writer["weight"].mul_(1)
    run_python(READER, arguments=[name])
    del writer
    hipvmm.torch.forget(name)
    assert ends(process)
    assert torch.equal(seen["weight"], torch.arange(12.0).view(3, 4))
    with pytest.raises(hipvmm.IpcError, match="weights"):
        hipvmm.torch.attach(name)
    with pytest.raises(hipvmm.IpcError, match="nothing is kept"):
        hipvmm.torch.forget(name)


def test_a_killed_keeper(kept):
    import hipvmm.torch

    name, process = kept
    seen = hipvmm.torch.attach(name)
    os.kill(process, signal.SIGKILL)
    assert ends(process)
    assert torch.equal(seen["weight"], torch.arange(12.0).view(3, 4))
    with pytest.raises(hipvmm.IpcError, match="no process publishes"):
        hipvmm.torch.attach(name)
    assert hipvmm.torch.keep(name, {"again": torch.zeros(3)}) > 0
    assert list(hipvmm.torch.attach(name)) == ["again"]


def test_a_stopped_keeper(kept, monkeypatch):
    import hipvmm.kept
    import hipvmm.torch

    name, process = kept
    monkeypatch.setattr(hipvmm.kept, "_PATIENCE", 1)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(hipvmm.IpcError, match=f"process {process}.* within 1 s.*SIGCONT"):
            hipvmm.torch.forget(name)
    finally:
        os.kill(process, signal.SIGCONT)
    assert ends(process)


def test_a_keeper_that_accepts_nothing(tmp_path, monkeypatch):
    import hipvmm.kept
    import hipvmm.torch

    monkeypatch.setattr(hipvmm.kept, "_PATIENCE", 1)
    path = str(tmp_path / "kept")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stopped:
        stopped.bind(path)
        stopped.listen(0)
        with hipvmm.kept._connect(path):
            with pytest.raises(hipvmm.IpcError, match="accepts no connection within 1 s"):
                hipvmm.torch.forget(path)


def test_a_name_is_taken_once(kept):
    import hipvmm.torch

    name, _ = kept
    with pytest.raises(hipvmm.IpcError, match="published already"):
        hipvmm.torch.keep(name, {"other": torch.zeros(3)})
    assert "weight" in hipvmm.torch.attach(name)


def test_a_hangup_after_nohup(tmp_path):
    import hipvmm.torch

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = hipvmm.torch.keep(str(tmp_path / "kept"), {"weight": torch.zeros(3)})
    finally:
        signal.signal(signal.SIGHUP, before)
    os.kill(process, signal.SIGHUP)
    time.sleep(0.1)
    assert list(hipvmm.torch.attach(str(tmp_path / "kept"))) == ["weight"]
    hipvmm.torch.forget(str(tmp_path / "kept"))
    assert ends(process)


def test_a_relative_path(tmp_path, monkeypatch):
    import hipvmm.torch

    monkeypatch.chdir(tmp_path)
    assert hipvmm.torch.keep("./kept", {"weight": torch.zeros(3)}) > 0
    monkeypatch.chdir("/")
    assert list(hipvmm.torch.attach(str(tmp_path / "kept"))) == ["weight"]
    hipvmm.torch.forget(str(tmp_path / "kept"))


def test_a_program_that_publishes_itself_is_not_ended(tmp_path, monkeypatch):
    import hipvmm.torch

    signals = []
    monkeypatch.setattr(os, "kill", lambda *each: signals.append(each))
    path = str(tmp_path / "own")
    array = hipvmm.GrowableArray(max="64MiB", past_max="refuse", shareable="posix_fd")
    with array.publish(path), pytest.raises(hipvmm.IpcError, match="is no keeper"):
        hipvmm.torch.forget(path)
    assert signals == []


def test_wrong_names_and_memory(tmp_path, monkeypatch):
    import hipvmm.torch

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for wrong in ("", ".", ".hidden"):
        with pytest.raises(ValueError, match="no name"):
            hipvmm.torch.keep(wrong, {})
    with pytest.raises(hipvmm.IpcError, match="nothing is kept"):
        hipvmm.torch.attach("weights")
    with pytest.raises(hipvmm.UnsupportedError, match="no dense tensor"):
        hipvmm.torch.keep("weights", {"epoch": 3})
    os.chmod(tmp_path / f"hipvmm-kept-{os.geteuid()}", 0o755)
    with pytest.raises(hipvmm.IpcError, match="this user alone"):
        hipvmm.torch.attach("weights")
    path = str(tmp_path / "bytes")
    array = hipvmm.GrowableArray(max="64MiB", past_max="refuse", shareable="posix_fd")
    with array.publish(path) as published:
        for content, why in ((b"", "has no tensors"), (b"x" * 100, "has no tensors"),
                             (b"hipvmmT1" + b"\xff" * 8, "index")):
            array.clear()
            array.append(content)
            published.announce()
            hipvmm.synchronize()
            with pytest.raises(hipvmm.IpcError, match=why):
                hipvmm.torch.attach(path)


def test_a_relative_library(tmp_path, run_python):
    folder, name = os.path.split(os.path.realpath(hipvmm._library.lib().path))
    run_python("""
import os, sys
os.chdir(sys.argv[1])
import torch, hipvmm.torch
hipvmm.device_count()
os.chdir("/")
hipvmm.torch.keep(sys.argv[2], {"weight": torch.zeros(3)})
assert list(hipvmm.torch.attach(sys.argv[2])) == ["weight"]
hipvmm.torch.forget(sys.argv[2])
""", arguments=[folder, str(tmp_path / "kept")], HIPVMM_LIBRARY=f"./{name}")


@pytest.mark.skipif(hipvmm.device_count() < 2, reason="there is one device")
def test_tensors_of_another_device(tmp_path, monkeypatch):
    import hipvmm.torch

    monkeypatch.setattr(hipvmm.kept, "ordinal_in_torch", lambda _: 1)
    path = str(tmp_path / "kept")
    hipvmm.torch.keep(path, {"weight": torch.arange(9)}, device="cuda:1")
    try:
        for device in (None, "cuda:1"):
            assert torch.equal(hipvmm.torch.attach(path, device=device)["weight"], torch.arange(9))
    finally:
        hipvmm.torch.forget(path)


@pytest.mark.parametrize("index", [
    b"no JSON", b"7", b"[7]", b'[["a", "nonsense", [3], 0]]', b'[["a", "nn", [3], 0]]',
    b'[["a", "uint8", [3], 99999]]', b'[["a", "uint8", [3], -256]]', b'[["a", "uint8", [-3], 0]]',
    b'[["a", "uint8", [3], 1e30]]', b'[["a", "uint8", ["x"], 0]]', b"\xff", b"[" * 100_000],
    ids=map(str, itertools.count()))
def test_an_index_of_others_is_refused(tmp_path, index):
    import hipvmm.torch

    array = hipvmm.GrowableArray(max="64MiB", past_max="refuse", shareable="posix_fd")
    with array.publish(str(tmp_path / "index")) as published:
        array.append(b"hipvmmT1" + len(index).to_bytes(8, "little") + index + bytes(600))
        published.announce()
        hipvmm.synchronize()
        with pytest.raises(hipvmm.IpcError, match="the index of .* is not that of keep"):
            hipvmm.torch.attach(str(tmp_path / "index"))


def test_compressed_tensors_are_refused(tmp_path):
    import hipvmm.torch

    with pytest.raises(hipvmm.UnsupportedError, match="weight is no dense tensor"):
        hipvmm.torch.keep(str(tmp_path / "kept"), {"weight": torch.eye(3).to_sparse_csr()})
