#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Whether ggml's pool of virtual memory works on this machine's HIP devices: samples/slots/ggml_vmm.sh
# [HIPVMM_INFO] prints the option for ggml's CMake on standard output and its reason on standard
# error. HIPVMM_INFO is the program hipvmm-info, which probes each device, by default that of PATH.
#
# The pool (ggml_cuda_pool_vmm) asks each device for one attribute, and aborts when a call fails
# later. It maps pieces of unequal size behind each other, grants them one by one, uses blocks across
# their borders at once, unmaps each by itself and frees the addresses, in a range for each stream.
set -euo pipefail
info=${1:-hipvmm-info}
needed=(virtual_memory several_reservations tail_access crosses_chunks visible_at_once unmaps_each
  returns_with_addresses)

status=0
report=$("$info") || status=$?
((status == 0)) || { echo "ggml_vmm.sh: $info failed with status $status" >&2; exit 2; }
awk -v needed="${needed[*]}" '
  BEGIN { count = split(needed, names, " "); for (i = 1; i <= count; i++) wanted[names[i]] }
  /^device / { device = $2; sub(/:.*/, "", device); devices++ }
  /^  [a-z_]+ +(yes|no|unknown) / && $1 in wanted {
    answers++
    if ($2 != "yes") {
      printf "device %s: %s is %s\n", device, $1, $2 >"/dev/stderr"
      lacking = 1
    }
  }
  END {
    if (devices == 0 || answers != devices * count) {
      print "ggml_vmm.sh: this is no report of hipvmm-info with these traits" >"/dev/stderr"
      exit 2
    }
    if (!lacking) print devices " devices have what the pool needs" >"/dev/stderr"
    print "-DGGML_HIP_NO_VMM=" (lacking ? "ON" : "OFF")
  }' <<<"$report"
