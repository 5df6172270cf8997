#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs growth_bench and pool_bench at full size on a machine with NVIDIA GPUs, from build-gpu/ as
# tests/gpu.sh makes it:
#   bash bench/gpu.sh FOLDER [growth|pool|exchange|sharing|slots|sleep|transfer|trace TRACES] [OPTION...]
# A name runs that one alone; options without a name are growth's. sharing needs two GPUs for all of
# its figures, exchange two GPUs and NCCL. trace runs trace_bench on the traces in the folder
# TRACES, with idle streams and with busy ones; RMM_DIR, if it is set, names RMM's CMake package;
# PyTorch is found by python3. FOLDER gets, under a name with the date, the benchmark and the GPU,
# the figures (.csv), tables (.md) and the output of the program (.log), of growth also the figures
# of each step (-steps.csv). The packages that tests/support/packages.sh lists must be there, as for
# tests/gpu.sh. HIPVMM_COMMIT names the commit if git cannot.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"
(($# > 0)) ||
  stop "name the folder for the results: bash bench/gpu.sh FOLDER [growth|pool|exchange|sharing|slots|sleep|transfer|trace TRACES] [OPTION...]"
mkdir -p "$1"
results=$(cd "$1" && pwd)
shift
benches=(growth pool)
case ${1:-} in
  growth | pool | exchange | sharing | slots | sleep | transfer)
    benches=("$1")
    shift
    ;;
  trace)
    benches=(trace)
    [[ -d ${2:-} ]] || stop "name the folder of the traces: bash bench/gpu.sh FOLDER trace TRACES"
    traces=$(cd "$2" && pwd)
    shift 2
    ;;
  -*) benches=(growth) ;;
  ?*) stop "'$1' is no benchmark: growth, pool, exchange, sharing, slots, sleep, transfer or trace" ;;
esac
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
if ! { configure "$build" ${RMM_DIR:+"-DRMM_DIR=$RMM_DIR"} &&
  cmake --build "$build" --parallel "$(nproc)" --target "${benches[@]/%/_bench}"; } \
  >"$results/bench_build.log" 2>&1; then
  tail -n 40 "$results/bench_build.log"
  stop "the build failed, see $results/bench_build.log"
fi
toolkit=$(sed -n 's/^hipvmm_cuda_toolkit_version:INTERNAL=//p' "$build/CMakeCache.txt")

machine="driver $(query driver_version | head -n 1), CUDA $toolkit, commit $commit"
cd "$root"
# run_bench NAME OPTION...: a missed bar is in the log, not in the exit status; a failure is in both.
run_bench() {
  local bench=$1
  shift
  local name
  name=$results/$(date -u +%F)-$bench${variant:-}-$gpu
  [[ $bench == transfer || $bench == exchange || $bench == slots || $bench == sharing || $bench == sleep ]] ||
    set -- --markdown "$name.md" "$@"
  build-gpu/bin/"${bench}_bench" --csv "$name.csv" --machine "$machine" "$@" 2>&1 |
    tee "$name.log"
}
status=0
for bench in "${benches[@]}"; do
  case $bench in
    growth)
      run_bench growth --max-bytes 64GiB \
        --steps-csv "$results/$(date -u +%F)-growth-$gpu-steps.csv" "$@" || status=$?
      ;;
    # Under a minute, and at most some 25 GiB.
    pool)
      run_bench pool --trim-bytes 8GiB --random-live 2GiB --loop-bytes 64MiB "$@" || status=$?
      ;;
    exchange)
      run_bench exchange --over nccl --ranks 2 --bytes 1GiB "$@" || status=$?
      ;;
    # A few seconds.
    sharing)
      run_bench sharing "$@" || status=$?
      ;;
    slots)
      run_bench slots "$@" || status=$?
      ;;
    sleep)
      run_bench sleep "$@" || status=$?
      ;;
    transfer)
      run_bench transfer "$@" || status=$?
      ;;
    trace)
      run_bench trace "$traces" "$@" || status=$?
      variant=-busy run_bench trace "$traces" --busy "$@" || status=$?
      ;;
  esac
done
exit "$status"
