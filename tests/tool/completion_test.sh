#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Completion in bash, and in fish if it is here, offers options of the tools:
# completion_test.sh FOLDER_OF_COMPLETIONS FOLDER_OF_TOOLS
set -euo pipefail
completions=$1
source "$1/completion.bash"
completes() {  # COUNT TOOL WORDS EXPECTED
  read -ra COMP_WORDS <<<"$2 $3"
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _hipvmm "$2"
  [[ " ${COMPREPLY[*]} " == *" $4 "* && $1 == "${#COMPREPLY[@]}" ]] || {
    printf '%s %s: %s\n' "$2" "$3" "${COMPREPLY[*]}"
    exit 1
  }
}
completes 1 "$2/hipvmm-info" --pro --probe
completes 1 "$2/hipvmm-ctl" re remove
completes 1 "$2/hipvmm-ctl" ke keep
completes 1 "$2/hipvmm-ctl" 'limit --dev' --device
completes 1 "$2/hipvmm-ctl" 'keep FROM PATH --u' --user
completes 1 "$2/hipvmm-replay" --timel --timeline
completes 1 "$2/hipvmm-run" --thr --threshold
for tool in info ctl replay run; do
  complete -p "hipvmm-$tool" >/dev/null
done
command -v fish >/dev/null || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PATH=$2:$PATH XDG_CONFIG_HOME=$folder XDG_DATA_HOME=$folder
offers() {  # LINE EXPECTED
  cp "$completions/completion.fish" "$folder/${1%% *}.fish"
  found=$(fish --no-config -c 'set fish_complete_path $argv[1]; complete -C $argv[2]' "$folder" "$1")
  [[ $found == "$2" ]] || { printf 'fish, %s: %s\n' "$1" "$found"; exit 1; }
}
offers 'hipvmm-info --pro' --probe
offers 'hipvmm-ctl ke' keep
offers 'hipvmm-ctl limit --dev' --device
