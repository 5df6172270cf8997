# SPDX-License-Identifier: MIT
# Functions for all layering checks, sourced by each with the repository's root as first argument.
set -euo pipefail
export LC_ALL=C

layering_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "${1:?the root of the repository is missing}" && pwd)
problems=0

# complain SENTENCE: reports one broken rule and goes on, so that one run shows all of them.
complain() {
  printf '%s\n' "$1" >&2
  problems=$((problems + 1))
}

# finish CHECK: ends the check, with the number of broken rules.
finish() {
  if ((problems > 0)); then
    printf '%s: %d broken, see docs/development/checks.md for the rules\n' "$1" "$problems" >&2
    exit 1
  fi
  printf '%s: kept\n' "$1"
}

# cpp_files FOLDER...: the C++ files below folders of the root, those that exist.
cpp_files() {
  local folder
  for folder in "$@"; do
    [[ -d $root/$folder ]] || continue
    find "$root/$folder" -type f \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' \)
  done | sort
}

# provider_files: the C++ files of the providers, without their tests. The stand-in for ROCr is a
# project of its own.
provider_files() {
  cpp_files providers | grep -v "^$root/providers/\(.*/tests\|amd/rocr_stand_in\)/" || true
}

# pages: the Markdown pages, in the root and beside the code that they describe.
pages() {
  local folder
  find "$root" -maxdepth 1 -name '*.md'
  for folder in .github bench docs include providers samples src tests; do
    [[ ! -d $root/$folder ]] || find "$root/$folder" -name '*.md'
  done | sort
}

# code_of FILE...: path:line:code of C++ files without their comments and the contents of literals.
code_of() {
  awk -v root="$root" -f "$layering_dir/strip.awk" "$@" </dev/null
}

# includes_of FILE...: path line header of every #include, the header with its brackets or quotes.
includes_of() {
  (($# > 0)) || return 0
  (cd "$root" && grep -Hn '^[[:blank:]]*#[[:blank:]]*include' "${@#"$root"/}" || true) |
    sed -n 's/^\([^:]*\):\([0-9]*\):[[:blank:]]*#[[:blank:]]*include[[:blank:]]*\([<"][^>"]*[>"]\).*/\1 \2 \3/p'
}

# resolve VARIABLE FILE NAME FOLDER...: the file of the root that a quoted include in FILE names,
# beside it, in one of the folders, in its provider's own folder, or as providers/...; nothing when
# there is none.
resolve() {
  local -n found=$1
  local file=$2 name=$3 folder house=
  shift 3
  [[ $file != providers/*/* ]] || { house=${file#providers/} && house=providers/${house%%/*}; }
  for folder in "${file%/*}" "$@" ${house:+"$house"} ""; do
    found=${folder:+$folder/}$name
    [[ ! -f $root/$found ]] || return 0
  done
  found=
}

surface=$root/providers/hip_surface.def

# surface_used: "function home" of every function the library calls.
surface_used() {
  sed -n 's/^HIPVMM_HIP_USED(\(hip[A-Za-z0-9_]*\), \([a-z0-9_/]*\.cpp\)[,)].*/\1 \2/p' "$surface"
}

# surface_offered: every function that only the host provider's other users call.
surface_offered() {
  sed -n 's/^HIPVMM_HIP_OFFERED(\(hip[A-Za-z0-9_]*\))$/\1/p' "$surface"
}
