#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains three models in PyTorch with its own allocator, with its expandable segments, and with hipvmm.

A transformer whose sequences, a graph network whose graphs and a convolutional network whose images
change their sizes from step to step, and inference by captured graphs. Each allocator runs in a
process of its own, in turns, several rounds of each. Prints a line for each model:

- whether every loss has the same bits as with PyTorch's own allocator, and whether that one has the
  same bits twice, without which the first says nothing;
- the memory that each allocator held at most, and the part of it that tensors had;
- the time of a step: the median of the rounds, without the first quarter of the steps.

Needs a GPU and the package hipvmm:

    python3 samples/slots/torch_training.py [--steps N] [--rounds N] [--csv FILE]
    python3 samples/slots/torch_training.py --trace FOLDER     # traces for hipvmm-replay
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime
import gzip
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

MODELS = ("transformer", "graph", "vision", "graphs_of_cuda")
ALLOCATORS = ("default", "expandable", "hipvmm")
# Models of which every operation can be told to be deterministic, at a failure otherwise. The others
# are so in fact, by operations of which PyTorch does not know it.
STRICT = ("transformer", "graphs_of_cuda")


def transformer(torch, steps):
    """Next-token prediction; batches of sequences of 128 to 2048 tokens."""
    import torch.nn as nn

    width, heads, layers, vocabulary = 768, 12, 8, 8192

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.queries, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = (each.view(batch, length, heads, -1).transpose(1, 2)
                       for each in self.queries(self.before(x)).chunk(3, -1))
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.joined(seen.transpose(1, 2).reshape(batch, length, width))
            return x + self.narrow(nn.functional.gelu(self.wide(self.between(x))))

    # The kernels for a plain causal mask have deterministic gradients; cuDNN's have not.
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(False)
    embed, head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
    body = nn.Sequential(*[Layer() for _ in range(layers)])
    model = nn.ModuleList([embed, body, head]).cuda().to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    sizes = torch.Generator().manual_seed(1)

    def step():
        length = int(torch.randint(2, 33, (1,), generator=sizes)) * 64
        tokens = torch.randint(vocabulary, (8, length + 1), generator=sizes).cuda()
        loss = nn.functional.cross_entropy(
            head(body(embed(tokens[:, :-1]))).flatten(0, 1).float(), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return [step for _ in range(steps)]


def graph(torch, steps):
    """Messages along random edges; graphs of 20,000 to 200,000 nodes with ten times the edges."""
    import torch.nn as nn

    width, rounds = 128, 4
    layers = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(rounds)]).cuda()
    head = nn.Linear(width, 16).cuda()
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()], 1e-3)
    sizes = torch.Generator().manual_seed(2)
    values = torch.Generator(device="cuda").manual_seed(2)

    def step():
        nodes = int(torch.randint(20_000, 200_000, (1,), generator=sizes))
        edges = torch.randint(nodes, (2, 10 * nodes), generator=values, device="cuda")
        order = edges[1].argsort(stable=True)
        source, target = edges[0][order], edges[1][order]
        counts = torch.bincount(target, minlength=nodes)
        hidden = torch.randn(nodes, width, generator=values, device="cuda")
        for layer in layers:
            gathered = torch.segment_reduce(hidden[source], "sum", lengths=counts, axis=0,
                                            unsafe=True, initial=0)
            hidden = torch.relu(layer(torch.cat([hidden, gathered], 1)))
        loss = head(hidden).logsumexp(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return [step for _ in range(steps)]


def vision(torch, steps):
    """Residual blocks over images of 96 to 512 pixels, in batches of 4 to 32."""
    import torch.nn as nn

    class Block(nn.Module):
        def __init__(self, inside, outside):
            super().__init__()
            self.first = nn.Conv2d(inside, outside, 3, 2, 1)
            self.second = nn.Conv2d(outside, outside, 3, 1, 1)
            self.around = nn.Conv2d(inside, outside, 1, 2)
            self.norm = nn.GroupNorm(8, outside)

        def forward(self, x):
            return torch.relu(self.norm(self.second(torch.relu(self.first(x)))) + self.around(x))

    class Mean(nn.Module):
        def forward(self, x):
            return x.mean((2, 3))

    widths = (3, 64, 128, 256, 512)
    model = nn.Sequential(*[Block(a, b) for a, b in zip(widths, widths[1:])],
                          Mean(), nn.Linear(512, 100)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
    sizes = torch.Generator().manual_seed(3)
    values = torch.Generator(device="cuda").manual_seed(3)

    def step():
        pixels = int(torch.randint(3, 17, (1,), generator=sizes)) * 32
        batch = int(torch.randint(1, 9, (1,), generator=sizes)) * 4
        images = torch.randn(batch, 3, pixels, pixels, generator=values, device="cuda")
        labels = torch.randint(100, (batch,), generator=values, device="cuda")
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return [step for _ in range(steps)]


def graphs_of_cuda(torch, steps):
    """Inference by captured graphs of five sizes that share memory, beside work that is not captured."""
    import torch.nn as nn

    width = 1024
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                          nn.Linear(4 * width, width)) for _ in range(6)]).cuda()
    values = torch.Generator(device="cuda").manual_seed(4)
    side = torch.cuda.Stream()
    memory = torch.cuda.graph_pool_handle()
    captured = []
    with torch.no_grad():
        for batch in (4096, 2048, 1024, 512, 256):
            given = torch.randn(batch, width, generator=values, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    model(given)
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            made = torch.cuda.CUDAGraph()
            with torch.cuda.graph(made, pool=memory):
                result = model(given)
            torch.cuda.synchronize()
            captured.append((made, given, result))
    order = torch.Generator().manual_seed(4)

    def step():
        with torch.no_grad():
            current = torch.cuda.current_stream()
            made, given, result = captured[int(torch.randint(5, (1,), generator=order))]
            # All that reads the inputs and results of graphs is behind the work of the side stream.
            current.wait_stream(side)
            given.copy_(torch.randn(given.shape, generator=values, device="cuda"))
            made.replay()
            mine = result.square().mean()
            # Memory that another stream uses when it is freed.
            side.wait_stream(current)
            with torch.cuda.stream(side):
                other = torch.randn(1024, 1024, device="cuda", generator=values)
                seen = other.sum()
                other.record_stream(current)
                del other
            current.wait_stream(side)
            seen.record_stream(current)
            return mine + seen * 1e-3

    def check():
        """How far each graph's result is from that of the same layers called one by one."""
        most = 0.0
        with torch.no_grad():
            for made, given, result in captured:
                given.copy_(torch.randn(given.shape, generator=values, device="cuda"))
                made.replay()
                kept = result.clone()
                most = max(most, float((kept - model(given)).abs().max()))
        return most

    step.check = check
    return [step for _ in range(steps)]


def use_allocator(name):
    """Before the first tensor. Returns a function for the most bytes allocated and held so far."""
    if name == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    if name.startswith("hipvmm"):
        import hipvmm.torch
        hipvmm.torch.install()
    return lambda: (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())


def prepare(model):
    """Makes every run of a model the same."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=model not in STRICT)
    # Nothing may depend on old contents of memory, which this would hide.
    torch.utils.deterministic.fill_uninitialized_memory = False
    return torch


def run(model, allocator, steps):
    """In a process of its own: the losses, the most memory and the time of each step."""
    highest = use_allocator(allocator)
    torch = prepare(model)
    losses, times = [], []
    all_steps = globals()[model](torch, steps)
    for step in all_steps:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        losses.append(float(loss).hex())
    allocated, held = highest()
    check = all_steps[0].check() if hasattr(all_steps[0], "check") else None
    print(json.dumps({"losses": losses, "held": held, "allocated": allocated, "times": times,
                      "check": check, "torch": torch.__version__,
                      "device": torch.cuda.get_device_name()}))


def record(model, steps, folder):
    """Writes the requests of a model to PyTorch's own allocator, for hipvmm-replay."""
    torch = prepare(model)
    memory = torch.cuda.memory
    memory._record_memory_history("all", context=None, max_entries=10_000_000)
    for step in globals()[model](torch, steps):
        step()
    torch.cuda.synchronize()
    events = memory._snapshot()["device_traces"][torch.cuda.current_device()]
    alive = {}
    path = Path(folder) / f"{model}.csv.gz"
    with gzip.open(path, "wt", encoding="ascii") as file:
        file.write("Thread,Time,Action,Pointer,Size,Stream\n")
        for event in events:
            action, pointer = event["action"], event["addr"]
            if action == "alloc":
                alive[pointer] = event["size"]
                kind = "allocate"
            elif action == "free_completed" and pointer in alive:
                kind = "free"
            else:
                continue
            size = alive[pointer] if kind == "allocate" else alive.pop(pointer)
            begin = events[0].get("time_us", 0)
            file.write(f"0,{event.get('time_us', 0) - begin},{kind},{pointer:x},{size},"
                       f"{event['stream']:x}\n")
    print(f"{path}: {len(events)} events")


def child(arguments, **environment):
    """Runs this script in a process of its own. Returns its last line."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True,
                          check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{shlex.join(arguments)} failed:\n{done.stderr[-4000:]}")
    return done.stdout.splitlines()[-1]


def difference(one, other):
    """Names the first step at which two lists of losses differ, and the largest difference."""
    pairs = [(float.fromhex(a), float.fromhex(b)) for a, b in zip(one, other)]
    first = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), None)
    if first is None:
        return "same"
    most = max(abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in pairs)
    return f"other from step {first} on, by {most:.1e} at most"


def commit():
    """The commit of this checkout, if it is one."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(["git", "-C", Path(__file__).parent, "rev-parse", "--short", "HEAD"],
                              capture_output=True, text=True, check=True).stdout.strip()
    return "unknown"


def compare(model, options, variants):
    """Runs a model with all allocators in turns. Returns a row for each of them."""
    seen = {name: [] for name in variants}
    for round_ in range(options.rounds):
        names = list(variants)
        for name in names[round_ % len(names):] + names[:round_ % len(names)]:
            text = child(["--steps", str(options.steps), "--child", model, name], **variants[name])
            seen[name].append(json.loads(text))
    own = seen["default"][0]["losses"]
    itself = [difference(own, each["losses"]) for each in seen["default"][1:]]
    is_comparable = bool(itself) and all(each == "same" for each in itself)
    rows = []
    for name, runs in seen.items():
        found = [difference(own, each["losses"]) for each in runs]
        means = [1e3 * statistics.mean(each["times"][options.steps // 4:]) for each in runs]
        rows.append({
            "model": model, "allocator": name, "conf": variants[name].get("HIPVMM_CONF", ""),
            "default_agrees_with_itself": is_comparable,
            "losses": next((each for each in found if each != "same"), "same"),
            "held_bytes": max(each["held"] for each in runs),
            "allocated_bytes": max(each["allocated"] for each in runs),
            "step_ms": f"{statistics.median(means):.4f}",
            "step_ms_of_rounds": " ".join(f"{each:.4f}" for each in means),
            "first_quarter_ms": f"""{1e3 * statistics.median(
                sum(each["times"][:options.steps // 4]) for each in runs):.1f}""",
            "graph_and_layers_differ_by": max(
                (each["check"] for each in runs if each["check"] is not None), default=""),
            "steps": options.steps, "rounds": options.rounds, "device": runs[0]["device"],
            "torch": runs[0]["torch"]})
    return rows


def line_of(rows):
    """The results of a model."""
    by_name = {row["allocator"]: row for row in rows}
    default, expandable = by_name["default"], by_name["expandable"]
    parts = [rows[0]["model"] + ": " + (
        "default agrees with itself" if default["default_agrees_with_itself"] else
        "NOT COMPARABLE, default with itself: " + default["losses"])]
    for row in rows:
        parts.append(
            "{allocator} {held:.3f} GiB held ({of:.3f} of expandable's), {used:.3f} allocated, "
            "{step_ms} ms a step ({slower:.3f}), losses {losses}".format(
                held=row["held_bytes"] / 2**30, used=row["allocated_bytes"] / 2**30,
                of=row["held_bytes"] / expandable["held_bytes"],
                slower=float(row["step_ms"]) / float(default["step_ms"]),
                **{key: row[key] for key in ("allocator", "step_ms", "losses")}))
    return "; ".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5, help="at least 2 compare losses")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--csv", metavar="FILE")
    parser.add_argument("--conf", action="append", default=[], metavar="HIPVMM_CONF",
                        help="one more run of hipvmm with these options, such as "
                        "pool.largest_chunk=32MiB; may be repeated")
    parser.add_argument("--trace", metavar="FOLDER", help="record what the models request instead")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--record", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run(*options.child, options.steps)
    if options.record:
        return record(options.record, options.steps, options.trace)
    models = options.models.split(",")
    if options.trace:
        Path(options.trace).mkdir(parents=True, exist_ok=True)
        for model in models:
            print(child(["--steps", str(options.steps), "--trace", options.trace, "--record",
                         model]), flush=True)
        return None
    variants = {name: {} for name in ALLOCATORS}
    variants.update({f"hipvmm {conf}": {"HIPVMM_CONF": conf} for conf in options.conf})
    rows = []
    for model in models:
        found = compare(model, options, variants)
        print(line_of(found), flush=True)
        rows += found
    if options.csv:
        run_by = {"date": datetime.date.today().isoformat(), "commit": commit(),
                  "command": shlex.join(sys.argv)}
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, {**run_by, **rows[0]})
            writer.writeheader()
            writer.writerows({**run_by, **row} for row in rows)
    wrong = [row for row in rows if row["allocator"].startswith("hipvmm")
             and row["default_agrees_with_itself"] and row["losses"] != "same"]
    return "hipvmm changes results" if wrong else None


if __name__ == "__main__":
    sys.exit(main())
