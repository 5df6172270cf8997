#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No C++ file has more than 500 lines, and no folder of code more than 25 files: check_sizes.sh ROOT.
source "$(dirname "$0")/common.sh"
limit=500
most_files=25

mapfile -t files < <(cpp_files include src providers tests samples bench)
((${#files[@]} > 0)) || complain "$root holds no C++ file"
while read -r lines file; do
  complain "${file#"$root"/} has $lines lines, more than $limit: split it by idea"
done < <(wc -l "${files[@]}" | awk -v limit="$limit" '$1 > limit && $2 != "total"')

# A folder is read at a glance. The old paths of public headers that moved do not count, nor do the
# figures in bench/results.
while read -r count folder; do
  complain "${folder#"$root"/} holds $count files, more than $most_files: sort them into folders"
done < <(find "$root"/{include,src,testing,providers,tests,samples,bench} -path "$root/bench/results" -prune \
  -o -type f -print0 | xargs -0 grep -L '^// Moved\. ' |
  sed 's#/[^/]*$##' | sort | uniq -c | awk -v most="$most_files" '$1 > most')

finish "file sizes"
