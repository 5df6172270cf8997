#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The host provider's folders have an order: check_host_layout.sh ROOT. A file includes its own
# folder and those above it in the table of providers/host/docs/layout.md, no file comes back to
# itself over includes, a header and its source taken as one, and no folder has more than 25 files.
source "$(dirname "$0")/common.sh"
house=providers/host
page=$house/docs/layout.md
limit=25

declare -A rank=()
while read -r folder; do rank[$folder]=${#rank[@]}; done < <(
  sed -n 's/^| `\([a-z_]*\)\/` |.*/\1/p' "$root/$page")
((${#rank[@]} > 0)) || complain "$page has no table of folders"

mapfile -t files < <(cpp_files "$house" | grep -v "^$root/$house/tests/")
declare -A count=()
for path in "${files[@]}"; do
  file=${path#"$root/$house/"}
  folder=${file%/*}
  count[$folder]=$((${count[$folder]:-0} + 1))
  [[ -n ${rank[$folder]:-} ]] ||
    complain "$house/$file: its folder is not in the table of $page: add a row or move the file"
done
for folder in "${!count[@]}"; do
  ((count[$folder] <= limit)) ||
    complain "$house/$folder has ${count[$folder]} files, more than $limit: split it by idea"
done
for folder in "${!rank[@]}"; do
  [[ -n ${count[$folder]:-} ]] || complain "$page: the folder $folder/ holds no file: drop the row"
done

edges=
while read -r file line header; do
  [[ $header == '"'* ]] || continue
  resolve target "$file" "${header:1:-1}"
  [[ $target == "$house"/* ]] || continue
  from=${file#"$house/"} to=${target#"$house/"}
  ((${rank[${to%/*}]:-0} <= ${rank[${from%/*}]:-0})) ||
    complain "$file:$line: ${from%/*}/ may not include ${to%/*}/, which stands below it in $page"
  [[ ${from%.*} == "${to%.*}" ]] || edges+="${from%.*} ${to%.*}"$'\n'
done < <(includes_of "${files[@]}")
# tsort prints one circle after the other on standard error.
loops=$(tsort <<<"$edges" 2>&1 >/dev/null | sed -n 's/^tsort: \([^ ]*\/[^ ]*\)$/\1/p' | paste -sd' ') || true
[[ -z $loops ]] || complain "$house: these include each other in a circle: $loops"

finish "folders of the host provider"
