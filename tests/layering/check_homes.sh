#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One home per HIP function: check_homes.sh ROOT. Each function is called from one .cpp file of the
# library, the one that providers/hip_surface.def names.
source "$(dirname "$0")/common.sh"

list=providers/hip_surface.def

declare -A home
while read -r function file; do home[$function]=$file; done < <(surface_used)
((${#home[@]} > 0)) || complain "$list names no function: write one HIPVMM_HIP_USED a line"

while IFS= read -r line; do
  complain "$list: cannot read '$line': write HIPVMM_HIP_USED(function, folder/file.cpp), with a text \
if need be, or HIPVMM_HIP_OFFERED(function)"
done < <(grep -Ev '^(//.*|HIPVMM_HIP_USED\(hip[A-Za-z0-9_]+, [a-z0-9_/]+\.cpp(, ".+")?\)|HIPVMM_HIP_OFFERED\(hip[A-Za-z0-9_]+\))?$' \
  "$surface")
while IFS= read -r line; do complain "$list: $line names a function twice"; done < <(
  { surface_used | cut -d' ' -f1; surface_offered; } | sort | uniq -d)
surface_used | sort --check=quiet -k1,1 || complain "$list: HIPVMM_HIP_USED lines are not sorted"
surface_offered | sort --check=quiet || complain "$list: HIPVMM_HIP_OFFERED lines are not sorted"

# A function counts as called if its name stands before a parenthesis, or if the name of a
# listed function stands at all, as in a call through a pointer. Functions of the preload
# with HIP's names are no calls.
calls() {
  mapfile -t files < <(cpp_files src | grep -v '/src/preload/hip_names\.cpp$')
  code_of "${files[@]}" | awk -v listed="${!home[*]}" '
    BEGIN { count = split(listed, names, " "); for (i = 1; i <= count; i++) known[names[i]] = 1 }
    {
      place = $0
      sub(/:[0-9]+:.*/, "", place)
      code = $0
      sub(/^[^:]*:[0-9]+:/, "", code)
      while (match(code, /[A-Za-z_][A-Za-z0-9_]*/)) {
        word = substr(code, RSTART, RLENGTH)
        code = substr(code, RSTART + RLENGTH)
        if (word !~ /^hip[A-Z]/ || word ~ /_t$/) continue
        if (known[word] || code ~ /^[ \t]*\(/) print word, place
      }
    }' | sort -u
}

declare -A caller
while read -r function file; do
  if [[ $file != *.cpp ]]; then
    complain "$file calls $function: a header has no home, move the call to a .cpp file"
  elif [[ -n ${caller[$function]:-} ]]; then
    complain "$function is called from ${caller[$function]} and from $file: keep one home and call \
that"
  elif [[ -z ${home[$function]:-} ]]; then
    complain "$file calls $function, which $list does not list: add HIPVMM_HIP_USED($function, \
${file#src/})"
  elif [[ src/${home[$function]} != "$file" ]]; then
    complain "$file calls $function, whose home in $list is ${home[$function]}"
  fi
  caller[$function]=$file
done < <(calls)

for function in "${!home[@]}"; do
  [[ -n ${caller[$function]:-} ]] ||
    complain "$list: $function is called nowhere: drop the line or offer it by HIPVMM_HIP_OFFERED"
done

# The environment has three homes, one of the library and one of each provider that reads it: a
# program with rights of its own hears no variable.
mapfile -t files < <(cpp_files include src testing && provider_files)
while IFS=: read -r file line _; do
  complain "$file:$line: reads a variable of its own: call environment() of core/environment.hpp, \
which a setuid program's caller cannot use"
done < <(code_of "${files[@]}" | grep -E '[^A-Za-z0-9_](secure_)?getenv([^A-Za-z0-9_]|$)' |
  grep -Ev '^(src/core/environment\.hpp|providers/(host/base/settings|cuda/base/call_delay)\.cpp):')

finish "one home per HIP function"
