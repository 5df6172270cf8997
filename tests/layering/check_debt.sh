#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Numbers that should fall do not grow: check_debt.sh ROOT. debt.txt has the number of each
# kind, which falls with the change that makes it fall. A defect of a device or a version of the runtime
# is named by nobody but capability/, strategy/, runtime_rules and hipvmm-info.
source "$(dirname "$0")/common.sh"

list=tests/layering/debt.txt
declare -A recorded=()
while read -r kind count; do recorded[$kind]=$count; done < <(grep -vE '^(#|$)' "$root/$list")

# compare KIND COUNT ADVICE
compare() {
  local before=${recorded[$1]:-none}
  [[ $2 == "$before" ]] && return
  if [[ $before == none || $2 -gt $before ]]; then
    complain "$1: $2, $before in $list: $3"
  else
    complain "$1: $2, $before in $list: write $2 there"
  fi
}

mapfile -t files < <(cpp_files include src)
((${#files[@]} > 0)) || complain "$root holds no C++ file"
code=$(code_of "${files[@]}")
count() { grep -cE "$1" <<<"$code" || true; }

compare catches_of_out_of_memory "$(count 'catch \(const out_of_memory\b')" \
  "let acquire_with_retry() in region/retirement.hpp decide on a shortage"
compare thread_local_variables "$(count '\bthread_local\b')" "hand the value to the call"
compare forwarding_bodies \
  "$(count '\{ return [a-z_:]+(_->|_\.|\(\)->|\(\)\.)[a-z_]+\([^;]*\); \}')" \
  "let the caller reach the object itself"
compare uses_of_all_streams "$(count '\ball_\.')" "give the function the part that it needs"

# The names of the defects come from their enumeration.
mapfile -t quirks < <(sed -n '/^enum class quirk {/,/^};/s/^  \([a-z_]*\),.*/\1/p' \
  "$root/include/hipvmm/capability/capability.hpp")
((${#quirks[@]} > 0)) || complain "include/hipvmm/capability/capability.hpp names no quirk"
names="\b($(IFS='|' && printf '%s' "${quirks[*]}"))\b|\b(quirk|trait)::|\bneeds\(|\bruntime_version\b"
names+='|\bis_cuda_version\b|\bis_at_least\b'
while read -r file; do
  complain "${file#"$root"/} names a defect of a device: let strategy/ say what to do about it"
done < <(printf '%s\0' "${files[@]}" | xargs -0 grep -lE "$names" |
  grep -vE "^$root/((src|include/hipvmm)/capability/|src/strategy/|src/tool/info/|src/runtime/runtime_rules\.)" |
  sort)

finish "debt"
