#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Code that a page says it takes from a file stands in that file: check_quotes.sh ROOT. Such a block
# is followed by a line that starts with "(From [name](path)"; indentation does not count. In the
# README and the guides every block of C++ is such a block, because a compiler has seen only
# the code of programs.
source "$(dirname "$0")/common.sh"

# blocks_of PAGE: for each block of code that quotes, or is C++, a line "=> path"; path is "-"
# for one that quotes nothing, and the block's lines, without indentation.
blocks_of() {
  awk '
    function emit(path) { printf "=> %s\n%s", path, block; closed = 0 }
    function no_quote() { if (closed && language == "cpp") emit("-"); closed = 0 }
    { line = $0; sub(/^[ \t]+/, "", line) }
    line ~ /^```/ && inside { inside = 0; closed = 1; next }
    line ~ /^```/ { no_quote(); inside = 1; block = ""; language = substr(line, 4); next }
    inside { block = block line "\n"; next }
    closed && line == "" { next }
    closed && match(line, /^\(From \[[^]]*\]\([^)]*\)/) {
      path = substr(line, 1, RLENGTH - 1)
      sub(/.*\(/, "", path)
      emit(path)
    }
    { no_quote() }
    END { no_quote() }' "$1"
}

# holds FILE BLOCK: whether the lines of BLOCK follow one another in FILE.
holds() {
  local text
  text=$'\n'$(sed 's/^[ \t]*//' "$1")$'\n'
  [[ $text == *$'\n'"$2"* ]]
}

check_block() {  # PAGE PATH BLOCK
  local file page=${1#"$root"/}
  if [[ $2 == - ]]; then
    [[ $page != README.md && $page != docs/guides/* ]] ||
      complain "$page: its code '${3%%$'\n'*}' ... is of no program: quote one, and say (From [name](path))"
    return 0
  fi
  file=$(dirname "$1")/$2
  quotes=$((quotes + 1))
  [[ -f $file ]] || return 0  # check_links.sh complains of it
  holds "$file" "$3" || complain "$page: what it quotes from $2 does not stand there: quote it anew"
}

quotes=0
while IFS= read -r page; do
  path=
  block=
  while IFS= read -r line; do
    if [[ $line == '=> '* ]]; then
      [[ -z $path ]] || check_block "$page" "$path" "$block"
      path=${line#=> }
      block=
    else
      block+=$line$'\n'
    fi
  done < <(blocks_of "$page")
  [[ -z $path ]] || check_block "$page" "$path" "$block"
done < <(pages)
((quotes > 0)) || complain "README.md quotes no sample: say (From [name](path)) below its example"

finish "quoted code"
