#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Takes a tar stream, whose length nobody knows beforehand, into device memory twice: into a vector
# that grows in place, and by allocating twice as much, copying and freeing. bash samples/demo.sh
# HIPVMM_BUILD names a build that is there already; else it is made in build/.
set -euo pipefail
shopt -s inherit_errexit
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/tests/support/packages.sh"
folder=/usr/include
build=${HIPVMM_BUILD:-$root/build}

if [[ -z ${HIPVMM_BUILD:-} ]]; then
  require_packages
  configure "$build"
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

results=$(for method in vmm copy; do
  stream | "$build/bin/ingest" --check --json - --method="$method" -
done)

awk '
  function value(key) {
    if (!match($0, "\"" key "\":[^,}]*")) return "?"
    return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
  }
  function mebibytes(key) { return sprintf("%.1f MiB", value(key) / 1048576) }
  function row(name) { printf "%-22s %14s %14s\n", name, cell[name, 1], cell[name, 2] }
  {
    cell["data", NR] = mebibytes("bytes")
    cell["growth steps", NR] = value("growth_steps")
    cell["copied by growth", NR] = mebibytes("bytes_copied_by_growth")
    cell["address", NR] = value("base_moved") == "true" ? "moved" : "stayed"
    cell["peak device memory", NR] = mebibytes("peak_physical_bytes")
    cell["time", NR] = sprintf("%.2f s", value("seconds"))
    cell["checksum", NR] = value("verified") == "true" ? "right" : "WRONG"
  }
  END {
    printf "\n%-22s %14s %14s\n", "", "grown in place", "by copying"
    row("data"); row("growth steps"); row("copied by growth"); row("address")
    row("peak device memory"); row("time"); row("checksum")
  }' <<<"$results"
