# SPDX-License-Identifier: MIT
"""hipvmm.numba by RMM's path."""

from typing import Any


def __getattr__(name: str) -> Any:
    from hipvmm import numba

    return getattr(numba, name)
