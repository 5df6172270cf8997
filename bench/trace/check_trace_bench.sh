#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs trace_bench on a small trace of two streams, idle and busy, and looks at its files:
# check_trace_bench.sh PROGRAM LIBRARY, which is plain_allocator.
set -euo pipefail
program=$1
library=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
traces=$folder/traces
mkdir "$traces"
stop() {
  echo "check_trace_bench.sh: $1" >&2
  exit 1
}

# 60 blocks of 1 KiB to 240 KiB, each freed when 8 others have followed; some are left.
awk 'BEGIN {
  print "Thread,Time,Action,Pointer,Size,Stream"
  for (i = 1; i <= 60; ++i) {
    printf "0,%d,allocate,%d,%d,%d\n", i, i, (i * 37 % 240 + 1) * 1024, i % 2
    if (i > 8) printf "0,%d,free,%d,%d,%d\n", i, i - 8, ((i - 8) * 37 % 240 + 1) * 1024, i % 2
  }
}' >"$traces/small.csv"

# fields_of CSV CONTENDER EPOCH COLUMN...: the cells of one row, one a line.
fields_of() {
  awk -v contender="\"$2\"" -v epoch="$3" -v wanted="${*:4}" -F, '
    # Quoted cells before these hold commas: columns are counted from the end, because none does
    # there.
    NR == 1 { for (i = 1; i <= NF; ++i) from_end[$i] = NF - i }
    NR > 1 && index($0, "," epoch "," contender ",") {
      count = split(wanted, names, " ")
      for (i = 1; i <= count; ++i) print $(NF - from_end[names[i]])
    }' "$1"
}

for mode in "" --busy; do
  csv=$folder/figures.csv
  "$program" "$traces" --repeats 2 --pause-ms 1 --no-torch --allocator "$library" $mode \
    --csv "$csv" --markdown "$folder/tables.md" >"$folder/out" || { cat "$folder/out"; stop "it fails with '$mode'"; }
  lines=$(wc -l <"$csv")
  ((lines == 1 + 2 * 3)) || stop "$lines lines in the CSV, expected 1 and 2 epochs of 3 contenders"
  for row in "vmm_pool_resource 1" "vmm_pool_resource 2" "plain_allocator 1" "plain_allocator 2"; do
    read -r contender epoch <<<"$row"
    mapfile -t cells < <(fields_of "$csv" "$contender" "$epoch" allocations streams samples \
      peak_requested peak_ratio done_ms)
    [[ ${cells[*]:0:3} == "60 2 2" ]] ||
      stop "$row: allocations, streams, samples ${cells[*]:0:3}"
    awk -v ratio="${cells[4]}" 'BEGIN { exit !(ratio >= 1) }' ||
      stop "peak ratio ${cells[4]} below 1"
    if [[ $mode == --busy ]]; then
      awk -v done="${cells[5]}" 'BEGIN { exit !(done > 0) }' ||
        stop "busy, but the GPU is done after nothing"
    else
      [[ -z ${cells[5]} ]] || stop "idle streams, but done_ms is ${cells[5]}"
    fi
  done
  [[ $(fields_of "$csv" plain_allocator 2 peak_ratio) == 1.0000 ]] ||
    stop "the peak of hipMalloc is not what was requested"
  grep -q 'small.*medians' "$folder/tables.md" || stop "no table of the trace"
done

# A contender that fails is named, and leaves the figures of the others.
printf 'no library' >"$folder/broken.so"
if "$program" "$traces" --repeats 1 --pause-ms 1 --no-torch --allocator "$folder/broken.so" \
  --csv "$csv" >"$folder/out" 2>&1; then stop "a broken library is no failure"; fi
grep -q 'trace_bench: small, broken: failed: .*broken.so' "$folder/out" ||
  stop "$(cat "$folder/out")"
[[ $(fields_of "$csv" vmm_pool_resource 2 samples) == 1 ]] ||
  stop "no figures beside a broken library"

# Arguments that make no sense are refused in a sentence.
if "$program" "$traces" --only gold --no-torch >"$folder/out" 2>&1; then
  stop "--only gold is taken"
fi
grep -q "'gold' is not here; there are vmm_pool_resource, hipMallocAsync" "$folder/out" ||
  stop "$(cat "$folder/out")"
if "$program" /nonexistent.csv --no-torch >"$folder/out" 2>&1; then
  stop "a missing trace is taken"
fi
grep -q 'cannot open it' "$folder/out" || stop "$(cat "$folder/out")"
