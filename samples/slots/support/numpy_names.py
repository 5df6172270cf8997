# SPDX-License-Identifier: MIT
"""Names that NumPy has removed and that releases of other libraries still look up."""

from __future__ import annotations

from types import ModuleType


def restore_removed_names(numpy: ModuleType) -> None:
    """NumPy 2.4 has no row_stack, without which numba-cuda of before does not import."""
    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack
