#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Words that were given up for the field's terms do not come back, and sentences begin with a noun
# that acts: check_words.sh ROOT. docs/design/style.md has the rules.
source "$(dirname "$0")/common.sh"

words=(errand rung reuse_rules physical_side stream_side addressed_side device_side stream_mark
  event_marks 'vouch[a-z]*' end_stamp stream_ledger find_ledger piece_cache piece_map look_around
  look_at_hole telemetry drop_lifted give_back_lifted hold_back note_follows 'settl[a-z_]*'
  capability_request capability_subject capability_source capability_pause 'standing::[a-z]*'
  'occasion::[a-z]*' 'renews?_addresses' 'straddl[a-z_]*' 'emptied::[a-z_]*' 'ahead::[a-z]*'
  'order_(checker|clock|memory|ranges|streams)\.(cpp|hpp)' move_to_hold pool_texts record_untold
  mapped_there left_behind note_no_wait await_late_records unmap_or_keep keep_chunk reserve_aside
  outlast_refusals make_with_reclaim sleep_on begin_to_wake take_addresses_back fall_asleep
  'slow_path_turns?' leave_refused free_gain publisher_thread 'published_(shape|elements|state)'
  state_page block_mirror protocol_step 'budget_(duty|share)' slot_rows slot_table race_notes
  kept_chunks mapped_region process_mark retired_chunks map_answer::believed detach_left_behind)

mapfile -t files < <({ cpp_files include src testing providers tests samples bench; pages; } |
  grep -v -e "^$root/CHANGELOG.md" -e "^$root/bench/results/")
((${#files[@]} > 0)) || complain "$root holds nothing to read"
pattern=$(IFS='|' && printf '%s' "${words[*]}")
while IFS= read -r line; do
  complain "${line#"$root"/}: a word that was given up"
done < <(grep -nwE "$pattern" "${files[@]}" /dev/null || true)

mapfile -t files < <(cpp_files include src testing providers tests samples bench)
while IFS= read -r line; do
  complain "${line#"$root"/}: a sentence whose subject does not act"
done < <(grep -nE '(//|/\*|^ *\*)(.*[.:;] |[/<* ]*)(What|Who|Whose|Where)(ever)?\b' "${files[@]}" \
  /dev/null || true)

finish "plain words"
