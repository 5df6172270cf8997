#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The preload replaces its list, and no function of its own: check_preload.sh ROOT NM FRONT CORE.
# FRONT exports the names of src/preload/exports.map and needs no function of the C++ library. CORE
# leaves none of those names undefined, or its own calls would be replaced.
source "$(dirname "$0")/common.sh"
nm=$2
front=$3
core=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names() { "$nm" -P --dynamic "$@" | cut -d' ' -f1 | sed 's/@.*//' | sort -u; }

sed -n 's/^ \{4\}\([a-zA-Z_]*\(\[m\]\)\{0,1\}\);$/\1/p' "$root/src/preload/exports.map" |
  sed 's/\[m\]/m/' | sort >"$work/listed"
names --defined-only "$front" >"$work/exported"
while read -r name; do
  complain "${front##*/} exports $name, which src/preload/exports.map does not list"
done < <(comm -13 "$work/listed" "$work/exported")
while read -r name; do
  # On CUDA only.
  [[ $name == dlsym ]] ||
    complain "src/preload/exports.map lists $name, which ${front##*/} does not export"
done < <(comm -23 "$work/listed" "$work/exported")
while read -r name; do
  complain "${front##*/} uses $name of the C++ library, of which a program may bring another"
done < <(names --undefined-only "$front" |
  grep -E '^(_Z|__cxa_(guard|throw|begin|pure)|__gxx)' || true)

names --undefined-only "$core" >"$work/undefined"
while read -r name; do
  complain "${core##*/} calls $name, which is replaced: add it to --wrap and real_hip.cpp"
done < <(grep '^hip[A-Z]' "$work/listed" | comm -12 - "$work/undefined")
names --defined-only "$core" >"$work/core"
[[ $(tr '\n' ' ' <"$work/core") == 'hipvmm_preload_core hipvmm_preload_problem ' ]] ||
  complain "${core##*/} exports not just hipvmm_preload_core and hipvmm_preload_problem: $(tr '\n' ' ' <"$work/core")"

finish "what the preload replaces"
