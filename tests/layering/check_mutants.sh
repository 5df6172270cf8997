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

programs=$(sed -n 's/.*hipvmm_add_tests(NAME \([a-z_]*\).*/\1/p' "$root"/tests/*/CMakeLists.txt)

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

exists_case() {  # FILTER
  local name pattern=${1//\\/\\\\}
  pattern=${pattern//\[/\\[}
  for name in "${names[@]}"; do
    # shellcheck disable=SC2053
    [[ $name != $pattern ]] || return 0
  done
  return 1
}

while read -r id; do
  file=$(field "$work/mutants" "$id" file)
  read -r program filters < <(field "$work/mutants" "$id" kill) || true
  if [[ ! -f $root/$file ]]; then
    complain "mutant $id: there is no $file"
    continue
  fi
  count=1
  mutate "$work/mutants/$id" "$root/$file" >"$work/mutated" || count=$(($? % 10))
  ((count == 1)) || complain "mutant $id: its old lines occur $count times in $file, not once"
  ! cmp -s "$work/mutated" "$root/$file" || complain "mutant $id: it changes nothing in $file"
  grep -qx "$program" <<<"$programs" || complain "mutant $id: no test program is called $program"
  while IFS= read -r filter; do
    [[ -z $filter ]] || exists_case "$filter" ||
      complain "mutant $id: no test case is called '$filter'"
  done < <(tr ',' '\n' <<<"$filters")
done <"$work/mutants/ids"

finish 'mutants'
