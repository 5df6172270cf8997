#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Figures that pages quote are those of the files in bench/results: check_figures.sh ROOT. The list
# bench/figures.txt says which rows they come from; its form is at the top of figures.awk.
# - Each page that links to a file of results has at least one figure from that file in the list.
# - In a row of a table that links to such a file, the list has every figure.
source "$(dirname "$0")/common.sh"
list=$root/bench/figures.txt

[[ -f $list ]] || complain "bench/figures.txt is missing"
while IFS= read -r line; do
  complain "${line#"$root"/}"
done < <(awk -v root="$root" -f "$layering_dir/figures.awk" "$list")

# "page file" of each pair in the list.
listed=$(awk '/^page / { page = $2 } /^file / { print page, $2 }' "$list")
while IFS=: read -r page file; do
  grep -qxF "$page $file" <<<"$listed" ||
    complain "$page quotes bench/results/$file: say in bench/figures.txt which figures and rows"
done < <(cd "$root" && pages | sed "s|^$root/||" | grep -vxF bench/results/README.md |
  xargs grep -oHE 'bench/results/[A-Za-z0-9._-]+\.csv(\.gz)?\)' |
  sed -E 's|^([^:]*):bench/results/(.*)\)$|\1:\2|' | sort -u)

# figures_in TEXT: how many numbers it has.
figures_in() { grep -oE '(^|[^A-Za-z0-9_.,-])[0-9][0-9.,]*' <<<"$1" | wc -l; }

while IFS=: read -r page line; do
  line=$(sed -E 's| *\(?\[[^]]*\]\([^)]*\)\)?||g' <<<"$line")
  label=$(cut -d'|' -f2 <<<"$line")
  cells=$(cut -d'|' -f3- <<<"$line")
  checked=$(awk -v page="$page" -v label="$label" '
    BEGIN { gsub(/^ *| *$/, "", label) }
    /^page / { here = $2 == page }
    here && index($0, "| " label) == 1 { n += gsub(/[{][}]/, "") }
    END { print n + 0 }' "$list")
  ((checked == $(figures_in "$cells"))) ||
    complain "$page: $checked of the $(figures_in "$cells") figures beside \"${label# }\" are in bench/figures.txt"
done < <(cd "$root" && pages | sed "s|^$root/||" | xargs grep -HE '^\|.*bench/results/[A-Za-z0-9._-]+\.csv' |
  grep -v '^bench/results/README.md:')

finish "figures of pages and results"
