#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Takes a tar stream, whose length nobody knows beforehand, into device memory in two ways: into a
# vector that grows in place, and by allocating twice as much, copying and freeing.
# bash samples/demo.sh
# - The data is read once before, so that neither way waits for the disk.
# - The two ways take turns, three times each; the time is the median.
# HIPVMM_BUILD names a build that is there already; else it is made in build/quick/.
set -euo pipefail
shopt -s inherit_errexit
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"
folder=/usr/include
build=${HIPVMM_BUILD:-$root/build/quick}

if [[ -z ${HIPVMM_BUILD:-} ]]; then
  require_packages
  configure "$build" "${quick_build[@]}"
  cmake --build "$build" --parallel "$(nproc)" --target ingest
fi

# The most bytes to read, or nothing. The host provider's devices are as small as the machine: the
# copying method holds the old and the twice as large new memory at once, three times the data.
input_limit() {
  grep -q '^HIPVMM_PROVIDER_CHOSEN:INTERNAL=host$' "$build/CMakeCache.txt" || return 0
  local device data
  if [[ -n ${HIPVMM_HOST_MEMORY:-} ]]; then
    device=$(numfmt --from=auto "${HIPVMM_HOST_MEMORY%B}")
  else
    device=$(awk '/^MemTotal:/ { m = $2 * 1024 / 4; printf "%.0f", m < 2 ^ 34 ? m : 2 ^ 34 }' /proc/meminfo)
  fi
  data=$(du -sb "$folder" | cut -f1)
  ((data <= device / 4)) || echo $((device / 4))
}

stream() {
  if [[ -n $limit ]]; then
    # Ended early, tar dies of a closed pipe; that is no failure here.
    { tar -C / -cf - "${folder#/}" 2>/dev/null || true; } | head -c "$limit"
  else
    tar -C / -cf - "${folder#/}"
  fi
}

limit=$(input_limit)
echo
echo "tar cf - $folder | ${build#"$root/"}/bin/ingest --check --method=..."
[[ -z $limit ]] || echo "Only its first $(numfmt --to=iec-i --suffix=B "$limit"): a quarter of a \
device's memory, for the copying method needs three times the data. HIPVMM_HOST_MEMORY enlarges it."

stream | cat >/dev/null  # tar reads nothing that it writes to /dev/null
results=$(for method in vmm copy copy vmm vmm copy; do
  stream | "$build/bin/ingest" --check --json - --method="$method" -
done)

awk '
  function value(key) {
    if (!match($0, "\"" key "\":[^,}]*")) return "?"
    return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
  }
  function mebibytes(key) { return sprintf("%.1f MiB", value(key) / 1048576) }
  function row(name) { printf "%-22s %14s %14s\n", name, cell[name, "vmm"], cell[name, "copy"] }
  function middle(a, b, c) { return a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b) }
  function median(way) { return sprintf("%.2f s", middle(time[way, 1], time[way, 2], time[way, 3])) }
  {
    way = value("method") == "\"vmm\"" ? "vmm" : "copy"
    time[way, ++runs[way]] = value("seconds") + 0
    cell["data", way] = mebibytes("bytes")
    cell["growth steps", way] = value("growth_steps")
    cell["copied by growth", way] = mebibytes("bytes_copied_by_growth")
    cell["address", way] = value("base_moved") == "true" ? "moved" : "stayed"
    cell["peak device memory", way] = mebibytes("peak_physical_bytes")
    if (value("verified") != "true") wrong[way] = 1
    cell["checksum", way] = wrong[way] ? "WRONG" : "right"
  }
  END {
    cell["time, median of 3", "vmm"] = median("vmm")
    cell["time, median of 3", "copy"] = median("copy")
    printf "\n%-22s %14s %14s\n", "", "grown in place", "by copying"
    row("data"); row("growth steps"); row("copied by growth"); row("address")
    row("peak device memory"); row("time, median of 3"); row("checksum")
  }' <<<"$results"
