#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No C++ file has more than 500 lines, no folder of code more than 25 files, no page more than 300 lines,
# no line of prose more than 100 characters; each table has a header, each link's text is on one line: check_sizes.sh ROOT.
source "$(dirname "$0")/common.sh"
limit=500
most_files=25

mapfile -t files < <(cpp_files include src providers tests samples bench)
((${#files[@]} > 0)) || complain "$root holds no C++ file"
while read -r lines file; do
  complain "${file#"$root"/} has $lines lines, more than $limit: split it by idea"
done < <(wc -l "${files[@]}" | awk -v limit="$limit" '$1 > limit && $2 != "total"')

# A folder is read at a glance. The figures in bench/results do not count.
while read -r count folder; do
  complain "${folder#"$root"/} holds $count files, more than $most_files: sort them into folders"
done < <(find "$root"/{include,src,testing,providers,tests,samples,bench} -path "$root/bench/results" -prune \
  -o -type f -print |
  sed 's#/[^/]*$##' | sort | uniq -c | awk -v most="$most_files" '$1 > most')

# The changelog is read from the top. Tables, code, sources of quotes and headings are not wrapped.
mapfile -t read_whole < <(pages | grep -vxF "$root/CHANGELOG.md")
while IFS= read -r line; do
  complain "${line#"$root"/}"
done < <(awk '
  FNR == 1 { in_code = 0 }
  FNR == 301 { print FILENAME " has more than 300 lines: split it by subject" }
  /^ *```/ { in_code = !in_code }
  FNR == 1 { is_open = 0 }
  !in_code {
    line = $0
    gsub(/`[^`]*`/, "x", line)
    # The pages as HTML lose headings behind such a link.
    if (is_open && line ~ /^[^\[]*\]\(/) print FILENAME ":" FNR " ends the text of a link of the line before"
    is_open = line ~ /\[[^\]]*$/
  }
  { is_row = !in_code && /^\|/ }
  is_row && !was_row { begun = FNR }
  was_row && FNR == begun + 1 && !/^\| --- / {
    print FILENAME ":" begun " begins a table without a header: is a line of it empty?"
  }
  { was_row = is_row }
  in_code || /^\||^#|^    |^\(From|^\(Printed/ { next }
  {
    text = $0
    gsub(/[\200-\277]/, "", text)
    bare = text
    gsub(/`[^`]*`/, "x", bare)
    if (length(text) > 100 && bare ~ /[^ ] +[^ ]/ && text !~ /^ *([-*] |[0-9]+[.] )?!?\[[^]]*\]\([^)]*\)[.,)]?$/)
      print FILENAME ":" FNR " has " length(text) " characters: wrap it at 100"
  }' "${read_whole[@]}")

finish "file sizes"
