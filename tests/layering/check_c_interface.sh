#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The C interface only grows: check_c_interface.sh ROOT [LIST_OF_NAMES]. The C headers in
# include/hipvmm declare the names in packaging/abi/hipvmm_c.symbols. With the names that a library
# exports, a line each, those of the interface are the functions of the list. The list of the newest
# release before this commit, by its tag vVERSION, stays in the list, and an addition raises
# HIPVMM_C_VERSION. Until a release has a list, the one here is all that holds the interface.
source "$(dirname "$0")/common.sh"
header=$root/include/hipvmm/hipvmm.h
list=$root/packaging/abi/hipvmm_c.symbols

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -f "$root/packaging/abi/declarations.awk" "${header%/*}"/*.h | sort -u >"$work/declared"
grep -v '^#' "$list" | sort -u >"$work/listed"
[[ -s $work/declared ]] || complain "$header declares nothing"

while IFS= read -r line; do
  complain "$header: programs rely on what is gone or was changed: $line"
done < <(comm -13 "$work/declared" "$work/listed")
while IFS= read -r line; do
  complain "packaging/abi/hipvmm_c.symbols lacks what is new: $line"
done < <(comm -23 "$work/declared" "$work/listed")

# Prints a file as the newest release had it.
released() { git -C "$root" show "$release:$1" 2>/dev/null; }
# Prints HIPVMM_C_VERSION of a header.
c_version() { sed -n 's/^#define HIPVMM_C_VERSION //p'; }

kept_since="the list here; no release has one yet"
release=
# A copy of the tree within another repository has no release.
if [[ $(git -C "$root" rev-parse --show-toplevel 2>/dev/null) == "$root" ]]; then
  release=$(git -C "$root" describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null) || release=
fi
if [[ -n $release ]] && released packaging/abi/hipvmm_c.symbols >"$work/list"; then
  kept_since="the list of $release"
  grep -v '^#' "$work/list" | sort -u >"$work/released"
  while IFS= read -r line; do
    complain "packaging/abi/hipvmm_c.symbols: programs of $release rely on what is gone: $line"
  done < <(comm -13 "$work/listed" "$work/released")
  if [[ -n $(comm -23 "$work/listed" "$work/released") ]] &&
    (($(c_version <"$header") <= $(released include/hipvmm/hipvmm.h | c_version))); then
    complain "$header: HIPVMM_C_VERSION is that of $release, and the interface has grown since"
  fi
fi

if (($# > 1)); then
  sed -n 's/^[^(]*\(hipvmm_[a-z0-9_]*\)(.*/\1/p' "$work/listed" |
    sort -u >"$work/functions"
  grep '^hipvmm_' "$2" | sort -u >"$work/exported"
  while IFS= read -r name; do
    complain "the library does not export $name"
  done < <(comm -23 "$work/functions" "$work/exported")
  while IFS= read -r name; do
    complain "the library exports $name, which hipvmm.h does not declare"
  done < <(comm -13 "$work/functions" "$work/exported")
fi

finish "the C interface only grows, by $kept_since"
