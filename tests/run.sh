#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds everything in build/ and runs every test: bash tests/run.sh [CTEST_OPTION...]
# Without options the cases of a program share a process, for to start one for each takes longer than
# most cases do. `bash tests/run.sh -R .` gives each its own.
# HIPVMM_PROVIDER in the environment picks the provider: auto (the default), amd, cuda or host.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"

require_packages
configure "$root/build"
cmake --build "$root/build" --parallel "$(nproc)"
# Names of single cases have spaces.
(($# > 0)) || set -- --build-config whole --tests-regex '^[^ ]*$'
ctest --test-dir "$root/build" --output-on-failure --parallel "$(tests_at_once)" "$@"
