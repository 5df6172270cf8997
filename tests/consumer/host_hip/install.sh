#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Configures, builds and installs the project of the host provider alone, and moves the result:
# install.sh SOURCE FOLDER CMAKE [OPTION...]. It ends up in FOLDER/prefix.
set -euo pipefail
source=$1
folder=$2
cmake=$3
shift 3

rm -rf "$folder/staging" "$folder/prefix"
"$cmake" -S "$source" -B "$folder/build" "$@"
"$cmake" --build "$folder/build"
"$cmake" --install "$folder/build" --prefix "$folder/staging"
mv "$folder/staging" "$folder/prefix"
