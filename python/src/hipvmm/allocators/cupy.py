# SPDX-License-Identifier: MIT
"""hipvmm.cupy by RMM's path."""

from hipvmm.cupy import rmm_cupy_allocator

__all__ = ["rmm_cupy_allocator"]
