# SPDX-License-Identifier: MIT
"""The version of the package: that of include/hipvmm/version.hpp, which CI compares."""

__version__ = "0.2.0"
