#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Completion in bash offers what the tools take: completion_test.sh COMPLETION FOLDER_OF_TOOLS
set -euo pipefail
source "$1"
completes() {  # TOOL WORD EXPECTED
  COMP_WORDS=("$2" "$3")
  COMP_CWORD=1
  _hipvmm "$2"
  [[ " ${COMPREPLY[*]} " == *" $4 "* && $1 == "${#COMPREPLY[@]}" ]] || {
    printf '%s %s: %s\n' "$2" "$3" "${COMPREPLY[*]}"
    exit 1
  }
}
completes 1 "$2/hipvmm-info" --pro --probe
completes 1 "$2/hipvmm-ctl" re remove
completes 1 "$2/hipvmm-ctl" ke keep
completes 1 "$2/hipvmm-replay" --timel --timeline
completes 1 "$2/hipvmm-run" --thr --threshold
for tool in info ctl replay run; do
  complete -p "hipvmm-$tool" >/dev/null
done
