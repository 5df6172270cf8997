#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No file is left out: check_targets.sh ROOT COMPILE_COMMANDS PROVIDER [PATH...]. Every .cpp file is
# compiled by this build, every header of ours is included, every public one by the umbrella; a suite
# of tests ends in its file. PATHs are the folders and files that this build leaves out, by an
# option, the provider or a missing package.
source "$(dirname "$0")/common.sh"
compile_commands=$2
provider=$3
shift 3
left_out=("$@")

# Files that this build is right not to compile.
is_excused() {
  local folder
  case $1 in
    "providers/$provider/"*) return 1 ;;
    providers/*/*) return 0 ;;
    tests/*_host_test.cpp | tests/support/host/*) [[ $provider != host ]] && return 0 ;;
    tests/preload/program/fake_driver.cpp) [[ $provider == cuda ]] && return 0 ;;  # has the driver
    samples/slots/kokkos_*.cpp | samples/slots/umpire_*.cpp) return 0 ;;  # need Kokkos, Umpire
    tests/consumer/*) return 0 ;;  # a project of its own, built by the consumer tests
  esac
  for folder in "${left_out[@]}"; do
    [[ $1 == "$folder" || $1 == "$folder"/* ]] && return 0
  done
  return 1
}

declare -A is_compiled is_included
while IFS= read -r file; do
  is_compiled[${file#"$root"/}]=1
  # A unit of several files includes them.
  [[ $file == */Unity/unity_*.cxx ]] || continue
  while IFS= read -r part; do is_compiled[${part#"$root"/}]=1; done < <(
    sed -n 's|^#include "\(.*\)"$|\1|p' "$file")
done < <(sed -n 's|^ *"file": "\(.*\)",\{0,1\}$|\1|p' "$compile_commands")
((${#is_compiled[@]} > 0)) || complain "$compile_commands lists no source"

mapfile -t files < <(cpp_files src testing tests samples bench providers/host/tests && provider_files)
mapfile -t kernels < <(find "$root"/{samples,tests,bench} -name '*.cu' 2>/dev/null)
while read -r file _ header; do
  [[ $header == '"'* ]] || continue
  resolve target "$file" "${header:1:-1}" src tests
  [[ -z $target ]] || is_included[$target]=1
done < <(includes_of "${files[@]}" "${kernels[@]}")

for path in "${files[@]}"; do
  file=${path#"$root"/}
  if [[ $file == *.cpp ]]; then
    is_excused "$file" || [[ -n ${is_compiled[$file]:-} ]] ||
      complain "$file is in no target: list it in the CMakeLists.txt of its folder"
  elif [[ $file == tests/compat/stand_ins/* ]]; then
    continue  # included by <...>, under the name that it stands for
  elif [[ -z ${is_included[$file]:-} ]]; then
    complain "$file is included by nothing: include it or delete it"
  fi
done

# In a unit of several files, an open suite would take in the cases of the next file.
while read -r path; do
  complain "${path#"$root"/} does not end its suite: write TEST_SUITE_END(); behind the last case"
done < <(grep -oE '^TEST_SUITE_(BEGIN|END)' "${files[@]}" /dev/null |
  awk -F: '{ last[$1] = $2 } END { for (file in last) if (last[file] ~ /BEGIN/) print file }' | sort)

# For tests, and parts of other public headers.
not_in_umbrella='hipvmm/(container/(append_slots|growable_storage)|core/owner_process|ipc/ranks/communicator_parts)\.hpp'
umbrella=$(includes_of "$root/include/hipvmm/hipvmm.hpp" | sed 's/.*<\(.*\)>$/\1/' | sort)
public=$(cpp_files include | sed "s|^$root/include/||" |
  grep -Ev '^hipvmm/(hipvmm\.hpp$|hipvmm\.h$|python\.h$|serving\.h$|torch\.h$|vector\.hpp$|pool\.hpp$|provider/|compat/|testing/)' |
  grep -Evx "$not_in_umbrella" | sort)
difference=$(diff <(echo "$public") <(echo "$umbrella")) ||
  complain "include/hipvmm/hipvmm.hpp does not include exactly the headers for programs (< missing, > too many):
$difference"

finish "every file is in a target"
((${#left_out[@]} == 0)) || printf 'not looked at, for this build leaves them out: %s\n' "${left_out[*]}"
