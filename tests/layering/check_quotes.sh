#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Code that a page says it takes from a file stands in that file: check_quotes.sh ROOT. Such a block
# is followed by a line that starts with "(From [name](path)"; indentation does not count.
source "$(dirname "$0")/common.sh"

# quotes_of PAGE: for each quoting block a line "=> path" and the block's lines, without indentation.
quotes_of() {
  awk '
    /^```/ { if (inside) { inside = 0; closed = 1 } else { inside = 1; closed = 0; block = "" } next }
    { line = $0; sub(/^[ \t]+/, "", line) }
    inside { block = block line "\n"; next }
    closed && line == "" { next }
    closed && match(line, /^\(From \[[^]]*\]\([^)]*\)/) {
      path = substr(line, 1, RLENGTH - 1)
      sub(/.*\(/, "", path)
      printf "=> %s\n%s", path, block
    }
    { closed = 0 }' "$1"
}

# holds FILE BLOCK: whether the lines of BLOCK follow one another in FILE.
holds() {
  local text
  text=$'\n'$(sed 's/^[ \t]*//' "$1")$'\n'
  [[ $text == *$'\n'"$2"* ]]
}

check_quote() {  # PAGE PATH BLOCK
  local file
  file=$(dirname "$1")/$2
  quotes=$((quotes + 1))
  [[ -f $file ]] || return 0  # check_links.sh complains of it
  holds "$file" "$3" ||
    complain "${1#"$root"/}: what it quotes from $2 does not stand there: quote it anew"
}

quotes=0
while IFS= read -r page; do
  path=
  block=
  while IFS= read -r line; do
    if [[ $line == '=> '* ]]; then
      [[ -z $path ]] || check_quote "$page" "$path" "$block"
      path=${line#=> }
      block=
    else
      block+=$line$'\n'
    fi
  done < <(quotes_of "$page")
  [[ -z $path ]] || check_quote "$page" "$path" "$block"
done < <(pages)
((quotes > 0)) || complain "README.md quotes no sample: say (From [name](path)) below its example"

finish "quoted code"
