#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles torch_allocator.cc against an installed PyTorch: torch_allocator.sh FOLDER. Puts
# libtorch_allocator.so and torch_allocator.log into FOLDER and prints PyTorch's version. Ends with
# 3 if there is no PyTorch for CUDA, with 1 if it does not compile; the log says why. A library that
# is newer than its sources and for the same PyTorch stays. PYTHON names the python that has torch
# (python3), CXX the compiler (c++).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
(($# == 1)) || { echo "torch_allocator.sh: name the folder for the library" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
log=$folder/torch_allocator.log
library=$folder/libtorch_allocator.so
made_for=$folder/made_for
exec 3>&1 >"$log" 2>&1

# Version, CUDA's version, folder and whether the C++11 ABI is used, one a line.
facts=$("${PYTHON:-python3}" -c '
import os, torch
print(torch.__version__)
print(torch.version.cuda or "none")
print(os.path.dirname(torch.__file__))
print(int(torch.compiled_with_cxx11_abi()))') || { echo "there is no PyTorch"; exit 3; }
mapfile -t fact <<<"$facts"
((${#fact[@]} >= 4)) || { echo "PyTorch says too little of itself: $facts"; exit 3; }
# Output of torch's import stands before.
fact=("${fact[@]: -4}")
version=${fact[0]} cuda=${fact[1]} torch=${fact[2]} abi=${fact[3]}
[[ $cuda != none ]] || { echo "PyTorch $version is not built for CUDA"; exit 3; }

if [[ -f $library && $library -nt $here/torch_allocator.cc && $library -nt $here/trace_allocator.h &&
  $(cat "$made_for" 2>/dev/null) == "${fact[*]}" ]]; then
  echo "$library is up to date"
  echo "$version" >&3
  exit 0
fi
rm -f "$library" "$made_for"

# c10's headers include CUDA's: the toolkit's, or those that came with PyTorch.
folders=("${CUDA_HOME:-}/include" /usr/local/cuda/include)
if nvcc=$(command -v nvcc); then folders+=("$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include"); fi
folders+=("$(dirname "$torch")"/nvidia/*/include)
toolkit=
for each in "${folders[@]}"; do
  if [[ -f $each/cuda_runtime_api.h ]]; then
    toolkit=$each
    break
  fi
done
[[ -n $toolkit ]] || { echo "no cuda_runtime_api.h in ${folders[*]}"; exit 1; }

# Older releases want C++17, newer ones C++20.
for standard in c++20 c++17; do
  command=("${CXX:-c++}" "-std=$standard" -O2 -fPIC -shared "-D_GLIBCXX_USE_CXX11_ABI=$abi"
    -I "$torch/include" -I "$torch/include/torch/csrc/api/include" -I "$toolkit"
    "$here/torch_allocator.cc" -o "$library"
    "-L$torch/lib" "-Wl,-rpath,$torch/lib" -lc10_cuda -lc10)
  echo "${command[*]}"
  if "${command[@]}"; then
    echo "${fact[*]}" >"$made_for"
    echo "$version" >&3
    exit 0
  fi
done
exit 1
