#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No C++ file has more than 500 lines: check_sizes.sh ROOT.
source "$(dirname "$0")/common.sh"
limit=500

mapfile -t files < <(cpp_files include src tests samples bench)
((${#files[@]} > 0)) || complain "$root holds no C++ file"
for file in "${files[@]}"; do
  lines=$(wc -l <"$file")
  ((lines <= limit)) || complain "${file#"$root"/} has $lines lines, more than $limit: split it by idea"
done

finish "file sizes"
