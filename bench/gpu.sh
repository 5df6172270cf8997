#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs growth_bench at full size on a machine with NVIDIA GPUs, from build-gpu/ as tests/gpu.sh makes
# it: bash bench/gpu.sh FOLDER [OPTION...]. The options go to growth_bench. FOLDER gets, under a name
# with the date and the GPU, the figures (.csv), those of each step (-steps.csv), tables for
# docs/benchmarks.md (.md) and what the program said (.log). What tests/support/packages.sh lists
# must be there, as for tests/gpu.sh. HIPVMM_COMMIT names the commit where git cannot.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"
(($# > 0)) || stop "name the folder for the results: bash bench/gpu.sh FOLDER [OPTION...]"
mkdir -p "$1"
results=$(cd "$1" && pwd)
shift
build=$root/build-gpu
export HIPVMM_PROVIDER=cuda

command -v nvidia-smi >/dev/null ||
  stop "nvidia-smi is missing, so there is no NVIDIA driver. Run this on a machine with a GPU."
# query FIELD: of each GPU, one a line.
query() { nvidia-smi --query-gpu="$1" --format=csv,noheader; }
gpus=$(query name | wc -l)
gpu=$(query name | sed -n '1{s/^NVIDIA //;s/ /-/g;p}' | tr '[:upper:]' '[:lower:]')
((gpus == 1)) || gpu=$gpus-$gpu
commit=${HIPVMM_COMMIT:-$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)}

if ! command -v make >/dev/null && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
# Another compiler than CI's may warn of more; that is not what this looks for.
if ! { configure "$build" -DCMAKE_COMPILE_WARNING_AS_ERROR=OFF &&
  cmake --build "$build" --parallel "$(nproc)" --target growth_bench; } \
  >"$results/bench_build.log" 2>&1; then
  tail -n 40 "$results/bench_build.log"
  stop "the build failed, see $results/bench_build.log"
fi
toolkit=$(sed -n 's/^hipvmm_cuda_toolkit_version:INTERNAL=//p' "$build/CMakeCache.txt")

name=$(date -u +%F)-growth-$gpu
cd "$root"
build-gpu/bin/growth_bench --max-bytes 64GiB --csv "$results/$name.csv" \
  --steps-csv "$results/$name-steps.csv" --markdown "$results/$name.md" \
  --machine "driver $(query driver_version | head -n 1), CUDA $toolkit, commit $commit" "$@" 2>&1 |
  tee "$results/$name.log"
