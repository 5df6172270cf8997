#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The recommendation of samples/slots/ggml_vmm.sh for each release that the host provider imitates:
# check_ggml_vmm.sh ROOT PROGRAMS.
set -euo pipefail
script=$1/samples/slots/ggml_vmm.sh
info=$2/hipvmm-info
problems=0

check() {  # PROFILE STATUS OUTPUT SENTENCE
  local output sentences status=0
  sentences=$(mktemp)
  output=$(HIPVMM_HOST_PROFILE=$1 bash "$script" "$info" 2>"$sentences") || status=$?
  if [[ $status != "$2" || $output != "$3" ]] || ! grep -qF -- "$4" "$sentences"; then
    printf '%s: status %s, %s\n' "$1" "$status" "$output" >&2
    cat "$sentences" >&2
    problems=$((problems + 1))
  fi
  rm "$sentences"
}

check rocm-5.7 0 -DGGML_HIP_NO_VMM=ON "virtual_memory is no"
check rocm-6.4 0 -DGGML_HIP_NO_VMM=OFF "have what the pool needs"
for release in rocm-7.1 rocm-7.2; do
  check "$release" 0 -DGGML_HIP_NO_VMM=ON "device 0: tail_access is no"
done
check rocm-7.14 0 -DGGML_HIP_NO_VMM=OFF "have what the pool needs"
check no-such-release 2 "" "failed with status"
info="echo"
check strict 2 "" "no report of hipvmm-info"
((problems == 0))
