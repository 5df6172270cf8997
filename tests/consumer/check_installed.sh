#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Nothing installed names the folders it was built in: check_installed.sh PREFIX BUILD SOURCE
# [CONFIG_FILE].
set -euo pipefail
prefix=$1
build=$2
source=$3
config=${4:-hipvmmConfig.cmake}

[[ -n $(find "$prefix" -name "$config") ]] || {
  echo "$prefix holds no $config: nothing was installed" >&2
  exit 1
}
for folder in "$build" "$source" "$(dirname "$prefix")/staging"; do
  if files=$(grep -rlaF -- "$folder/" "$prefix"); then
    printf 'These installed files name %s, which another machine lacks:\n%s\n' "$folder" "$files" >&2
    exit 1
  fi
done
