# SPDX-License-Identifier: MIT
"""Runs a library's work with several allocators, each in a process of its own, in turns.

A sample calls compare() with a function that runs one piece of work in such a process. For each work
and allocator a line is printed: whether every result has the same bits as with the first allocator,
the most memory of the device that was in use, as its driver says, and the time of a step.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time


class Measurement:
    """Results of one process: its steps' results and times, and the device's memory in use."""

    def __init__(self, memory_info, synchronize):
        self._memory_info, self._synchronize = memory_info, synchronize
        free, self._total = memory_info()
        self._least = self._first = free
        self.results, self.times = [], []

    def step(self, function):
        """Runs a step, which returns an array of the host, and measures it."""
        self._synchronize()
        begin = time.perf_counter()
        result = function()
        self._synchronize()
        self.times.append(time.perf_counter() - begin)
        self._least = min(self._least, self._memory_info()[0])
        self.results.append(hashlib.sha256(result.tobytes()).hexdigest())

    def print(self, device, versions):
        print(json.dumps({"results": self.results, "times": self.times, "device": device,
                          "peak": self._first - self._least, "versions": versions}))


def skip(sentence):
    """Ends a sample that has nothing to run."""
    print(f"skipped: {sentence}")
    sys.exit(0)


def compare(description, works, allocators, run, *, prepare=None):
    """The sample. run(work, allocator, steps) prints a Measurement, in a process of its own.

    prepare(allocator): the command before the child's and its variables of the environment; None
        if the allocator is not there.
    """
    parser = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--works", default=",".join(works))
    parser.add_argument("--csv", help="adds a row for each line to a file")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run(*options.child, options.steps)
    commands = {}
    for name in allocators:
        before = ([], {}) if prepare is None else prepare(name)
        if before is not None:
            commands[name] = before
    rows = []
    for work in options.works.split(","):
        seen = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, (command, variables) in commands.items():
                done = subprocess.run(
                    [*command, sys.executable, sys.argv[0], "--steps", str(options.steps),
                     "--child", work, name],
                    capture_output=True, text=True, check=False, env={**os.environ, **variables})
                if done.returncode != 0:
                    sys.exit(f"{work} with {name} failed:\n{done.stderr[-4000:]}")
                if done.stdout.startswith("skipped: "):
                    skip(done.stdout.splitlines()[0].partition(": ")[2])
                seen[name].append(json.loads(done.stdout.splitlines()[-1]))
        rows += [_row(work, name, runs, seen[next(iter(commands))][0]["results"], options.steps)
                 for name, runs in seen.items()]
        for row in rows[-len(seen):]:
            print("{work} with {allocator}: results {results}, at most {gib:.3f} GiB more in use, "
                  "{step_ms:.3f} ms a step, {first_steps_ms:.0f} ms for the first quarter".format(
                      gib=row["peak_bytes"] / 2**30, **row), flush=True)
    if options.csv:
        is_new = not os.path.exists(options.csv)
        with open(options.csv, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            if is_new:
                writer.writeheader()
            writer.writerows(rows)
    if any(row["results"] != "same" for row in rows):
        sys.exit("an allocator changes results")
    return None


def _row(work, allocator, runs, expected, steps):
    # Of each step the fastest round: the load by other work on the machine comes and goes.
    best = [min(each["times"][i] for each in runs) for i in range(steps)]
    return {"date": datetime.date.today().isoformat(), "device": runs[0]["device"],
            "versions": runs[0]["versions"], "work": work, "allocator": allocator,
            "results": "same" if all(each["results"] == expected for each in runs) else "OTHER",
            "peak_bytes": max(each["peak"] for each in runs),
            "step_ms": 1e3 * statistics.mean(best[steps // 4:]),
            "first_steps_ms": 1e3 * sum(best[:steps // 4]),
            "command": " ".join(["python3", *sys.argv])}
