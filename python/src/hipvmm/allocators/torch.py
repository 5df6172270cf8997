# SPDX-License-Identifier: MIT
"""PyTorch's allocator by RMM's path: hipvmm.allocators.torch.rmm_torch_allocator."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    # Made when it is first asked for, because PyTorch is loaded by then.
    if name in ("hipvmm_torch_allocator", "rmm_torch_allocator"):
        from ..torch import _the_allocator

        return _the_allocator()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
