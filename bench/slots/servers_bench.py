#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Three servers on one GPU whose bursts of requests take turns: one budget, a fixed split, alone.

    servers_bench.py [--modes budget,split,alone,changed] [--seconds N] [--bursts N] [--limit MIB]
        [--csv FILE]

A server is a process with a hipvmm.torch.KVCache: a step gives each sequence one token, new ones
begin as soon as their prompts fit, which a blocked server tries each 50 ms, and the one that began
last gives way if a step does not fit.
Most of a server's requests come in its third of the time, or of each of --bursts parts of it.
`budget`: all three share the limit; `split`: each has a third of it; `alone`: one server after the
other, all of the limit; `changed`: as budget, with half of the limit in the middle third. The work
of a step is a product of matrices, for a prompt one more for each 512 tokens. The times of requests
are the same in all modes.

`ttft`: from the arrival of a request to its first token, its wait for memory included. `short_ratio`:
while a request of any server waits for memory, what all hold by what their sequences need (the mean
of samples every 50 ms). `idle_ratio`: at all times, what all hold beyond their needs, by these.
Needs the package hipvmm, and PyTorch but with --work 0: then a step sleeps for 2 ms, without a GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import time
from collections import deque

SERVERS, ROWS, MOST_TOKENS, PROMPTS, OUTPUTS = 3, 48, 2048, (256, 1536), (32, 192)
LAYERS, HEADS, HEAD_DIM = 16, 8, 128  # 64 KiB a token
SAMPLE = 0.05  # seconds


def arrivals(server, seconds, rate, bursts):
    """Times, prompts and outputs of a server's requests: five of six within its thirds."""
    chance, found, now = random.Random(server), [], 0.0
    while True:
        in_burst = int(SERVERS * bursts * now / seconds) % SERVERS == server
        now += chance.expovariate(rate if in_burst else rate / 10)
        if now >= seconds:
            return found
        found.append((now, chance.randint(*PROMPTS), chance.randint(*OUTPUTS)))


class HostCache:
    """As much of a KVCache as a server without PyTorch uses."""

    def __init__(self, budget):
        import hipvmm
        self.token = 4 * LAYERS * HEADS * HEAD_DIM
        self.arena = hipvmm.SlotArena(ROWS, MOST_TOKENS * self.token, block=64 * self.token,
                                      budget=budget)
        self.acquire, self.statistics = self.arena.acquire, self.arena.statistics

    def append(self, slots, tokens=1):
        self.arena.commit(slots, [self.arena.length(each) + tokens * self.token for each in slots])

    def release(self, slots):
        for each in [slots] if isinstance(slots, int) else slots:
            self.arena.release(each)


def serve(options):
    import hipvmm
    if options.work:
        import torch

        import hipvmm.torch
        device = "cuda" if torch.cuda.is_available() else "cpu"
        cache = hipvmm.torch.KVCache(LAYERS, HEADS, HEAD_DIM, slots=ROWS, max_tokens=MOST_TOKENS,
                                     budget=options.limit << 20)
        matrix = torch.randn(options.work, options.work, device=device)
    else:
        device, cache = "cpu", HostCache(options.limit << 20)
    budget = None
    if options.mode in ("budget", "changed"):
        budget = hipvmm.MemoryBudget(options.name, options.limit << 20, patience=0.02)

    def work(times=1):
        if not options.work:
            return time.sleep(0.002 * times)
        for _ in range(times):
            matrix @ matrix
        if device == "cuda":
            torch.cuda.synchronize()
        return None

    work(8)
    waiting = deque(arrivals(options.server, options.seconds, options.rate,
                             options.bursts))
    running, first_tokens, samples = [], [], []  # running: [slot, arrival, outputs left, prompt]
    gave_way = done = 0
    next_try = 0.0
    print("ready", flush=True)
    start = float(sys.stdin.readline())
    while time.time() < start:
        time.sleep(0.001)
    while time.time() - start < options.seconds:
        now = time.time() - start
        blocked = next_try > now
        while not blocked and waiting and waiting[0][0] <= now and len(running) < ROWS:
            arrival, prompt, outputs = waiting[0]
            slot = cache.acquire()
            try:
                cache.append([slot], prompt)
            except hipvmm.OutOfMemoryError:
                cache.release(slot)
                blocked, next_try = True, now + 0.05
                break
            waiting.popleft()
            work(-(-prompt // 512))
            if options.work:
                cache.keys(0, slot)[:] = 1  # the memory is there
            running.append([slot, arrival, outputs, prompt])
            if arrival >= 0:
                first_tokens.append(time.time() - start - arrival)
        while running:
            try:
                cache.append([each[0] for each in running])
                break
            except hipvmm.OutOfMemoryError:
                slot, arrival, outputs, prompt = running.pop()
                cache.release(slot)
                waiting.appendleft((-1.0, min(prompt + 8, MOST_TOKENS - outputs - 1), outputs))
                gave_way, blocked, next_try = gave_way + 1, True, now + 0.05
        if running:
            work()
        else:
            time.sleep(0.002)
        for each in running:
            each[2] -= 1
        ended = [each[0] for each in running if each[2] <= 0]
        if ended:
            cache.release(ended)
            running, done = [each for each in running if each[2] > 0], done + len(ended)
        if not samples or now - samples[-1][0] >= SAMPLE:
            held = cache.statistics()
            samples.append((round(now, 3), held.held_bytes, held.needed_bytes, blocked,
                            budget.statistics().bytes if budget else held.held_bytes))
    first_tokens.sort()
    print(json.dumps({"first_tokens": first_tokens, "samples": samples, "gave_way": gave_way,
                      "done": done, "left": len(running) + sum(
                          each[0] < options.seconds for each in waiting),
                      "device": torch.cuda.get_device_name() if device == "cuda" else "host",
                      "hipvmm": hipvmm.__version__}), flush=True)
    del budget


def run(mode, options):
    """Returns what each server of a mode says at its end."""
    if mode == "alone":
        return [run_together(mode, [each], options)[0] for each in range(SERVERS)]
    return run_together(mode, range(SERVERS), options)


def run_together(mode, servers, options):
    name = f"servers_bench-{os.getpid()}-{mode}"
    limit = options.limit // SERVERS if mode == "split" else options.limit
    children = [subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), "--child", "--mode", mode, "--server", str(each),
         "--name", name, "--limit", str(limit), "--seconds", str(options.seconds), "--work",
         str(options.work), "--rate", str(options.rate), "--bursts", str(options.bursts)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for each in servers]
    try:
        for each in children:
            if each.stdout.readline().strip() != "ready":
                raise RuntimeError(f"a server of mode {mode} has ended")
        start = time.time() + 0.5
        for each in children:
            each.stdin.write(f"{start}\n")
            each.stdin.flush()
        if mode == "changed":
            import hipvmm
            with hipvmm.MemoryBudget(name) as budget:
                for third, part in ((1, 2), (2, 1)):
                    time.sleep(max(0, start + third * options.seconds / SERVERS - time.time()))
                    budget.set_limit((options.limit << 20) // part)
                return [json.loads(each.stdout.readline()) for each in children]
        return [json.loads(each.stdout.readline()) for each in children]
    finally:
        for each in children:
            each.kill()
            each.wait()


def at(values, share):
    return round(1000 * values[min(len(values) - 1, int(share * len(values)))], 1) if values else ""


def rows_of(mode, servers, options):
    ratios, all_held, all_needed = [], 0, 0
    # A budget's use is that of all; the others' peaks may have been at different times.
    peaks = [max(each[4] for each in server["samples"]) for server in servers]
    peak = sum(peaks) if mode == "split" else max(peaks)
    last = max(len(each["samples"]) for each in servers)
    for now in (SAMPLE * each for each in range(int(options.seconds / SAMPLE))):
        # Each server's last sample until then.
        seen = [max((s for s in each["samples"] if s[0] <= now), default=None) for each in servers]
        if None in seen:
            continue
        held, needed = (sum(each[index] for each in seen) for index in (1, 2))
        all_held, all_needed = all_held + held, all_needed + needed
        if needed and any(each[3] for each in seen):
            ratios.append(held / needed)
    common = {"mode": mode, "seconds": options.seconds, "bursts": options.bursts,
              "limit_mib": options.limit,
              "idle_ratio": round(all_held / all_needed - 1, 4) if all_needed else "",
              "held_peak_mib": peak >> 20, "short_samples": len(ratios), "samples": last,
              "short_ratio": round(sum(ratios) / len(ratios), 4) if ratios else "",
              "device": servers[0]["device"], "hipvmm": servers[0]["hipvmm"]}
    found = []
    for index, each in enumerate(servers):
        times = each["first_tokens"]
        found.append({**common, "server": index, "requests": len(times), "done": each["done"],
                      "left": each["left"], "gave_way": each["gave_way"], "ttft_median_ms":
                      at(times, 0.5), "ttft_p99_ms": at(times, 0.99)})
    times = sorted(time for each in servers for time in each["first_tokens"])
    found.append({**common, "server": "all", "requests": len(times), **{
        key: sum(each[key] for each in servers) for key in ("done", "left", "gave_way")},
        "ttft_median_ms": at(times, 0.5), "ttft_p99_ms": at(times, 0.99)})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--modes", default="budget,split,alone,changed")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--bursts", type=int, default=1, help="of each server, in turn")
    parser.add_argument("--limit", type=int, default=3072, help="MiB of all servers")
    parser.add_argument("--rate", type=float, default=12, help="requests a second in a burst")
    parser.add_argument("--work", type=int, default=4096,
                        help="rows of the matrix of a step; 0: it sleeps")
    parser.add_argument("--csv", metavar="FILE")
    for hidden in ("mode", "name"):
        parser.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    parser.add_argument("--server", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return serve(options)
    rows = [row for mode in options.modes.split(",")
            for row in rows_of(mode, run(mode, options), options)]
    for out in [sys.stdout] + ([open(options.csv, "w", encoding="utf-8")] if options.csv else []):
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        out.flush()
    return None


if __name__ == "__main__":
    sys.exit(main())
