#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check_printed.sh can fail: check_printed_self_test.sh WORK_FOLDER.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check_printed.sh
mkdir -p "$1"
work=$(mktemp -d "$1/check_printed.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/docs/guides"
printf '#!/bin/sh\necho "one 0x17 at ${PLACE:-home}"\necho two\necho three >&2\n' >"$work/program"
chmod +x "$work/program"

# page LINE... writes the page, whose block has these lines but the last, which names their program.
page() {
  { printf '```text\n' && printf '%s\n' "${@:1:$#-1}" && printf '```\n\n%s\n' "${!#}"; } \
    >"$work/docs/guides/page.md"
}
run() { bash "$check" "$work" "$work" 2>&1; }
accepts() { run >/dev/null || { printf 'refuses what is printed:\n' && run; exit 1; }; }
rejects() {  # SENTENCE
  local output
  output=$(run) && { printf 'accepts a page of which it must say: %s\n' "$1"; exit 1; }
  grep -qF -- "$1" <<<"$output" || { printf 'must say: %s\nbut says:\n%s\n' "$1" "$output"; exit 1; }
}

page 'one ... at home' 'three' '(Printed by `program`.)'
accepts
page 'one ... at sea' '(Printed by `PLACE=sea program`.)'
accepts
page 'one ... at sea' '(Printed by `program`.)'
rejects 'does not print, at this place: one ... at sea'
page 'two' 'one ... at home' '(Printed by `program`.)'
rejects 'does not print, at this place: one ... at home'
page 'one [0]x17 at home' '(Printed by `program`.)'
rejects 'does not print'
page 'one' '(Printed by `no_program`.)'
rejects "'no_program' is no program of the samples"
page 'two' '(Printed by `program`, which exits with 3.)'
rejects "'program' exits with 0, not with 3"
printf 'exit 3\n' >>"$work/program"
accepts
page 'one' 'And more.'
rejects "the block that begins with 'one' does not say what prints it"
echo "the check of what programs print sees it"
