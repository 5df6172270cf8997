# SPDX-License-Identifier: MIT
# The summary of tests/gpu.sh, of at most 40 lines, so that it fits into an issue; sourced.
summary_lines=40

# count_results TESTS_XML: counts of cases by label from ctest's JUnit file; a test that is no program
# of cases is one. A case that skips says so and passes.
count_results() {
  awk '
    function finish() {
      if (label == "") return
      if (cases) { passed[label] += good - skips; failed[label] += bad; skipped[label] += skips }
      else if (state == "fail") failed[label]++
      else if (state != "run") left_out[label]++
      else if (skips) skipped[label]++
      else passed[label]++
      if (cases && state == "fail" && bad == 0) failed[label]++
      labels[label] = 1
      label = ""
    }
    /<testcase / {
      finish()
      label = $0; sub(/.*<testcase name="/, "", label); sub(/[\/"].*/, "", label)
      state = $0; sub(/.* status="/, "", state); sub(/".*/, "", state)
      skips = cases = 0
    }
    /: MESSAGE: skipped|(^|>)skipped: / { skips++ }
    /^\[doctest\] test cases:/ { cases = 1; good = $6; bad = $9 }
    END {
      finish()
      printf "%-12s %7s %7s %7s %7s\n", "label", "passed", "failed", "skipped", "not run"
      for (label in labels)
        printf "%-12s %7d %7d %7d %7d\n", label, passed[label], failed[label], skipped[label],
               left_out[label] | "sort"
    }' "$1"
}

# describe_devices INFO_JSON: hipvmm-info --json on each device that is not like one before:
# the path, the work-arounds, and the traits that are missing or not known.
describe_devices() {
  awk '
    function finish(    text) {
      if (device == "") return
      text = path (why == "" ? "" : ", because " why) "\n  quirks    " (quirks == "" ? "none" : quirks) \
        "\n  no        " (no == "" ? "none" : no) "\n  unknown   " (unknown == "" ? "none" : unknown)
      if (text in seen) like[seen[text]] = like[seen[text]] ", " device
      else { seen[text] = device; order[++count] = text }
      device = path = why = quirks = no = unknown = ""
    }
    function value(    text) { text = $0; sub(/^[^:]*: "?/, "", text); sub(/"?,?$/, "", text); return text }
    /^      "ordinal": / { finish(); device = value() }
    /^      "path": / { path = value() }
    /^      "why_fallback": / { why = value() }
    /^      "quirks": \[$/ { in_quirks = 1; next }
    in_quirks && /\]/ { in_quirks = 0 }
    in_quirks { name = $0; gsub(/[ ",]/, "", name); quirks = quirks (quirks == "" ? "" : " ") name }
    /^        "[a-z_]*": \{$/ { trait = $1; gsub(/[":]/, "", trait) }
    /^          "finding": "no"/ { no = no (no == "" ? "" : " ") trait }
    /^          "finding": "unknown"/ { unknown = unknown (unknown == "" ? "" : " ") trait }
    END {
      finish()
      for (i = 1; i <= count; ++i) printf "device %s  %s\n", seen[order[i]] like[seen[order[i]]], order[i]
    }' "$1"
}

# summarize_defects DEFECTS: from lines "name  result", as samples/rocm_defects print it.
summarize_defects() {
  awk '
    { name = $1; $1 = "" }
    /DEFECT SEEN/ { seen = seen " " name; next }
    /as documented/ { ++documented; next }
    { other = other " " name }
    END {
      printf "defects   seen:%s; as documented: %d", seen == "" ? " none" : seen, documented
      if (other != "") printf "; no answer:%s", other
      printf "\n"
    }' <<<"$1"
}

# summarize HEAD TESTS_XML FAILED DEFECTS INFO_JSON: HEAD, then the counts, the defects and the
# devices; of the FAILED, a line each, as many as fit.
summarize() {
  local text room count
  text=$(printf '%s\n\n' "$1"; count_results "$2"; printf '\n'
    [[ -z $4 ]] || summarize_defects "$4"
    describe_devices "$5")
  text=$(head -n $((summary_lines - 3)) <<<"$text")
  printf '%s\n' "$text"
  if [[ -z $3 ]]; then
    echo "all tests passed"
    return
  fi
  count=$(wc -l <<<"$3")
  room=$((summary_lines - $(wc -l <<<"$text") - 1))
  echo "FAILED    $count"
  if ((count <= room)); then
    printf '%s\n' "$3"
  else
    head -n $((room - 1)) <<<"$3"
    echo "and $((count - room + 1)) more, see tests.log"
  fi
}
