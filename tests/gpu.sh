#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds everything for NVIDIA GPUs in build-gpu/ and runs every test there, in one call and without
# installing anything: bash tests/gpu.sh FOLDER [CTEST_OPTION...]. FOLDER gets summary.txt, build.log
# and tests.log. What tests/support/packages.sh lists must be there; CMAKE_PREFIX_PATH names the
# folder of what is not in the system's own. HIPVMM_COMMIT names the commit where git cannot.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"
(($# > 0)) || stop "name the folder for the results: bash tests/gpu.sh FOLDER [CTEST_OPTION...]"
mkdir -p "$1"
results=$(cd "$1" && pwd)
shift
build=$root/build-gpu
export HIPVMM_PROVIDER=cuda

command -v nvidia-smi >/dev/null ||
  stop "nvidia-smi is missing, so there is no NVIDIA driver. Run this on a machine with a GPU."
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | sort | uniq -c | sed 's/^ *//')
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
commit=${HIPVMM_COMMIT:-$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)}
if ! command -v make >/dev/null && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
mapfile -t missing < <(required_packages |
  if [[ ${CMAKE_GENERATOR:-} == Ninja ]]; then grep -v '^make '; else cat; fi | missing_packages)
((${#missing[@]} == 0)) ||
  stop "missing: ${missing[*]}. Put what these Debian packages hold below one folder and name it in \
CMAKE_PREFIX_PATH."

# Another compiler than CI's may warn of more; that is not what this looks for.
if ! { configure "$build" -DCMAKE_COMPILE_WARNING_AS_ERROR=OFF &&
  cmake --build "$build" --parallel "$(nproc)"; } >"$results/build.log" 2>&1; then
  tail -n 40 "$results/build.log"
  stop "the build failed, see $results/build.log"
fi
toolkit=$(sed -n 's/^hipvmm_cuda_toolkit_version:INTERNAL=//p' "$build/CMakeCache.txt")

status=0
# A process has a context of its own, which takes memory and time: not too many at once.
ctest --test-dir "$build" --output-on-failure --parallel 8 --output-junit "$results/tests.xml" \
  "$@" >"$results/tests.log" 2>&1 || status=$?

# count_results: counts by label from ctest's JUnit file. A test that skips says so and passes.
count_results() {
  awk '
    function finish() {
      if (label == "") return
      if (state == "fail") failed[label]++
      else if (state != "run") left_out[label]++
      else if (skips) skipped[label]++
      else passed[label]++
      labels[label] = 1
      label = ""
    }
    /<testcase / {
      finish()
      label = $0; sub(/.*<testcase name="/, "", label); sub(/[\/"].*/, "", label)
      state = $0; sub(/.* status="/, "", state); sub(/".*/, "", state)
      skips = 0
    }
    /skipped: / { skips = 1 }
    END {
      finish()
      printf "%-12s %7s %7s %7s %7s\n", "label", "passed", "failed", "skipped", "not run"
      for (label in labels)
        printf "%-12s %7d %7d %7d %7d\n", label, passed[label], failed[label], skipped[label],
               left_out[label] | "sort"
    }' "$results/tests.xml"
}

{
  printf 'date      %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  printf 'commit    %s\n' "$commit"
  printf 'GPU       %s\n' "$gpus"
  printf 'driver    %s\n' "$driver"
  printf 'CUDA      %s\n' "$toolkit"
  printf 'compiler  %s\n\n' "$(c++ --version | head -n 1)"
  count_results
  printf '\n'
  if ((status == 0)); then echo "all tests passed"; else
    echo "FAILED:"
    sed -n 's/^[ \t]*[0-9]* - \(.*\) (\([A-Za-z ]*\)).*/\1 (\2)/p' "$results/tests.log"
  fi
} >"$results/summary.txt"
rm -f "$results/tests.xml"
cat "$results/summary.txt"
exit "$status"
