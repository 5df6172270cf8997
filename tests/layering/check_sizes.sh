#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No C++ file has more than 500 lines, and no folder of the product more than 25: check_sizes.sh ROOT.
source "$(dirname "$0")/common.sh"
limit=500

mapfile -t files < <(cpp_files include src providers tests samples bench)
((${#files[@]} > 0)) || complain "$root holds no C++ file"
while read -r lines file; do
  complain "${file#"$root"/} has $lines lines, more than $limit: split it by idea"
done < <(wc -l "${files[@]}" | awk -v limit="$limit" '$1 > limit && $2 != "total"')

# A folder is read at a glance. The old paths of public headers that moved do not count.
while read -r count folder; do
  complain "${folder#"$root"/} holds $count files, more than 25: sort them into folders"
done < <(cpp_files include src testing providers | grep -v /tests/ | xargs grep -L '^// Moved\. ' |
  sed 's#/[^/]*$##' | sort | uniq -c | awk '$1 > 25')

finish "file sizes"
