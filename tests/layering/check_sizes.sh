#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No C++ file has more than 500 lines: check_sizes.sh ROOT.
source "$(dirname "$0")/common.sh"
limit=500

mapfile -t files < <(cpp_files include src tests samples bench)
((${#files[@]} > 0)) || complain "$root holds no C++ file"
while read -r lines file; do
  complain "${file#"$root"/} has $lines lines, more than $limit: split it by idea"
done < <(wc -l "${files[@]}" | awk -v limit="$limit" '$1 > limit && $2 != "total"')

finish "file sizes"
