#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds everything for the GPUs of this machine, AMD's or NVIDIA's, in build-gpu/ and runs every test
# there, in one call and without installing anything: bash tests/gpu.sh FOLDER [CTEST_OPTION...].
# Without options the cases of a program share a process, because a driver needs two seconds to start
# beside seven other processes; with `-R .` each has its own, which takes ten minutes and more.
# FOLDER gets summary.txt, of at most 40 lines, for an issue; build.log, tests.log, info.json, the
# output of hipvmm-info, and on AMD defects.log, that of samples/rocm_defects: a defect of the HIP
# runtime is named in the summary, and no failure. Kernels are compiled if hipcc or nvcc is there.
# The packages of tests/support/packages.sh must be there; CMAKE_PREFIX_PATH names the folder of any
# not in the system's own. HIPVMM_COMMIT names the commit if git cannot.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"
source "$root/tests/support/gpu_summary.sh"
(($# > 0)) || stop "name the folder for the results: bash tests/gpu.sh FOLDER [CTEST_OPTION...]"
mkdir -p "$1"
results=$(cd "$1" && pwd)
shift
build=$root/build-gpu

if [[ -z ${HIPVMM_PROVIDER:-} ]]; then
  if [[ -e /dev/kfd ]]; then
    HIPVMM_PROVIDER=amd
  elif command -v nvidia-smi >/dev/null; then
    HIPVMM_PROVIDER=cuda
  else
    stop "neither /dev/kfd nor nvidia-smi is here, so there is no driver of AMD or NVIDIA. Run this on \
a machine with a GPU."
  fi
fi
export HIPVMM_PROVIDER
case $HIPVMM_PROVIDER in
  amd)
    driver="amdgpu $(cat /sys/module/amdgpu/version 2>/dev/null || echo "of the kernel")"
    PATH+=:${ROCM_PATH:-/opt/rocm}/bin  # for hipcc
    ;;
  cuda)
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1) ||
      stop "nvidia-smi fails, see above: the driver of this machine's GPUs is not loaded"
    ;;
  *) driver=none ;;
esac
commit=${HIPVMM_COMMIT:-$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)}
if ! command -v make >/dev/null && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
mapfile -t missing < <(required_packages |
  if [[ ${CMAKE_GENERATOR:-} == Ninja ]]; then grep -v '^make '; else cat; fi | missing_packages)
((${#missing[@]} == 0)) ||
  stop "missing: ${missing[*]}. Put what these Debian packages hold below one folder and name it in \
CMAKE_PREFIX_PATH."

if ! { configure "$build" &&
  cmake --build "$build" --parallel "$(nproc)"; } >"$results/build.log" 2>&1; then
  tail -n 40 "$results/build.log"
  stop "the build failed, see $results/build.log"
fi

left_out=$(sed -n 's/^-- hipvmm: \(\(no kernels in\|kernels without\) .*\)/\1/p' "$results/build.log")
rm -f "$results/info.json"
# A device that fails is told of in the report; without a report there is nothing to test.
"$build/bin/hipvmm-info" --json "$results/info.json" 2>&1 || [[ -s $results/info.json ]] ||
  stop "hipvmm-info told nothing of this machine, see above"
# member NAME INDENT: the strings of that name in the report, told apart by how deep they stand.
member() { sed -n "s/^$2\"$1\": \"\(.*\)\",\{0,1\}\$/\1/p" "$results/info.json"; }
gpus=$(member name '      ' | sort | uniq -c | sed 's/^ *//' | paste -sd, | sed 's/,/, /g')

# Names of single cases have spaces.
(($# > 0)) || set -- --build-config whole --tests-regex '^[^ ]*$'
status=0
# A process has a context of its own, which takes memory and time: not too many at once.
ctest --test-dir "$build" --output-on-failure --parallel 8 --output-junit "$results/tests.xml" \
  "$@" >"$results/tests.log" 2>&1 || status=$?

# ask_for_defects: the result of each program of samples/rocm_defects, a line each.
ask_for_defects() {
  local source name output status
  for source in "$root"/samples/rocm_defects/*.cpp; do
    name=$(basename "$source" .cpp)
    status=0
    output=$(timeout 120 "$build/samples/rocm_defects/$name" 2>&1) || status=$?
    printf '== %s\n%s\nexit status %d\n' "$name" "$output" "$status" >>"$results/defects.log"
    printf '%-26s %s\n' "$name" "$(sed -n 's/^result *//p' <<<"$output" | tail -n 1 |
      grep . || echo "no answer, exit status $status: see defects.log")"
  done
}
rm -f "$results/defects.log"
defects=  # NVIDIA's answers are known, and one of them takes a minute
[[ $HIPVMM_PROVIDER == cuda ]] || defects=$(ask_for_defects)

head=$(
  printf 'date      %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  printf 'commit    %s\n' "$commit"
  printf 'provider  %s, built with %s\n' "$HIPVMM_PROVIDER" "$(member built_with '    ')"
  printf 'GPU       %s\n' "${gpus:-none that could be described, see info.json}"
  printf 'driver    %s, Linux %s\n' "$driver" "$(uname -r)"
  printf 'compiler  %s\n' "$(c++ --version | head -n 1)"
  printf 'left out  %s\n' "${left_out:-none}"
)
failures=$(sed -n 's/^[ \t]*[0-9]* - \(.*\) (\([A-Za-z ]*\)).*/\1 (\2)/p' "$results/tests.log")
((status == 0)) || [[ -n $failures ]] || failures="ctest itself, status $status"
((status != 0)) || failures=
summarize "$head" "$results/tests.xml" "$failures" "$defects" "$results/info.json" \
  >"$results/summary.txt"
rm -f "$results/tests.xml"
cat "$results/summary.txt"
exit "$status"
