#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Symbols used = listed = exported: check_symbols.sh ROOT COMPILER NM LIBRARY [PROVIDER]. The names
# that the library leaves undefined are those that hip_surface.def calls used; a provider exports
# these and those that the list calls offered. A program compiled with the headers refers to a
# name with their version, which the library defines.
source "$(dirname "$0")/common.sh"
compiler=$2
nm=$3
library=$4
provider=${5:-}

# hip_names NM_OPTION...: the HIP functions among the symbols, without their versions and without the
# suffix that headers from 6.0 on give to functions of hipDeviceProp_t. In the HIP 10 line
# hipMemAdvise is an inline function, so that the library leaves its successor undefined.
hip_names() {
  "$nm" -P "$@" | sed -n 's/^\(hip[A-Z][A-Za-z0-9_]*\)[@ ].*/\1/p' | sed 's/R0600$//' | sort -u
}

compare() {  # LISTED FOUND FILE USED_OR_EXPORTED
  local name
  while read -r name; do
    complain "$name is listed in providers/hip_surface.def but not $4 by ${3##*/}: drop the line"
  done < <(comm -23 "$1" "$2")
  while read -r name; do
    complain "$name is $4 by ${3##*/} but not listed in providers/hip_surface.def: add a line"
  done < <(comm -13 "$1" "$2")
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
surface_used | cut -d' ' -f1 | sort >"$work/used"
[[ -s $work/used ]] || complain "providers/hip_surface.def lists no function"

dynamic=()
[[ $library == *.a ]] || dynamic=(--dynamic)
hip_names --undefined-only "${dynamic[@]}" "$library" | sed 's/^hipMemAdvise_v2$/hipMemAdvise/' |
  sort -u >"$work/undefined"
compare "$work/used" "$work/undefined" "$library" used

if [[ -n $provider ]]; then
  { cat "$work/used"; surface_offered; } | sort >"$work/surface"
  hip_names --dynamic --defined-only "$provider" >"$work/exported"
  compare "$work/surface" "$work/exported" "$provider" exported
fi

# interface_of FOLDER...: the name to which an optimised program refers, by the headers of these folders.
interface_of() {
  printf '#include <hipvmm/runtime/device.hpp>\nint main() {}\n' |
    "$compiler" -std=c++17 -O2 "${@/#/-I}" -x c++ -c - -o "$work/program.o"
  "$nm" -C -u "$work/program.o" | sed -n 's/^ *U hipvmm::detail::\(interface_[0-9].*\)/\1/p'
}
interface=$(interface_of "$root/include")
"$nm" -C "$library" 2>/dev/null >"$work/defined" || true
grep -qE " [BRVS] hipvmm::detail::${interface:-nothing}\$" "$work/defined" ||
  complain "${library##*/} does not define the name with its version to which programs refer: \
'$interface', of include/hipvmm/version.hpp"
mkdir -p "$work/other/hipvmm"
sed 's/^\(#define HIPVMM_VERSION_MINOR\) .*/\1 99/' "$root/include/hipvmm/version.hpp" \
  >"$work/other/hipvmm/version.hpp"
[[ $(interface_of "$work/other" "$root/include") == interface_*_99* ]] ||
  complain "a program that is compiled with headers of another version refers to no other name"

finish "HIP symbols used, listed and exported"
