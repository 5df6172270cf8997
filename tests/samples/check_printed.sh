  output=$(env  2>&1) || status=$?
  ((status == expected)) || complain "$page" "'$command' exits with $status, not $expected"
  mapfile -t printed <<<"$output"
#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program prints the output that its guide shows: check_printed.sh ROOT PROGRAMS; PROGRAMS
# is their folder and the guides are docs/guides/*.md. Such a block begins with ```text and is
# followed by a line that starts with "(Printed by `[VARIABLE=VALUE...] program [argument...]`", and
# then ", which exits with STATUS" unless that is 0. Its lines follow one another in the output,
# perhaps with others between them; "..." in a line stands for anything.
set -euo pipefail
root=$1
programs=$2
blocks=0
problems=0

complain() {  # PAGE SENTENCE
  printf '%s: %s\n' "${1#"$root"/}" "$2" >&2
  problems=$((problems + 1))
}

check_block() {  # PAGE COMMAND STATUS LINE...
  local page=$1 command=$2 expected=$3 line output pattern status=0 at=0
  local -a words settings=() printed
  shift 3
  blocks=$((blocks + 1))
  eval "words=($command)"
  while [[ ${words[0]} == *=* ]]; do
    settings+=("${words[0]}")
    words=("${words[@]:1}")
  done
  if [[ ! -x $programs/${words[0]} ]]; then
    complain "$page" "'${words[0]}' is no program of the samples"
    return
  fi
  output=$(env ${settings[@]+"${settings[@]}"} "$programs/${words[0]}" "${words[@]:1}" 2>&1) ||
    status=$?
  ((status == expected)) || complain "$page" "'$command' exits with $status, not with $expected"
  mapfile -t printed <<<"$output"
  for line in "$@"; do
    pattern=$(sed 's/[][\\*?]/\\&/g; s/\.\.\./*/g' <<<"$line")
    # shellcheck disable=SC2053
    until ((at == ${#printed[@]})) || [[ ${printed[at]} == $pattern ]]; do at=$((at + 1)); done
    if ((at == ${#printed[@]})); then
      complain "$page" "'$command' does not print, at this place: $line"
      printf '    %s\n' "It prints:" "${printed[@]}" >&2
      return
    fi
    at=$((at + 1))
  done
}

check_page() {
  local line state=outside
  local -a lines
  while IFS= read -r line; do
    case $state in
      outside) [[ $line != '```text' ]] || { state=inside && lines=(); } ;;
      inside) if [[ $line == '```' ]]; then state=behind; else lines+=("$line"); fi ;;
      behind)
        [[ -n $line ]] || continue
        state=outside
        if [[ $line =~ ^\(Printed\ by\ \`([^\`]*)\`(,\ which\ exits\ with\ ([0-9]+))? ]]; then
          check_block "$1" "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]:-0}" "${lines[@]}"
        else
          complain "$1" "the block that begins with '${lines[0]}' does not say what prints it"
        fi
        ;;
    esac
  done <"$1"
}

for page in "$root"/docs/guides/*.md; do
  check_page "$page"
done
((problems == 0))
((blocks > 0))
printf '%d blocks are as printed\n' "$blocks"
