#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every local link of the HTML pages in a folder leads to a file, and to an anchor of it:
# check_links.sh FOLDER.
set -euo pipefail
export LC_ALL=C
cd "$1"

mapfile -t pages < <(find . -name '*.html' -printf '%P\n' | sort)
((${#pages[@]} > 0)) || { echo "$1 holds no HTML page" >&2 && exit 1; }
find . -type f -printf '%P\n' | awk '
  # resolve(folder, path): the path from the root of the pages.
  function resolve(path) {
    sub(/^\.\//, "", path)
    while (path ~ /(^|\/)[^\/]+\/\.\.\//) sub(/[^\/]+\/\.\.\//, "", path)
    return path
  }
  function decoded(text) {
    gsub(/&amp;/, "\\&", text)
    gsub(/%20/, " ", text)
    return text
  }
  FILENAME == "-" { exists[$0] = 1; next }
  FNR == 1 { folder = FILENAME; if (!sub(/[^\/]*$/, "", folder)) folder = "" }
  {
    line = $0
    while (match(line, /(id|name|href|src)="[^"]*"/)) {
      item = substr(line, RSTART, RLENGTH - 1)
      line = substr(line, RSTART + RLENGTH)
      kind = item
      sub(/=.*/, "", kind)
      sub(/^[a-z]*="/, "", item)
      if (kind == "id" || kind == "name") anchors[FILENAME "#" item] = 1
      else if (item !~ /^([a-z]+:|\/\/|$)/) {
        link = decoded(item)
        from[++count] = FILENAME
        path = link
        anchor = ""
        if (match(link, /#/)) {
          anchor = substr(link, RSTART + 1)
          path = substr(link, 1, RSTART - 1)
        }
        paths[count] = path == "" ? FILENAME : resolve(folder path)
        wanted[count] = anchor
        texts[count] = item
      }
    }
  }
  END {
    for (i = 1; i <= count; ++i) {
      if (!(paths[i] in exists)) why = "leads to no file"
      else if (wanted[i] != "" && paths[i] ~ /\.html$/ && !((paths[i] "#" wanted[i]) in anchors))
        why = "names no anchor of that page"
      else continue
      printf "%s: the link %s %s\n", from[i], texts[i], why
      ++broken
    }
    if (count == 0) { print "the pages have no links"; exit 1 }
    printf "%d links, %d broken\n", count, broken
    exit broken > 0
  }' - "${pages[@]}"
