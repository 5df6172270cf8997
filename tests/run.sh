#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds everything in build/ and runs every test: bash tests/run.sh [CTEST_OPTION...]
# HIPVMM_PROVIDER in the environment picks the provider: auto (the default), amd, cuda or host.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"

require_packages
configure "$root/build"
cmake --build "$root/build" --parallel "$(nproc)"
ctest --test-dir "$root/build" --output-on-failure --parallel "$(nproc)" "$@"
