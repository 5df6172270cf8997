# SPDX-License-Identifier: MIT
"""The version of the package: that of include/hipvmm/version.hpp, as packaging/release.sh compares
and sets it."""

__version__ = "0.3.1.dev0"
