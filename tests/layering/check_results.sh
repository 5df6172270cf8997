#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Figures in the tree are quoted: check_results.sh ROOT. A page links to each file in bench/results,
# the README there lists it, and a file above 100 KB is packed.
source "$(dirname "$0")/common.sh"
list=$root/bench/results/README.md

[[ -f $list ]] || complain "bench/results/README.md is missing: it lists what is there"
mapfile -t quoting < <(pages | grep -vxF "$list")
for path in "$root"/bench/results/*; do
  name=${path##*/}
  [[ $name != README.md ]] || continue
  grep -qF "\`$name\`" "$list" 2>/dev/null || complain "bench/results/README.md does not list $name"
  grep -qF "bench/results/$name)" "${quoting[@]}" ||
    complain "no page links to bench/results/$name: delete it, git keeps it"
  [[ $name == *.gz || $(stat -c %s "$path") -le 102400 ]] ||
    complain "bench/results/$name is above 100 KB: pack it with gzip -9n"
done

finish "results are quoted"
