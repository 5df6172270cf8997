# SPDX-License-Identifier: MIT
"""``python -m hipvmm.snapshot``: a memory snapshot of PyTorch becomes a trace for hipvmm-replay.

``torch.cuda.memory._dump_snapshot()`` writes the snapshot, and
``torch.cuda.memory._record_memory_history()`` must have been called before the part of the program
that is of interest. Neither PyTorch nor libhipvmm is needed to read it.
"""

from __future__ import annotations

import argparse
import operator
import os
import pickle
import sys
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple

from ._output import write_out

__all__ = ["load", "trace_rows", "main"]

Row = Tuple[int, str, int, int, int]
"""Time in microseconds, action, address, bytes, stream."""


class _DataOnly(pickle.Unpickler):
    """Reads numbers, text, lists and dictionaries: a snapshot has nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        raise ValueError(f"the file wants to run {module}.{name}, which no snapshot of PyTorch does")


def load(file: BinaryIO) -> Dict[str, Any]:
    """Reads a snapshot; runs no code of the file. Raises ValueError if it is none."""
    try:
        snapshot = _DataOnly(file).load()
    except ValueError:
        raise
    except Exception as damage:  # of pickle: any type
        why = str(damage) or type(damage).__name__  # MemoryError has no text
        raise ValueError(f"the file is damaged, or no pickle: {why}") from damage
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        raise ValueError("the file has no device_traces: torch.cuda.memory._dump_snapshot() writes them")
    return snapshot


def _events(snapshot: Dict[str, Any], device: Optional[int]) -> Tuple[int, List[Dict[str, Any]]]:
    traces = snapshot["device_traces"]
    used = [ordinal for ordinal, trace in enumerate(traces) if trace]
    if not used:
        raise ValueError("the snapshot has no history: call "
                         "torch.cuda.memory._record_memory_history() before the requests")
    if device is None:
        if len(used) > 1:
            raise ValueError(f"the snapshot has the history of devices {used}: choose one by --device")
        device = used[0]
    if device not in used:
        raise ValueError(f"the snapshot has no history of device {device}, but of {used}")
    return device, traces[device]


def _number(value: Any) -> int:
    """An address, a size or a stream. Numbers alone, because they become lines of text."""
    number = operator.index(value)
    if not 0 <= number < 1 << 64:
        raise ValueError(f"a number is {number:#x}, and must have 64 bits and no sign")
    return number


def _blocks_in_use(snapshot: Dict[str, Any], device: int) -> Iterator[Tuple[int, int, int]]:
    """Address, bytes and stream of each block in use when the snapshot was taken."""
    for segment in snapshot.get("segments", ()):
        if segment.get("device", 0) != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            here = block.get("address", address)  # since PyTorch 2.1
            if block["state"] == "active_allocated":
                yield (_number(here), _number(block.get("requested_size", block["size"])),
                       _number(segment.get("stream", 0)))
            address = here + block["size"]


def trace_rows(snapshot: Dict[str, Any], device: Optional[int] = None) -> List[Row]:
    """The requests of one device as rows of a trace, oldest first.

    The history keeps the newest events only. A block that was allocated before the oldest of them is
    allocated by a row at the beginning. A block is free when the program freed it; PyTorch may wait
    longer for streams that have used it.

    Raises ValueError if the snapshot has no history of the device, or contradicts itself.
    """
    ordinal, events = _events(snapshot, device)
    has_times = all("time_us" in event for event in events)
    first = events[0]["time_us"] if has_times else 0
    before: List[Row] = []
    rows: List[Row] = []
    in_use: Dict[int, int] = {}  # bytes by address
    known = set()
    for index, event in enumerate(events):
        time = max(0, operator.index(event["time_us"]) - first) if has_times else index
        action, size = event["action"], _number(event["size"])
        stream, address = (_number(event.get(each, 0)) for each in ("stream", "addr"))
        if action == "alloc":
            if address in in_use:
                raise ValueError(f"event {index} allocates {address:#x}, which is in use: "
                                 "was the history switched off in between?")
            in_use[address] = size
            rows.append((time, "allocate", address, size, stream))
        elif action == "free_requested":
            if address not in in_use:
                if address in known:
                    raise ValueError(f"event {index} frees {address:#x} once more")
                before.append((0, "allocate", address, size, stream))
                in_use[address] = size
            rows.append((time, "free", address, in_use.pop(address), stream))
        elif action == "oom":
            rows.append((time, "allocate failure", 0, size, stream))
            continue
        else:
            continue  # of segments, and the end of a free
        known.add(address)
    for address, size, stream in _blocks_in_use(snapshot, ordinal):
        if address not in known:
            before.append((0, "allocate", address, size, stream))
    return before + rows


def _text(rows: List[Row]) -> str:
    return "Time,Action,Pointer,Size,Stream\n" + "".join(
        f"{time},{action},{address:#x},{size},{stream:#x}\n"
        for time, action, address, size, stream in rows)


def _is_standard_output(path: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except OSError:
        return False


def _save(text: str, output: str, snapshot: str) -> None:
    """Writes a file as a whole, or not at all; pipes and devices as they are."""
    if os.path.exists(output):
        if os.path.samefile(output, snapshot):
            raise ValueError("--output is the snapshot itself: name another file")
        if not os.path.isfile(output):
            with open(output, "w") as trace:
                trace.write(text)
            return
    target = os.path.realpath(output)  # a link stays one
    unfinished = f"{target}.{os.getpid()}"
    with open(unfinished, "x") as trace:
        try:
            trace.write(text)
            trace.flush()
            os.replace(unfinished, target)
        except BaseException:
            os.remove(unfinished)
            raise


def main(arguments: Optional[List[str]] = None) -> int:
    """Writes the trace; 1 if the snapshot cannot be read, or the trace not be written."""
    parser = argparse.ArgumentParser(prog="python -m hipvmm.snapshot", description=(
        "Writes the requests in a memory snapshot of PyTorch as a trace that hipvmm-replay reads."))
    parser.add_argument("snapshot", help="a file of torch.cuda.memory._dump_snapshot()")
    parser.add_argument("--device", type=int, help="the ordinal of the device, if several have a history")
    parser.add_argument("--output", default="-", help="the trace; - is standard output, the default")
    options = parser.parse_args(arguments)
    try:
        with open(options.snapshot, "rb") as file:
            rows = trace_rows(load(file), options.device)
        if options.output == "-" or _is_standard_output(options.output):
            write_out(_text(rows))
        else:
            _save(_text(rows), options.output, options.snapshot)
    except OSError as failure:  # which names its file
        print(f"hipvmm.snapshot: {failure}", file=sys.stderr)
        return 1
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        why = f"an event or a block lacks {failure}" if isinstance(failure, KeyError) else str(failure)
        why = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in why)
        print(f"hipvmm.snapshot: {options.snapshot}: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
