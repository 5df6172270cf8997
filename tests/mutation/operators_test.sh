#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# operators.awk makes these mutants, each can be planted, and a seed draws the same sample again.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/sample.cpp" <<'END'
// A comment with a < b and true; is no code.
bool is_free(int at) { return at < 8; }
void release(int at, int count) {
  const std::lock_guard lock{mutex};
  if (at == 0 && count > 1) throw std::invalid_argument{"at == 0 && count > 1"};
  note(at);
  unmap(std::min(at, count - 1));
}
END
make() {  # ARGUMENT...
  awk -v file=sample.cpp -v program=test_none "$@" -f "$here/operators.awk" "$work/sample.cpp"
}
make >"$work/all.mutants"
expected='2_compare 2_negate 2_one 3_return 4_drop 5_always 5_compare 5_compare_2 5_drop 5_negate 5_one 5_operand
5_operand_2 6_drop 6_order 7_arithmetic 7_drop 7_first 7_one 7_one_2 7_second'
made=$(sed -n 's/^=== sample_//p' "$work/all.mutants" | sort)
diff <(tr ' ' '\n' <<<"$expected" | sort) - <<<"$made"

split_lists "$work/mutants" "$work/all.mutants"
while read -r id; do
  mutate "$work/mutants/$id" "$work/sample.cpp" >"$work/mutated.cpp"
  if cmp -s "$work/mutated.cpp" "$work/sample.cpp"; then
    printf '%s changes nothing\n' "$id"
    exit 1
  fi
done <"$work/mutants/ids"

diff <(make -v sample=5 -v seed=7) <(make -v sample=5 -v seed=7)
[[ $(make -v sample=5 -v seed=7 | grep -c '^===') == 5 ]]
printf 'operators: %s mutants, as expected\n' "$(wc -l <"$work/mutants/ids")"
