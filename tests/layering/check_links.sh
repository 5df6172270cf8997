#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Relative links of all pages lead somewhere: check_links.sh ROOT. The pages are the Markdown files
# in the root, in docs/ and beside what they describe. A link into a page must name a heading of it.
source "$(dirname "$0")/common.sh"

# links_of PAGE: the target of every inline link outside code blocks and code spans.
links_of() {
  awk '/^ *```/ { in_code = !in_code; next } !in_code' "$1" | sed 's/`[^`]*`//g' |
    grep -o '](<\{0,1\}[^)> ]*' | sed 's/^](<\{0,1\}//'
}

# anchors_of PAGE: the anchor of every heading, by the rule of the common Markdown hosts.
anchors_of() {
  awk '/^ *```/ { in_code = !in_code; next } !in_code' "$1" | sed -n 's/^##* *//p' |
    tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

pages_read=0
while IFS= read -r page; do
  pages_read=$((pages_read + 1))
  while IFS= read -r link; do
    case $link in
      *://* | mailto:*) continue ;;
    esac
    path=${link%%#*}
    anchor=
    [[ $link == *#* ]] && anchor=${link#*#}
    target=$page
    [[ -z $path ]] || target=$(dirname "$page")/$path
    if [[ ! -e $target ]]; then
      complain "${page#"$root"/}: the link $link leads to no file"
    elif [[ -n $anchor && $target == *.md ]] && ! anchors_of "$target" | grep -qxF "$anchor"; then
      complain "${page#"$root"/}: the link $link names no heading of that page"
    fi
  done < <(links_of "$page")
done < <(pages)
((pages_read > 0)) || complain "$root has neither a README.md nor pages in docs/"

finish "links between pages"
