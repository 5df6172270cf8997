#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every public header compiles alone: check_headers.sh ROOT COMPILER STANDARD [HEADER...]. Warnings
# are errors; no header may reach one of HIP, CUDA or Boost, however it gets there.
source "$(dirname "$0")/common.sh"
compiler=$2
standard=$3
shift 3

headers=("$@")
if ((${#headers[@]} == 0)); then
  # Thrust, CCCL, MPI, NCCL, RMM and UCX may be missing; tests/compat compiles these headers.
  mapfile -t headers < <(cpp_files include | sed "s|^$root/include/||" | grep -Evx 'hipvmm/((adaptor|compat)/(hipmm_)?thrust|compat/(cccl|mpi|mpi_messages|mpi_rounds|mpi_window|nccl|nccl_library|nccl_registration|rmm|ucx)).hpp')
fi
if [[ $standard == c[0-9]* ]]; then
  language=c
  mapfile -t headers < <(printf '%s\n' "${headers[@]}" | grep '\.h$')
else
  language=c++
fi
((${#headers[@]} > 0)) || complain "$root/include holds no header to compile as $standard"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile() {
  local name=${1//\//_}
  printf '#include <%s>\n' "$1" |
    "$compiler" -x "$language" -std="$standard" -I"$root/include" -fsyntax-only -Wall -Wextra \
      -Wconversion -Wshadow -Wpedantic -Werror -MD -MF "$work/$name.d" - >"$work/$name.log" 2>&1 ||
    touch "$work/$name.failed"
}
export -f compile
export compiler language standard root work
printf '%s\0' "${headers[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'compile "$1"' _ {}

for header in "${headers[@]}"; do
  name=${header//\//_}
  if [[ -e $work/$name.failed ]]; then
    complain "<$header> does not compile alone as $standard:
$(head -n 20 "$work/$name.log")"
  elif vendor=$(tr ' ' '\n' <"$work/$name.d" | grep -vF "$root/" | grep -E -m1 '/(hip|boost|cuda[^/]*)/'); then
    complain "<$header> needs the vendor header $vendor"
  fi
done

finish "public headers compile alone as $standard"
