#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every mutant can be planted: check_mutants.sh ROOT. The lines it replaces occur exactly once in its
# file, its program is one of the tests, and the cases that are to find it exist.
source "$(dirname "$0")/common.sh"
source "$root/tests/mutation/common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
split_lists "$work/mutants" "$root"/tests/mutation/*.mutants ||
  { complain 'tests/mutation: a list cannot be read'; finish 'mutants'; }

programs=$(sed -n 's/.*hipvmm_add_\(tests(NAME\|mpi_program(\) *\([a-z_]*\).*/\2/p' "$root"/tests/*/CMakeLists.txt \
  "$root"/tests/*/*/CMakeLists.txt)

# The name of each test case, a line each; literals beside each other are one.
case_names() {
  awk '
    FNR == 1 { names(text); text = "" }
    { text = text $0 "\n" }
    END { names(text) }
    function names(source,  rest, name, end) {
      rest = source
      while (match(rest, /TEST_CASE[A-Z_]*\(/)) {
        rest = substr(rest, RSTART + RLENGTH)
        if ((end = index(rest, "\"")) == 0) return
        rest = substr(rest, end)
        name = ""
        while (match(rest, /^"([^"\\]|\\.)*"[ \n]*/)) {
          piece = substr(rest, 1, RLENGTH)
          rest = substr(rest, RLENGTH + 1)
          sub(/[ \n]*$/, "", piece)
          name = name substr(piece, 2, length(piece) - 2)
        }
        print name
      }
    }' "$@"
}
mapfile -t files < <(cpp_files tests)
mapfile -t names < <(case_names "${files[@]}")

# Commas as filters have them.
declare -A is_name
for name in "${names[@]}"; do is_name[${name//,/?}]=1; done

exists_case() {  # FILTER
  [[ -z ${is_name[$1]:-} ]] || return 0
  local name pattern=${1//\\/\\\\}
  pattern=${pattern//\[/\\[}
  for name in "${names[@]}"; do
    # shellcheck disable=SC2053
    [[ $name != $pattern ]] || return 0
  done
  return 1
}

# read_file VARIABLE FILE: its text, without a process for each of hundreds of files.
read_file() { IFS= read -r -d '' "$1" <"$2" || true; }

declare -A texts
while read -r id; do
  read -r file <"$work/mutants/$id/file"
  read -r program filters <"$work/mutants/$id/kill" || true
  if [[ ! -f $root/$file ]]; then
    complain "mutant $id: there is no $file"
    continue
  fi
  if [[ -z ${texts[$file]:-} ]]; then
    read_file text "$root/$file"
    texts[$file]=$'\n'$text
  fi
  old= new=
  [[ ! -f $work/mutants/$id/old ]] || read_file old "$work/mutants/$id/old"
  read_file new "$work/mutants/$id/new"
  # Whole lines: a match begins behind the end of a line.
  count=0
  rest=${texts[$file]}
  while ((count < 9)) && [[ $rest == *$'\n'"$old"* ]]; do
    rest=${rest/$'\n'"$old"/$'\n'}  # many times faster than to cut off the text before
    count=$((count + 1))
  done
  ((count == 1)) || complain "mutant $id: its old lines occur $count times in $file, not once"
  [[ $old != "$new" ]] || complain "mutant $id: it changes nothing in $file"
  [[ $'\n'$programs$'\n' == *$'\n'"$program"$'\n'* ]] ||
    complain "mutant $id: no test program is called $program"
  while [[ -n $filters ]]; do
    filter=${filters%%,*}
    filters=${filters#"$filter"}
    filters=${filters#,}
    [[ -z $filter ]] || exists_case "$filter" ||
      complain "mutant $id: no test case is called '$filter'"
  done
done <"$work/mutants/ids"

finish 'mutants'
