#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One file knows the versions of HIP's headers: check_versions.sh ROOT. HIP_VERSION as a number to
# hand on is no such knowledge, its parts are.
source "$(dirname "$0")/common.sh"
home=src/core/hip_compat.hpp

mapfile -t files < <(cpp_files include src tests samples bench providers/host/tests && provider_files)
found=0
while IFS=: read -r file line _; do
  found=$((found + 1))
  [[ $file == "$home" ]] ||
    complain "$file:$line asks for the version of HIP's headers: say what differs in $home and use that"
done < <(code_of "${files[@]}" | grep -E '\bHIP_VERSION_[A-Z]' || true)
((found > 0)) || complain "$home asks for no version of HIP's headers: drop this check"

finish "versions of HIP's headers in one file"
