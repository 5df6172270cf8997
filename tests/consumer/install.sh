#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a build and moves the result, so that its users find nothing at the path of
# the installation: install.sh CMAKE BUILD CONFIGURATION FOLDER. It ends up in FOLDER/prefix.
set -euo pipefail
cmake=$1
build=$2
configuration=$3
folder=$4

rm -rf "$folder/staging" "$folder/prefix"
"$cmake" --install "$build" --prefix "$folder/staging" --config "$configuration"
mv "$folder/staging" "$folder/prefix"
