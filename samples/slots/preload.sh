#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Programs that know nothing of hipvmm on an NVIDIA GPU, with and without hipvmm-run:
# preload.sh BUILD [PYTHON]. BUILD is a build for the provider cuda (HIPVMM_PROVIDER=cuda). Prints a
# line for each: whether its results are the same, how many calls were replaced, and the seconds
# of both. A program that is not here is skipped. Exits with 1 if results differ, or if none
# of a program's calls was replaced.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
python=${2:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
problems=0

# compare NAME COMMAND...: the command prints its result and nothing else.
compare() {
  local name=$1 start plain replaced counts same=no status=0
  shift
  start=$EPOCHREALTIME
  if ! "$@" >"$work/plain" 2>"$work/plain.err"; then
    printf '%-24s skipped: %s\n' "$name" "$(grep . "$work/plain.err" | tail -n 1)"
    return
  fi
  plain=$(seconds_since "$start")
  rm -f "$work"/counts.*
  start=$EPOCHREALTIME
  "$build/bin/hipvmm-run" --json "$work/counts.%p" "$@" >"$work/replaced" 2>"$work/replaced.err" ||
    status=$?
  replaced=$(seconds_since "$start")
  ! cmp -s "$work/plain" "$work/replaced" || same=yes
  counts=$("$python" - "$work" <<'END'
import glob, json, sys
allocations = frees = 0
passed = {}
for path in glob.glob(sys.argv[1] + "/counts.*"):
    with open(path, encoding="utf-8") as file:
        counts = json.load(file)
    allocations += counts["allocations"] + counts["stream_allocations"]
    frees += counts["frees"] + counts["stream_frees"]
    for reason, count in counts["passed"].items():
        passed[reason] = passed.get(reason, 0) + count
passed = ", ".join(f"{reason} {count}" for reason, count in passed.items() if count)
print(f"{allocations} allocations and {frees} frees replaced, passed: {passed or 'none'}")
END
  )
  printf '%-24s same result: %s; %s; %s s without, %s s with\n' "$name" "$same" "$counts" "$plain" \
    "$replaced"
  sed 's/^/    /' "$work/replaced.err" | head -n 8
  [[ $same == yes && $status == 0 && $counts != "0 allocations"* ]] || problems=$((problems + 1))
}

seconds_since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f", to - from }'; }

for library in torch torch_async cupy numba; do
  compare "$library" "$python" "$here/preload_program.py" "$library"
done
PYTORCH_NO_CUDA_MEMORY_CACHING=1 compare torch_no_caching "$python" "$here/preload_program.py" torch

# A program of the CUDA runtime, which nvcc links into it, and the same with the runtime's library.
if command -v nvcc >/dev/null; then
  for runtime in static shared; do
    nvcc -O2 -cudart "$runtime" -o "$work/$runtime" "$here/preload_program.cu"
    compare "cudart_$runtime" "$work/$runtime"
  done
else
  echo "cudart                   skipped: nvcc was not found"
fi
# A program of HIP's names.
[[ ! -x $build/bin/preload_memory_program ]] ||
  for task in copies threads captures errors info ranges devices waits streams held; do
    compare "hip_$task" "$build/bin/preload_memory_program" "$task"
  done
((problems == 0)) || {
  echo "$problems programs differ, or none of their calls was replaced"
  exit 1
}
