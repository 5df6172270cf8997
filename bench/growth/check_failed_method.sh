#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A method of growth_bench that fails is reported, ends the program with a failure, gives its memory
# back and leaves the rows of the others: check_failed_method.sh PROGRAM, built for the host provider.
set -euo pipefail
export HIPVMM_HOST_MEMORY=64MiB HIPVMM_HOST_LEAKS=1
export HIPVMM_HOST_FAULTS="hipMallocAsync nth=2 error=hipErrorUnknown"
status=0
output=$("$1" --max-bytes 8MiB --step 2MiB --runs 1 --repeats 1 --only doubling,steps 2>&1) ||
  status=$?
expect() {
  grep -Eq "$1" <<<"$output" || { printf 'no line is as %s in\n%s\n' "$1" "$output" && exit 1; }
}
((status == 1)) || { printf 'ended with %d, not 1:\n%s\n' "$status" "$output" && exit 1; }
expect '^growth_bench: doubling, async copy: failed: hipMallocAsync'
expect '^doubling +copy +3 +8\.00 MiB +1 '
expect '^\+2\.00 MiB +async copy +4 +8\.00 MiB +1 '
