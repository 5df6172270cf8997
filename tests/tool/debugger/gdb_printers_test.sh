#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The printers for gdb describe objects of a process, and each expression of the natvis file has a
# value there: gdb_printers_test.sh PRINTERS NATVIS SUBJECT
set -euo pipefail
skip() {
  printf 'skipped: %s\n' "$1"
  exit 77
}
command -v gdb >/dev/null || skip "gdb is not here"
gdb -batch -ex 'python print(1)' >/dev/null 2>&1 || skip "this gdb has no Python"
output=$(gdb -batch -nx -ex 'set confirm off' -ex 'set debuginfod enabled off' -ex "source $1" \
  -ex 'break look' -ex run -ex 'print numbers' -ex 'print region' -ex 'print pool' \
  -ex 'python print(find_printer(gdb.parse_and_eval("1")))' -ex "set \$natvis = \"$2\"" \
  -ex "source $(dirname "$0")/natvis.py" "$3" 2>&1) || true
! grep -qE 'ptrace|Could not trace|personality' <<<"$output" || skip "no process can be traced here"
for expected in '3 elements of int, 12 bytes on device 0(; [0-9]+ bytes are backed)?$' '@0x[0-9a-f]+: (4194304 of [0-9]+ bytes from 0x[0-9a-f]+ on are backed|region; its members .*)$' \
  '@0x[0-9a-f]+: pool( on device 0|;)' '^None$' '^natvis: [0-9]+ expressions$'; do
  grep -qE -- "$expected" <<<"$output" || {
    printf '%s\ndoes not match: %s\n' "$output" "$expected"
    exit 1
  }
done
if grep '^natvis: .*: ' <<<"$output"; then exit 1; fi
