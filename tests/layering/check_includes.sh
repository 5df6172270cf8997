#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Includes go down: check_includes.sh ROOT. The table is that of docs/design/architecture.md.
source "$(dirname "$0")/common.sh"

declare -A may_include=(
  [core]="core"
  [runtime]="core runtime"
  [vmm]="core runtime vmm"
  [capability]="core runtime vmm capability"
  [strategy]="core runtime vmm capability strategy"
  [region]="core runtime vmm capability strategy region"
  [mr]="core runtime vmm capability strategy region mr"
  [container]="core runtime vmm capability strategy region mr container"
  [ipc]="core runtime vmm capability strategy region mr container ipc"
  [c]="core runtime vmm capability strategy region mr container ipc c"
  [preload]="core runtime vmm capability strategy region mr container ipc c preload"
  [tool]="core runtime vmm capability strategy region mr container ipc c tool"
  [compat]="core runtime vmm capability strategy region mr container ipc compat"
  [testing]="core runtime mr testing"
)

# set_layer VARIABLE PATH: the layer a file of the root belongs to; provider/<name> for providers.
# By name rather than printed: a process for each of hundreds of includes takes most of a second.
set_layer() {
  local -n result=$1
  local path=${2#include/hipvmm/}
  path=${path#src/}
  case $path in
    providers/*/*)
      path=${path#providers/}
      result=provider/${path%%/*}
      ;;
    providers/*) result=provider ;;
    */*) result=${path%%/*} ;;
    hipvmm.hpp | vector.hpp | pool.hpp | version.hpp) result=$path ;;
    hipvmm.h | python.h | serving.h | torch.h) result=c ;;
    *) result= ;;
  esac
}

is_vendor() {
  case $1 in
    hip/* | hip_* | hsa/* | rocm* | cuda* | cuda/* | nv* | boost/* | thrust/* | rccl/* | rmm/* | torch/* | ucp/*) return 0 ;;
  esac
  return 1
}

# Headers of the operating system that lie in folders.
is_system() {
  case $1 in
    sys/* | linux/* | asm/* | netinet/* | arpa/*) return 0 ;;
    */*) return 1 ;;
  esac
  return 0
}

check_outside() {  # WHERE FILE LAYER HEADER
  local where=$1 file=$2 layer=$3 header=$4
  if [[ $file == include/* && $layer != compat ]]; then
    if is_vendor "$header"; then
      complain "$where: a public header includes the vendor header <$header>: forward-declare what \
it needs and include it in src/"
    elif [[ $header == */* ]]; then
      complain "$where: a public header includes <$header>, which is neither of the standard \
library nor of hipvmm"
    fi
    return
  fi
  case $header in
    hip/*) return ;;
    cuda*) [[ $layer == provider/cuda ]] && return ;;
    # Others log by core/logger.hpp.
    spdlog/*) [[ $file == src/core/logger.cpp ]] && return ;;
    boost/stacktrace/*)
      [[ $layer == provider/host || $file == src/core/call_stack.cpp ]] && return
      ;;
    boost/*) [[ $layer != provider/* ]] && return ;;
    CLI/* | libfccp/* | nlohmann/*) [[ $layer == tool ]] && return ;;
  esac
  if is_vendor "$header" && [[ $layer != compat ]]; then
    complain "$where: ${layer} may not include <$header>"
  elif ! is_vendor "$header" && ! is_system "$header"; then
    complain "$where: <$header> belongs to no known library: name it in tests/layering/\
check_includes.sh and its reason in docs/development/building.md"
  fi
}

check_inside() {  # WHERE FILE LAYER TARGET
  local where=$1 file=$2 layer=$3 target=$4 to
  set_layer to "$target"
  if [[ $file == src/core/hip_compat.hpp ]]; then
    complain "$where: core/hip_compat.hpp includes nothing of hipvmm: providers use it too"
  elif [[ $file == providers/* ]]; then
    # Files in providers/ itself are for all of them.
    [[ $to == provider || $to == "$layer" || $target == src/core/hip_compat.hpp ]] ||
      complain "$where: a provider is HIP and may not include $target of hipvmm"
  elif [[ $file == include/hipvmm/*.hpp && $file != include/hipvmm/*/* ]]; then
    [[ $target == include/* ]] || complain "$where: an entry header includes public headers only"
  elif [[ $to == version.hpp ]]; then
    :
  elif [[ $layer == provider || -z ${may_include[$layer]:-} ]]; then
    [[ $target == include/hipvmm/provider/* && $file == include/hipvmm/provider/* ]] ||
      complain "$where: $file may not include $target"
  elif [[ " ${may_include[$layer]} " != *" $to "* ]]; then
    complain "$where: $layer may not include $to: includes go down, see docs/design/architecture.md"
  fi
}

mapfile -t files < <(cpp_files include src testing && provider_files)
((${#files[@]} > 0)) || complain "$root holds no C++ file in include/ or src/"
for path in "${files[@]}"; do
  file=${path#"$root"/}
  set_layer layer "$file"
  [[ $file == include/* && $file != include/hipvmm/* ]] && layer=
  case $layer in
    provider/* | provider | hipvmm.hpp | vector.hpp | pool.hpp | version.hpp) ;;
    *) [[ -n $layer && -n ${may_include[$layer]:-} ]] ||
      complain "$file: its folder is no layer: move it, or add the layer to docs/design/architecture.md \
and tests/layering/check_includes.sh" ;;
  esac
done

while read -r file line header; do
  where=$file:$line
  set_layer layer "$file"
  name=${header:1:-1}
  case $header in
    *..*) complain "$where: $header climbs folders: name the file from src/ or by <hipvmm/...>" ;;
    '<hipvmm/'*)
      if [[ -f $root/include/$name ]]; then
        check_inside "$where" "$file" "$layer" "include/$name"
      else
        complain "$where: $header does not exist in include/"
      fi
      ;;
    '<'*) check_outside "$where" "$file" "$layer" "$name" ;;
    *)
      resolve target "$file" "$name" src
      if [[ $file == include/* ]]; then
        complain "$where: a public header includes $header: write <hipvmm/...>"
      elif [[ -z $target ]]; then
        complain "$where: $header exists neither beside the file nor in src/ or its provider"
      else
        check_inside "$where" "$file" "$layer" "$target"
      fi
      ;;
  esac
done < <(includes_of "${files[@]}")

finish "include direction"
