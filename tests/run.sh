#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and tests, installing missing packages on Debian:
#   bash tests/run.sh                  in build/quick/: the library's layers, the cases of a program in
#                                      one process
#   bash tests/run.sh --all [OPTION...]  in build/: everything that is built here: the providers' own
#                                      rules, tools, samples, benchmarks, rules of sources, consumers
#   bash tests/run.sh OPTION...        in build/: builds everything; ctest gets the options, and each
#                                      case is a process of its own: -L vmm, -R region, -R .
# HIPVMM_PROVIDER in the environment picks the provider: auto (the default), amd, cuda or host.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"

# Names of single cases have spaces.
target=all
build=$root/build
options=()
if (($# == 0)); then
  target=library_tests
  build=$build/quick
  options=("${quick_build[@]}")
  set -- --build-config whole --tests-regex '^(core|vmm|mr|container|ipc|c)/(test|on)_[^ ]*$'
  echo "Builds the library and the programs that test its layers, and runs these: some 7 minutes of"
  echo "processor time, 5 minutes on two cores. bash tests/run.sh --all does everything that CI does"
  echo "with the Release build, in three times as long."
elif [[ $1 == --all ]]; then
  shift
  set -- --build-config whole --tests-regex '^[^ ]*$' "$@"
fi

require_packages
configure "$build" "${options[@]}"
cmake --build "$build" --parallel "$(nproc)" --target "$target"
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(tests_at_once)" "$@"
