#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Nothing installed names the folders it was built in: check_installed.sh PREFIX BUILD SOURCE.
set -euo pipefail
prefix=$1
build=$2
source=$3

[[ -n $(find "$prefix" -name hipvmmConfig.cmake) ]] || {
  echo "$prefix holds no hipvmmConfig.cmake: nothing was installed" >&2
  exit 1
}
for folder in "$build" "$source" "$(dirname "$prefix")/staging"; do
  if files=$(grep -rlaF -- "$folder/" "$prefix"); then
    printf 'These installed files name %s, which another machine lacks:\n%s\n' "$folder" "$files" >&2
    exit 1
  fi
done
