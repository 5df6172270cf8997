#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Symbols used = listed = exported: check_symbols.sh ROOT NM LIBRARY [PROVIDER]. What the built
# library leaves undefined is what hip_surface.def calls used; what a provider of this tree exports
# is that and what the list calls offered.
source "$(dirname "$0")/common.sh"
nm=$2
library=$3
provider=${4:-}

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

finish "HIP symbols used, listed and exported"
