#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Weights that outlive their process, beside loading the same bytes from a file in the page cache.

    keeper_bench.py [--gb 16,60] [--file FOLDER] [--no-rivals]

Run in the repository's root with HIPVMM_LIBRARY set. CSV to stdout, remarks to stderr. Each row is
of one process; `seconds` is the step, `since_start` counts from the start of that process, imports
and the context of the device with it. `used_bytes` is what the driver counts as used afterwards
beyond what was used in the beginning, contexts of living processes with it: `alive` names these.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.environ.get("HIPVMM_ROOT", os.getcwd())
SOURCE = os.path.join(ROOT, "python", "src")
sys.path.insert(0, SOURCE)
PIECE = 64 << 20  # bytes of a tensor
NAMES = ["gb", "process", "step", "result", "seconds", "since_start", "gb_per_s", "used_bytes",
         "alive", "bytes", "tensors", "device", "torch", "hipvmm"]


# ---- children -----------------------------------------------------------------------------------

def tell(step, seconds=0.0, **more):
    print(json.dumps({"step": step, "seconds": round(seconds, 4),
                      "since_start": round(time.time() - float(sys.argv[3]), 3), **more}), flush=True)


def make(count, device):
    """A state dict whose bytes are a pattern of each tensor, and cost this process nearly nothing."""
    import torch
    base = torch.arange(PIECE // 64 // 4, dtype=torch.int32, device=device)
    return {f"layers.{each}.weight": (base + each).expand(64, -1) for each in range(count)}


def check(seen, count):
    import torch
    expected = make(count, next(iter(seen.values())).device)
    wrong = [name for name, value in expected.items() if not torch.equal(seen[name], value)]
    return f"WRONG: {wrong[:3]} of {len(wrong)}" if wrong else "same bytes"


def device():
    import torch
    return "cuda" if torch.cuda.is_available() else "cpu"


def ready():
    """Imports and the context, which any program has."""
    import torch

    import hipvmm
    import hipvmm.torch
    torch.zeros(1, device=device())
    sync()
    tell("import and context", 0, result="done")
    return hipvmm


def sync():
    import torch
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(call):
    begin = time.perf_counter()
    found = call()
    sync()
    return found, time.perf_counter() - begin


def child(role, count, *rest):
    """role, tensors, time of start, and the name or the file."""
    hipvmm, place = ready(), rest[0]
    if role == "writer":
        weights = make(count, device())
        tell("begins")
        keeper, seconds = timed(lambda: hipvmm.torch.keep(place, weights))
        tell("keep()", seconds, keeper=keeper, result="done")
    elif role == "reader":
        seen, seconds = timed(lambda: hipvmm.torch.attach(place))
        tell("attach()", seconds, result="done")
        total, seconds = timed(lambda: sum(each.sum() for each in seen.values()))
        tell("first read of all", seconds, result="done")
        tell("check", result=check(seen, count))
        sys.stdin.readline()  # the parent kills the keeper meanwhile
        tell("check after the keeper's end", result=check(seen, count))
    elif role == "late":
        try:
            hipvmm.torch.attach(place)
            tell("attach()", result="ATTACHED")
        except hipvmm.IpcError as why:
            tell("attach()", result=f"IpcError: {str(why)[:80]}")
        return
    else:
        load(role, count, place)
    sys.stdin.readline()


def load(role, count, path):
    import torch
    nbytes = os.path.getsize(path)
    if role in ("torch.load", "torch.load mmap"):
        seen, seconds = timed(lambda: torch.load(
            path, map_location=device(), **({"mmap": True} if role.endswith("mmap") else {}),
            **({"weights_only": True} if "weights_only" in torch.load.__code__.co_varnames else {})))
        tell(role, seconds, result=check(seen, count))
        return
    step, pinned = 64 << 20, torch.cuda.is_available()

    def raw():
        """As safetensors reads, with two pinned buffers: the bytes of the file, whatever they mean."""
        target = torch.empty(nbytes, dtype=torch.uint8, device=device())
        buffers = [torch.empty(step, dtype=torch.uint8, pin_memory=pinned) for _ in range(2)]
        events = [torch.cuda.Event() if pinned else None for _ in range(2)]
        with open(path, "rb", buffering=0) as file:
            for index, first in enumerate(range(0, nbytes, step)):
                buffer, some = buffers[index % 2], min(step, nbytes - first)
                if index > 1 and pinned:
                    events[index % 2].synchronize()
                view, got = memoryview(buffer.numpy())[:some], 0
                while got < some:
                    got += file.readinto(view[got:])
                target[first:first + some].copy_(buffer[:some], non_blocking=True)
                if pinned:
                    events[index % 2].record()
        return target

    def fromfile():
        import numpy
        whole = torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8))
        return whole.to(device())

    if role == "read into two pinned buffers":
        _, seconds = timed(raw)
    else:
        _, seconds = timed(fromfile)
    tell(role, seconds, result="done")


# ---- the parent ---------------------------------------------------------------------------------

class Process:
    def __init__(self, role, count, place):
        self.role, self.rows = role, []
        self.run = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--child", str(count), str(time.time()), role, place],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": SOURCE + os.pathsep + os.environ.get("PYTHONPATH", "")})

    def next(self):
        line = self.run.stdout.readline()
        if not line:
            return {"step": "ended", "result": f"status {self.run.wait()}", "seconds": 0}
        return json.loads(line)

    def until(self, step):
        """The rows up to one."""
        found = []
        while True:
            found.append(self.next())
            if found[-1]["step"] in (step, "ended"):
                return found

    def kill(self):
        self.run.kill()
        self.run.wait()

    def end(self):
        try:
            self.run.stdin.close()
        except OSError:
            pass
        self.run.wait()


def used():
    import hipvmm
    memory = hipvmm.device_memory(0)
    return memory.total - memory.free


def settled():
    """Bytes in use once that does not change any more: the driver clears after a process."""
    last = used()
    for _ in range(100):
        time.sleep(0.1)
        now = used()
        if now == last:
            return now
        last = now
    return last


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as about:
            return about.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        return child(sys.argv[4], int(sys.argv[2]), sys.argv[5])
    parser = argparse.ArgumentParser()
    parser.add_argument("--gb", default="16,60")
    parser.add_argument("--file", default="/dev/shm")
    parser.add_argument("--no-rivals", action="store_true")
    options = parser.parse_args()
    import torch

    import hipvmm
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o700)
    os.environ["XDG_RUNTIME_DIR"] = folder
    base = used()
    about = {"device": torch.cuda.get_device_name() if torch.cuda.is_available() else "host",
             "torch": torch.__version__, "hipvmm": hipvmm.__version__}
    out = csv.DictWriter(sys.stdout, NAMES, extrasaction="ignore", restval="", lineterminator="\n")
    out.writeheader()
    started = []
    keepers = []

    def write(gb, count, process, row, alive=None, memory=True):
        row = {"gb": gb, "process": process, "bytes": count * PIECE, "tensors": count, **about, **row}
        if row["seconds"] and row["step"] not in ("check",):
            row["gb_per_s"] = round(count * PIECE / 1e9 / row["seconds"], 2)
        if alive is not None:
            row["alive"] = alive
        if memory:
            row["used_bytes"] = settled() - base
        out.writerow(row)
        sys.stdout.flush()

    def start(role, count, place):
        started.append(Process(role, count, place))
        return started[-1]

    try:
        for gb in (float(each) for each in options.gb.split(",")):
            count, free = max(1, int(gb * 1e9 // PIECE)), hipvmm.device_memory(0).free
            if count * PIECE + (4 << 30) > free and torch.cuda.is_available():
                print(f"# {gb} GB do not fit {free} bytes", file=sys.stderr)
                continue
            name = "weights"

            def event(what, result, alive, seconds=0):
                write(gb, count, "event", {"step": what, "result": result, "seconds": seconds}, alive)

            # A writer that is killed on its way leaves neither memory nor the name.
            writer = start("writer", count, name)
            writer.until("begins")
            time.sleep(0.02)
            writer.kill()
            event("kill -9 of a writer within keep()", "done", "")

            begin = time.time()
            writer = start("writer", count, name)
            rows = writer.until("keep()")
            for row in rows:
                if row["step"] != "begins":
                    write(gb, count, "writer", row, "writer and keeper", row["step"] == "keep()")
            if rows[-1]["step"] != "keep()":
                continue
            keeper = rows[-1]["keeper"]
            keepers.append(keeper)
            writer.kill()
            event("kill -9 of the writer", "keeper lives" if is_alive(keeper) else "KEEPER ENDED", "keeper")

            reader = start("reader", count, name)
            for row in reader.until("check"):
                write(gb, count, "reader", row, "keeper and reader", row["step"] == "check")
            reader.kill()
            event("kill -9 of the reader", "keeper lives" if is_alive(keeper) else "KEEPER ENDED", "keeper")

            readers = [start("reader", count, name) for _ in range(2)]
            for each in readers:
                each.until("check")
            event("two readers", "attached", "keeper and two readers")
            readers[1].kill()
            event("kill -9 of one of two readers", "done", "keeper and reader")
            os.kill(keeper, signal.SIGKILL)
            for _ in range(100):
                if not is_alive(keeper):
                    break
                time.sleep(0.05)
            event("kill -9 of the keeper", "ended" if not is_alive(keeper) else "LIVES", "reader")
            late = start("late", count, name)
            for row in late.until("attach()"):
                write(gb, count, "late reader", row, "reader", row["step"] == "attach()")
            late.end()
            readers[0].run.stdin.write("\n")
            readers[0].run.stdin.flush()
            for row in readers[0].until("check after the keeper's end"):
                write(gb, count, "reader", row, "reader")
            readers[0].kill()
            event("kill -9 of the last reader", "done", "")

            # The name is free again; forget() ends the keeper that has it now.
            writer = start("writer", count, name)
            row = writer.until("keep()")[-1]
            write(gb, count, "writer", {**row, "step": f"{row['step']} by the name of a killed keeper"},
                  "writer and keeper")
            keepers.append(row.get("keeper"))
            writer.end()
            event("end of the writer", "done", "keeper")
            import hipvmm.torch
            begin = time.perf_counter()
            hipvmm.torch.forget(name)
            event("forget()", "done", "", time.perf_counter() - begin)
            if options.no_rivals:
                continue

            path = os.path.join(options.file, f"weights-{os.getpid()}.pt")
            if shutil.disk_usage(options.file).free < count * PIECE + (1 << 30):
                print(f"# no room for {gb} GB in {options.file}", file=sys.stderr)
                continue
            try:
                begin, weights = time.perf_counter(), make(count, "cpu")
                roles = ["read into two pinned buffers"]
                if gb <= 20:  # else file and copies are more than the host has
                    torch.save({key: value.contiguous() for key, value in weights.items()}, path)
                    roles = ["torch.load", "torch.load mmap", *roles, "numpy.fromfile, then a copy"]
                else:
                    with open(path, "wb") as file:
                        for value in weights.values():
                            file.write(memoryview(value.contiguous().numpy()).cast("B"))
                del weights
                print(f"# wrote {path} in {time.perf_counter() - begin:.1f} s", file=sys.stderr)
                for role in roles:
                    if role.endswith("mmap") and "mmap" not in torch.load.__code__.co_varnames:
                        continue
                    rival = start(role, count, path)
                    for row in rival.until(role):
                        write(gb, count, role, row, "loader", row["step"] == role)
                    rival.end()
            finally:
                if os.path.exists(path):
                    os.remove(path)
    finally:
        for each in started:
            if each.run.poll() is None:
                each.kill()
        for each in keepers:
            if each and is_alive(each):
                os.kill(each, signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
