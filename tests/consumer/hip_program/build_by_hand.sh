#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A HIP program compiled and linked with one command, the provider's name in the place of amdhip64:
# build_by_hand.sh COMPILER PREFIX HIP_INCLUDE_DIR FOLDER. Runs it, asking for leaks at its end.
set -euo pipefail
compiler=$1
prefix=$2
hip_include=$3
folder=$4
source=$(dirname "$0")/pipeline.cpp

mkdir -p "$folder"
libraries=$(dirname "$(find "$prefix" -name 'libhipvmm_provider_host.so' -print -quit)")
"$compiler" -std=c++17 -D__HIP_PLATFORM_AMD__ -isystem "$hip_include" "$source" \
  -L"$libraries" -lhipvmm_provider_host -Wl,-rpath,"$libraries" -o "$folder/pipeline"
HIPVMM_HOST_LEAKS=1 "$folder/pipeline"
