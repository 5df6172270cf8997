# SPDX-License-Identifier: MIT
"""hipvmm as the allocator of vLLM's sleep mode: docs/guides/vllm.md says how to use it."""

import contextlib
import gc
import sys

import torch

import hipvmm.torch


class Allocator:
    """A MemAllocator of vLLM."""

    def __init__(self, storage="pinned"):
        self._storage = storage  # of contents while they sleep, as hipvmm.suspend() names it
        self._pools = {}  # lists by tag: memory lives as long as its pool

    @contextlib.contextmanager
    def use_memory_pool(self, tag=None):
        tag = "default" if tag is None else tag
        with hipvmm.torch.pool(tag=tag) as pool:
            self._pools.setdefault(tag, []).append(pool)
            yield

    def sleep(self, offload_tags=None):
        kept = ("default",) if offload_tags is None else offload_tags
        self._suspend({tag: "contents" if tag in _several(kept) else "nothing"
                       for tag in self._pools})

    def discard(self, tags):
        self._suspend({tag: "nothing" for tag in _several(tags)})

    def wake_up(self, tags=None):
        hipvmm.torch.resume([tag for tag in self._pools
                             if self._bytes_of(tag) and (tags is None or tag in tags)])

    def get_current_usage(self):
        return sum(map(self._bytes_of, self._pools))

    def _suspend(self, keeps):  # all tags, or none
        gc.collect()
        torch.cuda.empty_cache()
        hipvmm.torch.suspend({tag: keep for tag, keep in keeps.items() if self._bytes_of(tag)},
                             storage=self._storage)

    def _bytes_of(self, tag):
        return sum(segment["total_size"] for pool in self._pools.get(tag, ())
                   for segment in pool.snapshot())


def _several(tags):
    return (tags,) if isinstance(tags, str) else tags


def register():
    """For the entry point vllm.general_plugins, which vLLM calls in each process."""
    import vllm.device_allocator

    allocator = Allocator()
    for name in ("vllm.device_allocator", "vllm.v1.worker.gpu_worker"):
        if name in sys.modules:
            sys.modules[name].get_mem_allocator_instance = lambda: allocator
