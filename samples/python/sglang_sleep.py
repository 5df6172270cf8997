# SPDX-License-Identifier: MIT
"""hipvmm as SGLang's memory saver: docs/guides/sglang.md says how to use it."""

import contextlib

import torch

import hipvmm.torch

BACKUP = " with backup"


class MemorySaver:
    """The calls of SGLang to the package torch_memory_saver."""

    enabled = True
    hook_mode = "torch"  # SGLang sets it: nothing is preloaded

    def __init__(self, storage="pinned"):
        self._storage = storage  # of contents meanwhile, as hipvmm.suspend() names it
        self._pools = {}  # lists by the names of tags: memory lives as long as its pool

    @contextlib.contextmanager
    def region(self, tag="default", enable_cpu_backup=False):
        name = tag + BACKUP * enable_cpu_backup
        with hipvmm.torch.pool(tag=name) as pool:
            self._pools.setdefault(name, []).append(pool)
            yield

    @contextlib.contextmanager
    def disable(self):
        with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
            yield

    @contextlib.contextmanager
    def cuda_graph(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", **_):
        with torch.cuda.graph(cuda_graph, pool=pool, stream=stream,
                              capture_error_mode=capture_error_mode):
            yield  # the graph's own memory stays

    def pause(self, tag=None):
        torch.cuda.empty_cache()
        hipvmm.torch.suspend({name: "contents" if name.endswith(BACKUP) else "nothing"
                              for name in self._names(tag)}, storage=self._storage)

    def resume(self, tag=None):
        hipvmm.torch.resume(self._names(tag))

    def _names(self, tag):
        return [name for name, pools in self._pools.items()
                if (tag is None or name in (tag, tag + BACKUP))
                and any(pool.snapshot() for pool in pools)]


def register():
    """For each process, before SGLang is imported."""
    import torch_memory_saver

    torch_memory_saver.torch_memory_saver = MemorySaver()
