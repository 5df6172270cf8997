#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Words that were given up for the field's terms do not come back: check_words.sh ROOT. Identifiers
# first, then what they were called in prose. docs/design/style.md has the rules.
source "$(dirname "$0")/common.sh"

words=(errand rung reuse_rules physical_side stream_side addressed_side device_side stream_mark
  event_marks 'vouch[a-z]*' end_stamp stream_ledger find_ledger piece_cache piece_map look_around
  look_at_hole telemetry drop_lifted give_back_lifted hold_back note_follows 'settl[a-z_]*'
  capability_request capability_subject capability_source capability_pause 'standing::[a-z]*'
  'occasion::[a-z]*' 'renews*_addresses' 'straddl[a-z_]*' 'emptied::[a-z_]*' 'ahead::[a-z]*'
  'order_(checker|clock|memory|ranges|streams)\.(cpp|hpp)' move_to_hold pool_texts record_untold)

mapfile -t files < <({ cpp_files include src testing providers tests samples bench; pages; } |
  grep -v -e "^$root/CHANGELOG.md" -e "^$root/bench/results/")
((${#files[@]} > 0)) || complain "$root holds nothing to read"
pattern=$(IFS='|' && printf '%s' "${words[*]}")
# Public names until 0.2 stand in three headers, as aliases.
while IFS= read -r line; do
  complain "${line#"$root"/}: a word that was given up"
done < <(grep -nwE "$pattern" "${files[@]}" /dev/null |
  grep -vE '^[^:]*/include/hipvmm/(capability/capability|region/region|region/region_options)\.hpp:[0-9]+:  *(std::size_t settle|\[\[nodiscard\]\] std::chrono::nanoseconds settle_time|settle_mappings = |renews?_addresses = )' |
  grep -vE '/include/hipvmm/region/region_options\.hpp:[0-9]+:using ' || true)

finish "plain words"
