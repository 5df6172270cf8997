#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The reference, the guides and all other pages as HTML with a search: docs/reference/html/make.sh
# [--keep-going] FOLDER makes FOLDER/html, which may be moved. Needs Doxygen (Debian: doxygen), which
# DOXYGEN may name. Fails where Doxygen warns, and where a link leads nowhere, unless it is to keep
# going: other releases than CI's may warn of more.
set -euo pipefail
strict=1
[[ ${1:-} != --keep-going ]] || { strict=0 && shift; }
mkdir -p "${1:?name the folder for the pages}"
folder=$(cd "$1" && pwd)
# As Doxygen names it to what it starts.
cd -P "$(dirname "$0")/../../.."

version=$(sed -n 's/^#define HIPVMM_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/hipvmm/version.hpp |
  paste -sd.)
mapfile -t samples < <(find samples -maxdepth 1 -name '*.c[pu]*' &&
  find samples/{guides,ranks,slots} -name '*.c[pu]*')
printf '/** \\example %s */\n' "${samples[@]}" | sort >"$folder/samples.dox"

# What was made of pages that are gone.
rm -rf "$folder/html"
{
  cat docs/reference/Doxyfile
  ((strict)) || echo "WARN_AS_ERROR = NO"
  printf '%s\n' "PROJECT_NUMBER = $version" "OUTPUT_DIRECTORY = \"$folder\"" \
    "INPUT += \"$folder/samples.dox\""
} | "${DOXYGEN:-doxygen}" -

# Files that pages link to and that are no pages.
while IFS= read -r file; do
  mkdir -p "$folder/html/files/$(dirname "$file")"
  cp "$file" "$folder/html/files/$file"
done < <(sed -n 's/.*\(href\|src\)="files\/\([^"]*\)".*/\2/p' <(sed 's/<\(a\|img\)/\n<\1/g' \
  "$folder"/html/*.html) | sort -u)

# Doxygen 1.9.4 lists the section of nested classes at the top where all are private, and that of
# macros where all depend on others.
for section in nested-classes define-members; do
  for page in "$folder"/html/*.html; do
    ! grep -q "href=\"#$section\"" "$page" || grep -q "name=\"$section\"" "$page" ||
      sed -i "s|<a href=\"#$section\">[^<]*</a>\( &#124;\)\{0,1\}||" "$page"
  done
done

bash docs/reference/html/check_links.sh "$folder/html" || ((!strict))
