#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The host provider's folders have an order: check_host_layout.sh ROOT. A file includes its own
# folder and those above it in the table of providers/host/docs/layout.md, and every folder is there.
source "$(dirname "$0")/common.sh"
house=providers/host
page=$house/docs/layout.md

declare -A rank=()
while read -r folder; do rank[$folder]=${#rank[@]}; done < <(
  sed -n 's/^| `\([a-z_]*\)\/` |.*/\1/p' "$root/$page")
((${#rank[@]} > 0)) || complain "$page has no table of folders"

mapfile -t files < <(cpp_files "$house" | grep -v "^$root/$house/tests/")
declare -A used=()
for path in "${files[@]}"; do
  file=${path#"$root/$house/"}
  folder=${file%%/*}
  used[$folder]=1
  [[ -n ${rank[$folder]:-} ]] ||
    complain "$house/$file: its folder is not in the table of $page: add a row or move the file"
done
for folder in "${!rank[@]}"; do
  [[ -n ${used[$folder]:-} ]] || complain "$page: the folder $folder/ holds no file: drop the row"
done

while read -r file line header; do
  [[ $header == '"'* ]] || continue
  resolve target "$file" "${header:1:-1}"
  [[ $target == "$house"/* ]] || continue
  from=${file#"$house/"} to=${target#"$house/"}
  ((${rank[${to%%/*}]:-0} <= ${rank[${from%%/*}]:-0})) ||
    complain "$file:$line: ${from%%/*}/ may not include ${to%%/*}/, which stands below it in $page"
done < <(includes_of "${files[@]}")

finish "folders of the host provider"
