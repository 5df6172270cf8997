#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Relative links of all pages lead somewhere: check_links.sh ROOT. The pages are the Markdown files
# in the root, in docs/ and beside the code described. A link into a page must name a heading of it.
source "$(dirname "$0")/common.sh"

# Links and headings outside code blocks, in one run of awk: "link PAGE TARGET" for each inline link
# outside code spans, "anchor PAGE#NAME" for each heading, by the rule of the common Markdown hosts.
contents_of() {
  awk '
    FNR == 1 { in_code = 0 }
    /^ *```/ { in_code = !in_code; next }
    in_code { next }
    /^#+ *[^ ]/ {
      name = tolower($0)
      sub(/^#+ */, "", name)
      gsub(/[^a-z0-9 _-]/, "", name)
      gsub(/ /, "-", name)
      print "anchor\t" FILENAME "#" name
    }
    {
      rest = $0
      gsub(/`[^`]*`/, "", rest)
      while (match(rest, /\]\(<?[^)> ]*/)) {
        link = substr(rest, RSTART + 2, RLENGTH - 2)
        sub(/^</, "", link)
        print "link\t" FILENAME "\t" link
        rest = substr(rest, RSTART + RLENGTH)
      }
    }' "$@"
}

mapfile -t all_pages < <(pages)
((${#all_pages[@]} > 0)) || complain "$root has neither a README.md nor pages in docs/"

declare -A anchors
links=()
while IFS=$'\t' read -r what page link; do
  if [[ $what == anchor ]]; then anchors[$page]=1; else links+=("$page"$'\t'"$link"); fi
done < <(((${#all_pages[@]} == 0)) || contents_of "${all_pages[@]}")

# without_dots VARIABLE PATH: PATH without "folder/..", as anchors name their pages.
without_dots() {
  local -n result=$1
  local part
  local -a kept=()
  local IFS=/
  for part in $2; do
    case $part in
      .) ;;
      ..) unset 'kept[-1]' ;;
      *) kept+=("$part") ;;
    esac
  done
  result="${kept[*]}"
}

for each in "${links[@]}"; do
  page=${each%%$'\t'*}
  link=${each#*$'\t'}
  case $link in
    *://* | mailto:*) continue ;;
  esac
  path=${link%%#*}
  anchor=
  [[ $link == *#* ]] && anchor=${link#*#}
  target=$page
  [[ -z $path ]] || target=${page%/*}/$path
  if [[ ! -e $target ]]; then
    complain "${page#"$root"/}: the link $link leads to no file"
  elif [[ -n $anchor && $target == *.md ]]; then
    without_dots place "$target"
    [[ -n ${anchors[$place#$anchor]:-} ]] ||
      complain "${page#"$root"/}: the link $link names no heading of that page"
  fi
done

finish "links between pages"
