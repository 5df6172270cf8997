#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Names in comments and pages exist: check_names.sh ROOT. Looked at are `a::b`, `f()` and words with
# underscores, in pages between backticks, and files with their folder. The changelog tells of names
# that are gone, and docs/reports of those in AMD's sources.
source "$(dirname "$0")/common.sh"

# Names of others, which no code here uses. AMD's begin with capitals.
foreign='^[A-Z]|^(std|thrust|cuda|rmm|torch|ucp_request_param_t)::|^(pthread_exit|svm_range_is_valid|is_forked_child|mmap_allocate_aligned|amdgpu_ttm_tt_get_user_pages|topology_create_indirect_gpu_links)$'
foreign+='|^(__builtin_amdgcn_|amdgpu_|ggml_|hsa_|ibv_)|^(any_resource|async_resource|quick_exit|new_pool_for_device|begin_allocate_to_pool|random_allocations)$'
# Of AMD's sources.
foreign+='|^(hip_mempool(_impl)?|hip_peer|memory_lock_|reserved_aperture_allocate_aligned|safe_streams_)$'

mapfile -t sources < <(cpp_files include src testing && provider_files)
mapfile -t all < <(cpp_files include src testing tests samples bench providers)
mapfile -t texts < <(pages | grep -v "^$root/\(CHANGELOG.md\|docs/reports/\)")
((${#sources[@]} > 0)) || complain "$root holds no C++ file in include/ or src/"

# Every identifier of the code, of its literals, of scripts, builds and files.
known=$({
  code_of "${all[@]}"
  grep -ohE '"([^"\\]|\\.)*"' "${all[@]}"
  sed -n '/R"/,/)"/p' "${all[@]}"
  find "$root" \( -name build -o -name .git -o -path "$root/tests/layering" \) -prune -o \
    \( -name '*.py' -o -name '*.cu' -o -name '*.c' -o -name '*.sh' -o -name '*.def' \
    -o -name '*.map' -o -name '*.cmake' -o -name CMakeLists.txt \) -exec cat {} +
  find "$root" \( -name build -o -name .git \) -prune -o -type f -print | sed 's#/check_#/#' | tr /. '\n\n'
  [[ ! -e $root/.ci/run ]] || cat "$root/.ci/run"
  head -qn 1 "$root"/bench/results/*.csv 2>/dev/null || true
} | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u)
files=$(cd "$root" && find . \( -name build -o -name .git \) -prune -o -type f -print)

named() {
  grep -noE '//.*' "${sources[@]}" /dev/null | grep -E '::|\(\)' |
    sed -E 's#^([^:]*:[0-9]+):.*//#\1 #' || true
  grep -noE '`[^`]*(::|\(\))[^`]*`' "${texts[@]}" | sed -E 's#^([^:]*:[0-9]+):`(.*)`$#\1 \2#' |
    grep -E ' [A-Za-z_0-9]+(::[A-Za-z_0-9]+)*(\(\))?$' || true
  # Words with underscores, and their plurals.
  {
    grep -noE '`[a-z][a-z0-9]*(_[a-z0-9]+)+`' "${texts[@]}" /dev/null
    grep -noE '(//|/\*|^ \*).*' "${all[@]}" /dev/null | grep -v IWYU
  } | grep -oE '^[^:]*:[0-9]+:|[A-Za-z_]*[a-z0-9]+(_[a-z0-9]+)+[A-Za-z_0-9]*' |
    awk '/:$/ { place = substr($0, 1, length($0) - 1); next } { print place, $0 "()" }'
}
while read -r place name; do
  complain "${place#"$root"/} names $name, which no code has"
done < <(awk -v foreign="$foreign" '
  NR == FNR { is_known[$1] = 1; next }
  {
    place = $1
    $1 = ""
    while (match($0, /[A-Za-z_][A-Za-z_0-9]*(::[A-Za-z_][A-Za-z_0-9]*)+|[A-Za-z_][A-Za-z_0-9]*\(\)/)) {
      name = substr($0, RSTART, RLENGTH)
      $0 = substr($0, RSTART + RLENGTH)
      sub(/\(\)$/, "", name)
      if (name ~ foreign || is_known[substr(name, 1, length(name) - 1)]) continue
      parts = split(name, part, "::")
      for (i = 1; i <= parts; i++) if (!is_known[part[i]]) { print place, name; break }
    }
  }' <(printf '%s\n' "$known") <(named))

while read -r place file; do
  grep -qF "/$file" <<<"$files" || complain "${place#"$root"/} names $file, which does not exist"
done < <({
  grep -noE '//.*' "${sources[@]}" | sed -E 's#^([^:]*:[0-9]+):.*//#\1 #'
  grep -noE '.*' "${texts[@]}" | sed -E 's#^([^:]*:[0-9]+):#\1 #'
} | awk '{
    place = $1
    $1 = ""
    while (match($0, /(^|[^A-Za-z0-9_.\/-])(core|runtime|vmm|capability|strategy|region|mr|container|ipc|c|compat|preload|tool|tests)(\/[a-z0-9_]+)+\.(hpp|cpp|h)/)) {
      print place, substr($0, RSTART + ($0 !~ /^[a-z]/ || RSTART > 1), RLENGTH - 1 + (RSTART == 1 && $0 ~ /^[a-z]/))
      $0 = substr($0, RSTART + RLENGTH)
    }
  }')

finish "names in prose"
