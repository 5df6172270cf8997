#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Nothing includes itself by a detour: check_circles.sh ROOT. The library is one graph, the host
# provider another. A unit's files share a name: runtime/event is include/hipvmm/runtime/event.hpp,
# src/runtime/event.hpp and src/runtime/event.cpp.
# - No circle between units, and none between folders.
# - A member function is defined in the unit that declares its class, or in a file of the same folder
#   that has the unit's name and a task: region/mapped_access.cpp for region/mapped.hpp.
source "$(dirname "$0")/common.sh"
graphs=('include src' providers/host)

# unit_edges: "unit unit" of each include between two units, also "unit unit" of each to itself, so
# that tsort knows all.
unit_edges() {
  local file line header target
  while read -r file line header; do
    case $header in
      '<hipvmm/'*) target=include/${header:1:-1} ;;
      '<'*) continue ;;
      *) resolve target "$file" "${header:1:-1}" "${roots[@]}" ;;
    esac
    [[ -n $target && -n ${known[$target]:-} ]] || continue
    printf '%s %s\n' "${file%.*}" "${target%.*}"
  done < <(includes_of "${files[@]}") | sed -E 's#(^| )(include/hipvmm|src)/#\1#g' | sort -u
}

# complain_of_loops MEMBERS: of the graph on standard input.
complain_of_loops() {
  local line loop=''
  while read -r line; do
    case $line in
      *'contains a loop:') [[ -z $loop ]] || complain "$1 include each other:$loop"; loop=' ' ;;
      *) loop+=" ${line#tsort: }" ;;
    esac
  done < <(tsort 2>&1 >/dev/null)
  [[ -z $loop ]] || complain "$1 include each other:$loop"
}

# members FILE...: "unit class line" of each member function defined outside of its unit.
misplaced_members() {
  code_of "$@" | awk -v root="$root/" '
    function unit_of(path) { sub(/^(include\/hipvmm|src)\//, "", path); sub(/\.[a-z]+$/, "", path); return path }
    {
      path = $0; sub(/:[0-9]+:.*/, "", path)
      where = $0; match(where, /^[^:]*:[0-9]+:/); code = substr(where, RLENGTH + 1); where = substr(where, 1, RLENGTH - 1)
      unit = unit_of(path)
      if (match(code, /^ *(class|struct) ([A-Za-z_]+::)*[A-Za-z_]+( final)?( :[^:].*| *\{.*)$/) && code !~ /;[ ]*$/) {
        name = code; sub(/^ *(class|struct) /, "", name); sub(/( final)?( :[^:].*| *\{.*)$/, "", name)
        sub(/.*::/, "", name); declared[name] = declared[name] " " unit
      }
      if (path ~ /\.cpp$/ && code ~ /^[A-Za-z_]/ && code !~ /^(return|using|throw|else|case|namespace|static_cast)/ &&
          match(code, /[A-Za-z_]+::~?[A-Za-z_]+\(/)) {
        before = substr(code, 1, RSTART - 1)
        if (before ~ /[=(;]/) next
        name = substr(code, RSTART, RLENGTH); sub(/::.*/, "", name)
        count++; at[count] = where; of[count] = name; in_unit[count] = unit
      }
    }
    END {
      for (i = 1; i <= count; i++) {
        if (!(of[i] in declared)) continue
        n = split(declared[of[i]], units, " "); good = 0
        for (j = 1; j <= n; j++)
          if (in_unit[i] == units[j] || index(in_unit[i], units[j] "_") == 1) good = 1
        if (!good) print at[i], of[i], units[1]
      }
    }'
}

for graph in "${graphs[@]}"; do
  read -r -a roots <<<"$graph"
  mapfile -t files < <(cpp_files "${roots[@]}" | grep -v "^$root/providers/host/tests/")
  ((${#files[@]} > 0)) || complain "$graph: there is no C++ file"
  declare -A known=()
  for path in "${files[@]}"; do known[${path#"$root"/}]=1; done
  edges=$(unit_edges)
  complain_of_loops units <<<"$edges"
  complain_of_loops folders < <(awk '{
    for (i = 1; i <= 2; i++) if (!sub("/[^/]*$", "", $i)) $i = "."
    if ($1 != $2 && $1 != "." && $2 != ".") print  # entry headers include all
  }' <<<"$edges" | sort -u)
  while read -r where class unit; do
    complain "$where: defines a member of $class, which $unit declares: move it there, or name the \
file ${unit##*/}_<task>.cpp"
  done < <(misplaced_members "${files[@]}")
done

finish "no circles"
