# SPDX-License-Identifier: MIT
"""python -m hipvmm.snapshot, on snapshots in the form of torch.cuda.memory._dump_snapshot()."""

import os
import pickle
import signal
import subprocess
import sys

import pytest

from hipvmm import snapshot

BASE = 0x7F0000000000


def event(action, addr, size, time=None, stream=0):
    found = {"action": action, "addr": addr, "size": size, "stream": stream, "frames": []}
    return found if time is None else {**found, "time_us": time}


def made(*traces, segments=()):
    return {"segments": list(segments), "device_traces": [list(each) for each in traces]}


ONE = made([event("alloc", BASE, 8, 5, stream=3)])
TEXT = "Time,Action,Pointer,Size,Stream\n0,allocate,0x7f0000000000,8,0x3\n"


def run(tmp_path, data, *arguments):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(data if isinstance(data, bytes) else pickle.dumps(data))
    return snapshot.main([str(path), *arguments])


def test_requests_become_rows():
    rows = snapshot.trace_rows(made([
        event("segment_alloc", BASE, 2 << 20, 1000),
        event("alloc", BASE, 1000, 1010),
        event("alloc", BASE + 1024, 5000, 1020, stream=0x30),
        event("free_requested", BASE, 1000, 1030),
        event("free_completed", BASE, 1000, 1031),
        event("oom", 1 << 30, 1 << 40, 1040),
        event("alloc", BASE, 512, 1050),
    ]))
    assert rows == [
        (10, "allocate", BASE, 1000, 0),
        (20, "allocate", BASE + 1024, 5000, 0x30),
        (30, "free", BASE, 1000, 0),
        (40, "allocate failure", 0, 1 << 40, 0),
        (50, "allocate", BASE, 512, 0),
    ]


@pytest.mark.parametrize("has_addresses", [True, False])
def test_blocks_older_than_the_history_are_allocated_first(has_addresses):
    blocks = [{"size": 1024, "requested_size": 700, "state": "active_allocated"},
              {"size": 4096, "requested_size": 4096, "state": "inactive"},
              {"size": 2048, "requested_size": 2000, "state": "active_allocated"},
              {"size": 512, "requested_size": 300, "state": "active_pending_free"}]
    if has_addresses:
        for each, offset in zip(blocks, (0, 1024, 5120, 7168)):
            each["address"] = BASE + offset
    segments = [{"address": BASE, "device": 0, "stream": 7, "blocks": blocks},
                {"address": 2 * BASE, "device": 1, "stream": 0,
                 "blocks": [{"size": 512, "state": "active_allocated"}]}]
    rows = snapshot.trace_rows(made([
        event("free_requested", BASE + 8192, 256, 50, stream=9),
        event("alloc", BASE + 5120, 2000, 60),
        event("alloc", BASE + 8192, 100, 70),
    ], segments=segments))
    assert rows == [
        (0, "allocate", BASE + 8192, 256, 9),
        (0, "allocate", BASE, 700, 7),
        (0, "free", BASE + 8192, 256, 9),
        (10, "allocate", BASE + 5120, 2000, 0),
        (20, "allocate", BASE + 8192, 100, 0),
    ]


def test_events_without_times_are_in_order():
    rows = snapshot.trace_rows(made([event("alloc", BASE, 8), event("free_requested", BASE, 8)]))
    assert [row[0] for row in rows] == [0, 1]


def test_a_device_is_chosen():
    both = made([event("alloc", BASE, 8, 1)], [], [event("alloc", BASE, 16, 1)])
    with pytest.raises(ValueError, match=r"devices \[0, 2\]: choose one"):
        snapshot.trace_rows(both)
    assert snapshot.trace_rows(both, 2)[0][3] == 16
    with pytest.raises(ValueError, match="no history of device 1"):
        snapshot.trace_rows(both, 1)
    assert snapshot.trace_rows(made([], [event("alloc", BASE, 4, 1)]))[0][3] == 4


@pytest.mark.parametrize("events, message", [
    ([], "_record_memory_history"),
    ([event("alloc", BASE, 8, 1), event("alloc", BASE, 8, 2)], "event 1 allocates 0x7f0000000000"),
    ([event("alloc", BASE, 8, 1), event("free_requested", BASE, 8, 2),
      event("free_requested", BASE, 8, 3)], "event 2 frees 0x7f0000000000 once more"),
])
def test_a_contradiction_is_refused(events, message):
    with pytest.raises(ValueError, match=message):
        snapshot.trace_rows(made(events))


def test_no_code_of_the_file_runs(tmp_path, capsys):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    assert run(tmp_path, pickle.dumps({"device_traces": [[Evil()]]})) == 1
    assert "mkdir" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("data", [
    b"", b"not a pickle", pickle.dumps([1, 2]), pickle.dumps({"segments": []}),
    pickle.dumps(made([event("alloc", BASE, 8, 1)]))[:-20],
    pickle.dumps({"device_traces": [[{"action": "alloc"}]]}), pickle.dumps({"device_traces": [[3]]}),
    pickle.dumps({"device_traces": [7]})])
def test_a_file_that_is_no_snapshot_is_refused(tmp_path, capsys, data):
    output = tmp_path / "trace.csv"
    output.write_text("earlier")
    assert run(tmp_path, data, "--output", str(output)) == 1
    assert capsys.readouterr().err.startswith("hipvmm.snapshot: ")
    assert output.read_text() == "earlier"
    assert sorted(os.listdir(tmp_path)) == ["snapshot.pickle", "trace.csv"]


def test_a_trace_is_written(tmp_path, capsys):
    data = made([event("alloc", BASE, 8, 5, stream=3), event("free_requested", BASE, 8, 6, stream=3)])
    text = "Time,Action,Pointer,Size,Stream\n0,allocate,0x7f0000000000,8,0x3\n1,free,0x7f0000000000,8,0x3\n"
    assert run(tmp_path, data) == 0
    assert capsys.readouterr().out == text
    output = tmp_path / "trace.csv"
    assert run(tmp_path, data, "--output", str(output)) == 0
    assert output.read_text() == text
    assert run(tmp_path, data, "--output", str(tmp_path / "absent" / "trace.csv")) == 1


def test_the_output_is_never_the_snapshot(tmp_path, capsys):
    path = tmp_path / "snapshot.pickle"
    os.symlink(path, tmp_path / "link")
    for output in (path, tmp_path / "link"):
        assert run(tmp_path, ONE, "--output", str(output)) == 1
        assert "--output is the snapshot itself" in capsys.readouterr().err
    assert path.read_bytes() == pickle.dumps(ONE)


def test_links_pipes_and_files_of_others_stay(tmp_path, capsys):
    os.symlink(tmp_path / "target", tmp_path / "link")
    for _ in range(2):
        assert run(tmp_path, ONE, "--output", str(tmp_path / "link")) == 0
        assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == TEXT
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run(tmp_path, ONE, "--output", str(tmp_path / "pipe")) == 0
    assert os.read(reader, 1000) == TEXT.encode() and (tmp_path / "pipe").is_fifo()
    os.close(reader)
    other = tmp_path / f"trace.csv.{os.getpid()}"
    other.write_text("of another")
    assert run(tmp_path, ONE, "--output", str(tmp_path / "trace.csv")) == 1
    assert other.read_text() == "of another" and str(other) in capsys.readouterr().err


@pytest.mark.parametrize("output", [[], ["--output", "stdout"]])
def test_standard_output_may_be_full_or_closed(tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    os.symlink("/proc/self/fd/1", "stdout")  # as /dev/stdout, which no test should endanger
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(ONE))
    for module, arguments in (("hipvmm.snapshot", [str(path), *output]), ("hipvmm.info", [])):
        command = [sys.executable, "-m", module, *arguments]
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1
        assert done.stderr.startswith(f"{module}: [Errno 28]"), done.stderr
        assert "standard output" in done.stderr and done.stderr.count("\n") == 1
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1
        assert done.stderr.startswith(f"{module}: [Errno ") and done.stderr.count("\n") == 1


def test_texts_of_a_file_change_no_terminal(tmp_path, capsys):
    assert run(tmp_path, b"c\x1b]0;owned\x07\nx\n.") == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said and "\x07" not in said and "owned" in said


def test_what_is_no_number_becomes_no_row(tmp_path, capsys):
    assert run(tmp_path, made([event("alloc", BASE, "1\n0,allocate,0x9000,77,0x0")])) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("values", [(-5, 8), (BASE, -5), (1 << 64, 8)])
def test_numbers_that_no_trace_has_are_refused(tmp_path, capsys, values):
    block = {"address": values[0], "size": values[1], "state": "active_allocated"}
    segment = {"address": BASE, "blocks": [block]}
    for content in (made([event("alloc", *values)]),
                    made([event("alloc", BASE + 8, 8)], segments=[segment])):
        assert run(tmp_path, content) == 1
        said = capsys.readouterr()
        assert said.out == "" and "must have 64 bits and no sign" in said.err


def test_a_pickle_that_needs_too_much_memory_is_named(tmp_path, capsys):
    assert run(tmp_path, b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b".") == 1
    assert "no pickle: MemoryError" in capsys.readouterr().err


def test_no_time_is_before_the_first(tmp_path):
    assert [each[0] for each in snapshot.trace_rows(
        made([event("alloc", BASE, 8, 5), event("alloc", BASE + 8, 8, 2)]))] == [0, 0]
