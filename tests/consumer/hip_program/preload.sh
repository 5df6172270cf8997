#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A HIP program that was linked to AMD's runtime, run on the host provider without linking it again:
# preload.sh COMPILER PREFIX HIP_INCLUDE_DIR AMDHIP_LIBRARY FOLDER.
set -euo pipefail
compiler=$1
prefix=$2
hip_include=$3
amdhip=$4
folder=$5
source=$(dirname "$0")/pipeline.cpp

mkdir -p "$folder"
"$compiler" -std=c++17 -D__HIP_PLATFORM_AMD__ -isystem "$hip_include" "$source" "$amdhip" \
  -Wl,-rpath,"$(dirname "$amdhip")" -o "$folder/pipeline"
provider=$(find "$prefix" -name libhipvmm_provider_host.so -print -quit)
LD_PRELOAD=$provider HIPVMM_HOST_LEAKS=1 "$folder/pipeline"
