#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Test of gpu_summary.sh: gpu_summary_test.sh INFO, with the hipvmm-info of the build.
set -euo pipefail
source "$(dirname "$0")/gpu_summary.sh"
info=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stop() {
  printf '%s\n' "$1" >&2
  exit 1
}

"$info" --json "$work/info.json" >/dev/null
{
  for label in bench c compat container core ipc kernels layering mr preload samples semantics vmm; do
    printf '<testcase name="%s/one" classname="" time="1" status="run">\n</testcase>\n' "$label"
  done
  printf '<testcase name="vmm/two" classname="" time="1" status="fail">\n</testcase>\n'
  printf '<testcase name="core/test_core" classname="" time="1" status="run">\n<system-out>a.cpp(1): MESSAGE: skipped: no second device\n[doctest] test cases:  10 |  9 passed | 1 failed | 0 skipped\n</system-out>\n</testcase>\n'
  printf '<testcase name="mr/two" classname="" time="1" status="run">\n<system-out>skipped: no second device\n</system-out>\n</testcase>\n'
} >"$work/tests.xml"
defects=$'crashes  DEFECT SEEN: 2 of 6 calls crashed\nearly_reuse  as documented: in order\nfill_pattern  no answer'

for count in 0 1 3 500; do
  failed=$( ((count == 0)) || seq -f 'vmm/case %g (Failed)' "$count")
  summarize "$(seq -f 'head %g' 7)" "$work/tests.xml" "$failed" "$defects" "$work/info.json" >"$work/summary"
  lines=$(wc -l <"$work/summary")
  ((lines <= 40)) || stop "$(<"$work/summary")
with $count failures the summary has $lines lines, which must be 40 at most"
  for expected in '^vmm  *1  *1  *0  *0$' '^mr  *1  *0  *1  *0$' '^core  *9  *1  *1  *0$' '^head 7$' \
    '^defects   seen: crashes; as documented: 1; no answer: fill_pattern$' '^device 0' '^  quirks  ' \
    "^$( ((count == 0)) && echo 'all tests passed' || echo "FAILED    $count")\$"; do
    grep -q "$expected" "$work/summary" || stop "$(<"$work/summary")
the summary lacks a line $expected"
  done
done
summarize head "$work/tests.xml" "" "" "$work/info.json" | grep -q '^defects' &&
  stop "the summary names defects that nobody asked for"
((count != 500)) || grep -q '^and 4[0-9][0-9] more, see tests.log$' "$work/summary" ||
  stop "the summary does not say how many failures it leaves out"
echo "the summary fits into 40 lines"
