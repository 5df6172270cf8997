#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Works with arrays of JAX in memory of its own allocators, and of hipvmm under hipvmm-run.

JAX has no hook for an allocator (docs/guides/slots.md). Its calls for each allocation with
XLA_PYTHON_CLIENT_ALLOCATOR=platform are served by hipvmm-run, if that was built: HIPVMM_RUN names
it. Arrays that grow are given to JAX without a copy. Needs a GPU, JAX and the package hipvmm:

    python3 samples/slots/jax_arrays.py [--steps N] [--rounds N] [--csv FILE]
"""

from __future__ import annotations

import importlib.util
import os
import shutil

from support.comparison import Measurement, compare, skip

ALLOCATORS = ("default", "cuda_async", "platform", "hipvmm-run")


def dense(jax, random):
    """A layer and its gradient; batches of 64 to 4096 rows, in eight sizes that are compiled."""
    numpy = jax.numpy
    weights = jax.random.normal(jax.random.key(0), (2048, 2048), numpy.float32) / 45

    def loss(given, weights):
        return numpy.mean(numpy.tanh(given @ weights) ** 2)

    gradient = jax.jit(jax.value_and_grad(loss, argnums=1))
    sizes = [64 << i for i in range(7)] + [3072]
    for size in sizes:
        gradient(numpy.ones((size, 2048), numpy.float32), weights)[0].block_until_ready()
    state = {"weights": weights, "key": jax.random.key(1)}

    def step():
        state["key"], used = jax.random.split(state["key"])
        given = jax.random.normal(used, (random.choice(sizes), 2048), numpy.float32)
        value, slope = gradient(given, state["weights"])
        state["weights"] = state["weights"] - 0.1 * slope
        return jax.device_get(numpy.concatenate([value[None], state["weights"][0]]))

    return step


def growing(jax, random):
    """Rows are appended to an array of hipvmm that JAX reads in place, by DLPack.

    Each length is compiled anew: the times are those of XLA's compiler.
    """
    import numpy as np

    import hipvmm

    numpy = jax.numpy
    rows = hipvmm.GrowableArray("float32", (256,), max="4GiB")
    total = jax.jit(lambda array: numpy.sum(array, axis=0))
    values = np.random.default_rng(2)

    def step():
        rows.append(values.random((256 * random.randint(1, 4), 256), dtype=np.float32))
        view = jax.dlpack.from_dlpack(rows)
        assert view.unsafe_buffer_pointer() == rows.ptr, "JAX has copied the array"
        result = jax.device_get(total(view))
        del view
        return result

    return step


WORKS = {"dense": dense, "growing": growing}


def memory_info():
    """The driver's figure, which JAX does not give."""
    import hipvmm

    return hipvmm.device_memory(0)


def prepare(allocator):
    variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                 "XLA_FLAGS": "--xla_gpu_deterministic_ops=true " + os.environ.get("XLA_FLAGS", "")}
    if allocator != "hipvmm-run":
        return [], {**variables, "XLA_PYTHON_CLIENT_ALLOCATOR": allocator}
    program = os.environ.get("HIPVMM_RUN") or shutil.which("hipvmm-run")
    if program is None:
        print("without hipvmm-run: HIPVMM_RUN does not name it, and it is not in PATH")
        return None
    return [program], {**variables, "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}


def run(work, allocator, steps):
    import random

    import jax
    import jax.dlpack

    device = jax.devices()[0]
    if device.platform not in ("gpu", "cuda", "rocm"):
        skip("JAX has no GPU here")
    jax.numpy.zeros(1).block_until_ready()  # there is a context
    measured = Measurement(memory_info, jax.effects_barrier)
    function = WORKS[work](jax, random.Random(0))
    function()
    for _ in range(steps):
        measured.step(function)
    measured.print(device.device_kind, f"JAX {jax.__version__}")


if __name__ == "__main__":
    if importlib.util.find_spec("jax") is None:
        skip("JAX is not installed")
    compare(__doc__, WORKS, ALLOCATORS, run, prepare=prepare)
