#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the shared library for NVIDIA GPUs and runs every sample of this folder with it:
# samples/slots/run.sh OUT [NAME...]. NAME is a file of this folder, such as cupy_arrays.py; all by
# default. OUT gets of each its output (NAME.txt) and its figures (NAME.csv), and which machine it
# was (machine.txt). A sample whose library is not installed says so and is skipped; one that fails
# does not stop the others, and the status is then 1.
#
# BUILD is the folder of the build, build/slots by default; HIP_INCLUDE that of HIP's headers, if
# CMake does not find them; PYTHON the interpreter that has the libraries; SLOTS_OPTIONS the
# samples' options, such as "--steps 20 --rounds 1".
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
(($# > 0)) || { echo "usage: samples/slots/run.sh OUT [NAME...]" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
build=${BUILD:-$root/build/slots}
python=${PYTHON:-python3}
cd "$root"

options=(-DHIPVMM_PROVIDER=cuda -DBUILD_SHARED_LIBS=ON -DHIPVMM_TESTS=OFF -DHIPVMM_BENCH=OFF
  -DHIPVMM_SAMPLES=OFF -DCMAKE_BUILD_TYPE=Release)
[[ -z ${HIP_INCLUDE:-} ]] || options+=("-DHIPVMM_HIP_INCLUDE_DIR=$HIP_INCLUDE")
command -v ninja >/dev/null && options+=(-G Ninja)
{ cmake -S . -B "$build" "${options[@]}" && cmake --build "$build" --parallel; } >"$out/build.txt" 2>&1 || {
  tail -n 20 "$out/build.txt"
  echo "samples/slots/run.sh: the library cannot be built, see $out/build.txt" >&2
  exit 1
}

export HIPVMM_LIBRARY=$build/lib/libhipvmm.so
export PYTHONPATH=$root/python/src${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
[[ ! -x $build/bin/hipvmm-run ]] || export HIPVMM_RUN=$build/bin/hipvmm-run
{
  date --iso-8601=seconds
  git rev-parse HEAD 2>/dev/null || true
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
  "$python" -m hipvmm.info
} >"$out/machine.txt" 2>&1 || {
  tail -n 5 "$out/machine.txt"
  echo "samples/slots/run.sh: the library does not load, see $out/machine.txt" >&2
  exit 1
}

names=("$@")
((${#names[@]} > 0)) || mapfile -t names < <(cd samples/slots && ls -- *.py)
failed=0
for name in "${names[@]}"; do
  echo "== $name"
  # shellcheck disable=SC2086  # several options
  "$python" "samples/slots/$name" --csv "$out/${name%.py}.csv" ${SLOTS_OPTIONS:-} 2>&1 |
    tee "$out/${name%.py}.txt" || {
    echo "$name failed"
    failed=1
  }
done
exit "$failed"
