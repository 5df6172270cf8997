# SPDX-License-Identifier: MIT
"""The hooks by RMM's paths: hipvmm.allocators.cupy, numba and torch."""
