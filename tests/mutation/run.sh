#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Plants mistakes into a copy of the library, one at a time, and demands that a test fails for each:
#
#   bash tests/mutation/run.sh [--folder src/vmm] [--build FOLDER] [--jobs N] [--whole | --program NAME]
#                              [--list] [id...]
#   bash tests/mutation/run.sh --generate FILE --program NAME [--sample N] [--seed N] ...
#
# - --generate makes the mutants of operators.awk in a source instead of reading lists, and draws 20
#   of them, or N, by a seed. All cases of the program run. Those that do not compile do not count.
# - ids may have wildcards ('vmm_*'); --folder takes the mutants of the files below it. Neither: all.
# - --build: the folder of the copy and its build, kept for the next run; default: build-mutation/.
# - --whole runs all cases of the program, to find those that kill a new mutant; --program test_mr
#   those of another.
# - --list names the mutants chosen and ends.
# common.sh says how a mutant is written. The tree itself is never changed. Exit status 0: each was
# killed but those that the lists explain.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

die() {
  printf 'run.sh: %s\n' "$1" >&2
  exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=
build=$root/build-mutation
jobs=$(nproc)
whole=
only_program=
list_only=
generate=
sample=20
seed=1
wanted=()
while (($# > 0)); do
  case $1 in
    --folder) folder=${2:?--folder needs a folder}; shift ;;
    --build) build=${2:?--build needs a folder}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --whole) whole=1 ;;
    --generate) generate=${2:?--generate needs a file}; shift ;;
    --sample) sample=${2:?--sample needs a number}; shift ;;
    --seed) seed=${2:?--seed needs a number}; shift ;;
    --program) only_program=${2:?--program needs a name}; whole=1; shift ;;
    --list) list_only=1 ;;
    -*) die "unknown option $1" ;;
    *) wanted+=("$1") ;;
  esac
  shift
done
mkdir -p "$build"
build=$(cd "$build" && pwd)
tree=$build/tree
# Longer than the cases take, or a whole program; one that hangs has found the mistake as well.
time_limit=$([[ -z $whole ]] && echo 60 || echo 180)
mutants=$(mktemp -d)
trap 'rm -rf "$mutants"' EXIT

lists=("$here"/*.mutants)
if [[ -n $generate ]]; then
  [[ -f $root/$generate ]] || die "there is no $generate"
  [[ -n $only_program ]] || die "--generate needs --program"
  lists=("$build/generated")
  awk -v file="$generate" -v program="$only_program" -v sample="$sample" -v seed="$seed" \
    -f "$here/operators.awk" "$root/$generate" >"${lists[0]}"
fi
split_lists "$mutants" "${lists[@]}" || die "a list cannot be read, see above"

is_wanted() {  # ID
  local pattern
  [[ -z $folder || $(field "$mutants" "$1" file) == "${folder%/}"/* ]] || return 1
  ((${#wanted[@]} > 0)) || return 0
  for pattern in "${wanted[@]}"; do
    # shellcheck disable=SC2053
    [[ $1 != $pattern ]] || return 0
  done
  return 1
}

chosen=()
while read -r id; do
  if is_wanted "$id"; then chosen+=("$id"); fi
done <"$mutants/ids"
((${#chosen[@]} > 0)) || die "no mutant is called that: try --list"

# The copy differs from the tree in nothing, and keeps the times of unchanged files.
copy_tree() {
  mkdir -p "$tree"
  (cd "$root" && if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -co --exclude-standard
  else
    find . -type f -not -path './build*' -not -path './.git/*' | cut -c3-
  fi) | sort >"$build/files"
  (cd "$tree" && find . -type f | cut -c3-) | sort | comm -13 "$build/files" - |
    while IFS= read -r file; do rm -f "$tree/$file"; done
  while IFS= read -r file; do
    [[ -f $root/$file ]] || { rm -f "$tree/$file"; continue; }
    cmp -s "$root/$file" "$tree/$file" && continue
    mkdir -p "$tree/$(dirname "$file")"
    cp "$root/$file" "$tree/$file"
  done <"$build/files"
}

# configure SANITIZER: sets `binaries` to its build. Each file of the library is compiled by itself,
# because a mutant changes one; those of a test program in units, because a header changes all.
configure() {
  binaries=$build/build${1:+-$1}
  [[ ! -f $binaries/CMakeCache.txt ]] || return 0
  local options=(-DHIPVMM_PROVIDER=host -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g1"
    -DHIPVMM_SANITIZE="$1" -DHIPVMM_BENCH=OFF -DHIPVMM_SAMPLES=OFF -DHIPVMM_TOOLS=OFF
    -DCMAKE_PROJECT_hipvmm_INCLUDE="$here/units.cmake")
  if command -v ninja >/dev/null; then options+=(-G Ninja); fi
  if command -v ld.lld >/dev/null; then
    options+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld)
  fi
  # GCC 12's sanitizers take twice as long to compile.
  if [[ -n $1 ]] && command -v clang++-16 >/dev/null; then
    options+=(-DCMAKE_CXX_COMPILER=clang++-16)
  fi
  # Restored files need not be compiled again.
  if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -S "$tree" -B "$binaries" "${options[@]}" >"$build/configure.log" 2>&1 ||
    die "cmake failed, see $build/configure.log"
}
export CCACHE_DIR=$build/ccache CCACHE_SLOPPINESS=pch_defines,time_macros

build_program() {  # PROGRAM
  cmake --build "$binaries" --target "$1" --parallel "$jobs" >"$build/compile.log" 2>&1
}

# run_cases PROGRAM FILTER ENVIRONMENT: fails as the program does, with its output in run.log.
# Devices are probed anew, or a mutant would leave its findings to the next.
run_cases() {
  local variables tests launcher chosen_cases=() start=()
  tests=("$binaries"/tests/*/CTestTestfile.cmake "$binaries"/tests/*/*/CTestTestfile.cmake)
  # ThreadSanitizer does not bear addresses that are randomised far.
  [[ $binaries != *-thread ]] || start=(setarch -R)
  mapfile -t -d';' variables < <(
    sed -n "s/.*[(]\[*=*\[*\"*[a-z_]*\/$1[]\"].* ENVIRONMENT \"\([^\"]*\)\".*/\1/p" \
      "${tests[@]}" | tr -d '\n')
  ((${#variables[@]} > 0)) || die "no test runs $1 as a whole: what is its environment?"
  # The test's launcher of the program, such as mpirun.
  mapfile -t launcher < <(
    sed -n "s/^add_test(\[=*\[[a-z_]*\/$1\]=*\] \"\(.*\)\" \"[^\"]*\/bin\/$1\")\$/\1/p" \
      "${tests[@]}" | sed 's/" "/\n/g')
  [[ -n $whole || -z $2 ]] || chosen_cases=("--test-case=$2")
  rm -rf "$build/cache"
  # shellcheck disable=SC2086
  (cd "$binaries" && env HIPVMM_PROVIDER=host HIPVMM_HOST_REUSE_HANDLES=1 "${variables[@]}" \
    XDG_CACHE_HOME="$build/cache" $3 \
    timeout -k 5 "$time_limit" "${start[@]}" "${launcher[@]}" \
    "bin/$1" "${chosen_cases[@]}" --abort-after=1 --no-colors=true || exit $?) \
    >"$build/run.log" 2>&1 {lock}>&-
}

# Of one rank, if several run.
cases_run() {
  sed -n '/^\[doctest\] test cases:/{s/^[^:]*: *\([0-9]*\) .*/\1/p;q}' "$build/run.log"
}
# The first that failed; others may have said why they were skipped.
failing_case() {
  awk '/^TEST CASE:/ { sub(/^TEST CASE: */, ""); last = $0 } /ERROR:/ { print last; exit }' \
    "$build/run.log"
}

# cases_of ID: sets `program`, `filter` and `environment`.
cases_of() {
  read -r program filter < <(field "$mutants" "$1" kill) || true
  environment=$(field "$mutants" "$1" with)
  [[ -z $whole ]] || filter=
  program=${only_program:-$program}
}

declare -A trouble
# The cases that are to fail must exist and pass without the mistake. Pre: the build has none.
check_clean() {  # ID
  local program filter environment key
  cases_of "$1"
  key="$binaries|$program|$filter|$environment"
  [[ -z ${trouble[$key]+known} ]] || return 0
  trouble[$key]=
  if ! run_cases "$program" "$filter" "$environment"; then
    trouble[$key]="fails without it"
  elif [[ $(cases_run) == 0 ]]; then
    trouble[$key]="no such case"
  fi
}

declare -A number
wrong=0
row() { printf '%-9s %4ss  %-44s %s\n' "$1" "$2" "$3" "$4"; }

# try ID: prints its row.
try() {
  local id=$1 began=$SECONDS verdict note= file program filter environment lives status=0 why
  file=$(field "$mutants" "$id" file)
  lives=$(field "$mutants" "$id" lives)
  cases_of "$id"
  why=${trouble["$binaries|$program|$filter|$environment"]}
  if [[ -n $why ]]; then
    verdict=unusable note="$why: $program $filter"
  elif ! mutate "$mutants/$id" "$tree/$file" >"$build/mutated"; then
    verdict=stale note="its old text does not occur exactly once in $file"
  else
    cp "$tree/$file" "$build/original"
    cp "$build/mutated" "$tree/$file"
    if ! build_program "$program"; then
      verdict=broken note="does not compile: $(grep -m1 'error' "$build/compile.log" || true)"
    else
      run_cases "$program" "$filter" "$environment" || status=$?
      note=$(failing_case)
      case $status in
        0) verdict=survived note=$(field "$mutants" "$id" mistake) ;;
        124 | 137) verdict=killed note="${note:+$note, and }does not end" ;;
        *) verdict=killed ;;
      esac
    fi
    cp "$build/original" "$tree/$file"
  fi
  if [[ $verdict == survived && -n $lives ]]; then
    verdict=accepted note=$lives
  elif [[ $verdict == killed && -n $lives ]]; then
    verdict=unusable note="is killed by now: drop its line 'lives'"
  fi
  [[ $verdict =~ ^(killed|accepted)$ || ($verdict == broken && -n $generate) ]] || wrong=1
  number[$verdict]=$((${number[$verdict]:-0} + 1))
  row "$verdict" $((SECONDS - began)) "$id" "$note"
}

group_of() {
  local program filter environment
  cases_of "$1"
  printf '%s|%s' "$(field "$mutants" "$1" sanitizer)" "$program"
}

# By build and program, so that little is built twice.
mapfile -t chosen < <(for id in "${chosen[@]}"; do
  printf '%s\t%s\n' "$(group_of "$id")" "$id"
done | sort -s -t$'\t' -k1,1 | cut -f2)
if [[ -n $list_only ]]; then
  printf '%s\n' "${chosen[@]}"
  exit 0
fi

exec {lock}>"$build/lock"
flock --nonblock "$lock" || die "another run uses $build: name a folder of its own by --build"
copy_tree
group=none
for id in "${chosen[@]}"; do
  if [[ $(group_of "$id") != "$group" ]]; then
    group=$(group_of "$id")
    configure "${group%|*}"
    build_program "${group#*|}" ||
      die "${group#*|} does not build without any mistake, see $build/compile.log"
    for each in "${chosen[@]}"; do
      if [[ $(group_of "$each") == "$group" ]]; then check_clean "$each"; fi
    done
  fi
  try "$id"
done

total=${#chosen[@]}
[[ -z $generate ]] || total=$((total - ${number[broken]:-0}))
((total > 0)) || die "none of them compiles"
printf '%d mutants:' "$total"
for verdict in "${!number[@]}"; do printf ' %d %s,' "${number[$verdict]}" "$verdict"; done
printf ' %d %% killed\n' $((100 * ${number[killed]:-0} / total))
exit "$wrong"
