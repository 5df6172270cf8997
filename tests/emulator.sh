#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs test programs on an emulator of AMD's GPUs that stands below ROCr, with one GPU and with two:
#   bash tests/emulator.sh [CONFIG] [SUITE...]
# CONFIG is a file that the emulator gets as --config; it should have two GPUs. A SUITE is a program
# test_SUITE, or SUITE without its slow cases; usually core vmm ipc c mr container. The environment:
# - HIPVMM_EMULATOR: the command, which is started as COMMAND [--config CONFIG] -- PROGRAM...;
#   usually the first of rocjitsu and mirage on PATH.
# - HIPVMM_BUILD: a build for AMD's HIP runtime whose programs run; usually build-emulator/ is made.
# - HIPVMM_EMULATOR_SECONDS: the time for all, usually 1800. A suite that has none left is named.
# - HIPVMM_TEST_BYTES: the most that a test fills with a pattern, usually 262144 here.
# - HIPVMM_EMULATOR_SLOW=1: slow cases run too.
# The page docs/guides/amd_emulator.md has more.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"

usual_suites=(core vmm ipc c mr container)
# Random operations, contract suites and cases with many pools, which take most of the time.
declare -A slow_cases=([mr]='*random*,*contract*,*numbers name are served*' [container]='*random*'
  [vmm]='*random*' [ipc]='*random*')

config=()
if (($# > 0)) && [[ -f $1 ]]; then
  config=(--config "$(realpath "$1")")
  shift
fi
suites=("$@")
(($# > 0)) || suites=("${usual_suites[@]}")
emulator=${HIPVMM_EMULATOR:-$(command -v rocjitsu || command -v mirage || true)}
[[ -n $emulator ]] || stop "neither rocjitsu nor mirage is on PATH: install an emulator of AMD's GPUs, \
or name its command in HIPVMM_EMULATOR"
command -v "$emulator" >/dev/null || stop "$emulator is no command: set HIPVMM_EMULATOR to one"
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
export HIPVMM_TEST_BYTES=${HIPVMM_TEST_BYTES:-262144}
export XDG_CACHE_HOME=$results/cache  # findings about this GPU are not for the user's
end=$((SECONDS + ${HIPVMM_EMULATOR_SECONDS:-1800}))
left_out=()

build=${HIPVMM_BUILD:-}
if [[ -z $build ]]; then
  build=$root/build-emulator
  targets=(hipvmm-info)
  for suite in "${suites[@]}"; do targets+=("test_$suite"); done
  { HIPVMM_PROVIDER=amd HIPVMM_BENCH=OFF configure "$build" &&
    cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}"; } \
    >"$results/build.log" 2>&1 || {
    tail -n 40 "$results/build.log"
    stop "the build for AMD's HIP runtime failed, see above; HIPVMM_BUILD names one that exists"
  }
fi
for program in hipvmm-info "${suites[@]/#/test_}"; do
  [[ -x $build/bin/$program ]] || stop "$build/bin/$program does not exist: build the target $program"
done

# emulate SECONDS PROGRAM [ARGUMENT...]: the program on the emulator.
emulate() { timeout --kill-after=10 "$1" "$emulator" "${config[@]}" -- "$build/bin/$2" "${@:3}"; }

# devices: how many GPUs hipvmm-info has described.
devices() { grep -c '^      "ordinal": ' "$results/info.json" || true; }

# finding TRAIT: the finding of hipvmm-info for the first GPU.
finding() { sed -n "/^        \"$1\": {/,/}/s/.*\"finding\": \"\(.*\)\".*/\1/p" "$results/info.json" | head -n 1; }

# counts LOG: passed and failed cases, and those that skipped. The end of the time is no failure of
# the case that ran.
counts() {
  awk '/: MESSAGE: skipped/ { ++skipped }
    /CRASHED: SIGTERM/ { ++stopped }
    /^\[doctest\] test cases:/ { passed = $6; failed = $9; complete = 1 }
    END { if (!complete) print "- - -"; else print passed - skipped, failed - stopped, skipped + 0 }' "$1"
}

# run_suite SUITE GPUS: a line of the table; fails if a case or the program fails.
run_suite() {
  local log=$results/$1-$2.log start=$SECONDS remaining=$((end - SECONDS)) exclude= status=0 line
  if ((remaining <= 0)); then
    left_out+=("$1 with $2 GPUs: no time was left")
    return 0
  fi
  if [[ -n ${slow_cases[$1]:-} && ${HIPVMM_EMULATOR_SLOW:-0} != 1 ]]; then
    exclude=--test-case-exclude=${slow_cases[$1]}
    (($2 > 1)) || left_out+=("$1: cases named ${slow_cases[$1]}, which HIPVMM_EMULATOR_SLOW=1 adds")
  fi
  # The runtime hides all GPUs but the first.
  ( (($2 > 1)) || export HIP_VISIBLE_DEVICES=0
    emulate "$remaining" "test_$1" ${exclude:+"$exclude"} ) >"$log" 2>&1 || status=$?
  line=$(counts "$log")
  printf '%-12s %4d %7s %7s %7s %8d\n' "$1" "$2" $line $((SECONDS - start))
  ((status != 0)) || return 0
  if ((status == 124 || status == 137)); then
    left_out+=("$1 with $2 GPUs: stopped when the time was over")
    grep -q ': ERROR: ' "$log" || return 0
  fi
  grep -h -B4 -A4 ': ERROR: ' "$log" | head -n 40 || true
  echo "test_$1 with $2 GPUs ended with status $status"
  return 1
}

# One chunk is mapped, written and read: without that, vectors and pools would run on hipMalloc.
status=0
emulate "$((end - SECONDS))" hipvmm-info --json "$results/info.json" >"$results/info.log" 2>&1 || status=$?
[[ -s $results/info.json ]] || {
  tail -n 20 "$results/info.log"
  stop "hipvmm-info does not run on $emulator (status $status), see above"
}
gpus=$(devices)
((gpus > 0)) || stop "$emulator shows no GPU: name a CONFIG with one or two"
[[ $(finding virtual_memory) == yes ]] ||
  left_out+=("virtual memory: $emulator maps no chunk, so vectors and pools ran on hipMalloc")
((gpus > 1)) || left_out+=("two GPUs: the emulator shows $gpus")

echo "emulator  $emulator ${config[*]}"
echo "GPU       $gpus, $(sed -n 's/^      "name": "\(.*\)",*$/\1/p' "$results/info.json" | head -n 1)"
echo "virtual memory  $(finding virtual_memory)"
printf '%-12s %4s %7s %7s %7s %8s\n' suite GPUs passed failed skipped seconds
failed=0
for suite in "${suites[@]}"; do
  for count in 1 2; do
    ((count <= gpus)) || continue
    run_suite "$suite" "$count" || failed=$((failed + 1))
  done
done
for each in "${left_out[@]}"; do echo "left out: $each"; done
((failed == 0)) || stop "$failed of the programs failed, see above"
echo "all that ran passed"
