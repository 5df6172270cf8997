# SPDX-License-Identifier: MIT
# Common functions of run.sh and the layering check: reading the lists of mutants. Sourced.
#
# A list, tests/mutation/*.mutants, is plain text. Each mutant is
#
#   === id
#   file: src/region/region.cpp          the file that is changed
#   kill: test_vmm region: trim*      the program that must fail, and a doctest filter of its cases,
#                                     in which ? stands for a comma in a name
#   with: NAME=value...               optional: environment, such as a profile of the host provider
#   sanitizer: thread                 optional: HIPVMM_SANITIZE of the build that finds it
#   lives: reason                     optional: nothing fails, and why that is accepted
#   mistake: the error                one line
#   --- old
#   whole lines that occur exactly once in the file
#   --- new
#   the lines in their place, which may be none
#   --- end
set -euo pipefail
export LC_ALL=C

# split_lists FOLDER LIST...: FOLDER/<id>/<field> for each mutant, and FOLDER/ids in their order.
# Fails with a sentence if a list cannot be read.
split_lists() {
  local folder=$1
  shift
  rm -rf "$folder"
  mkdir -p "$folder"
  : >"$folder/ids"
  sed -n "s|^=== \([a-z0-9_]*\)\$|$folder/\1|p" "$@" | xargs --no-run-if-empty mkdir -p
  awk -v folder="$folder" '
    function bad(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; failed = 1; exit 1 }
    function put(field, text) { print text >(folder "/" id "/" field) }
    function finish(field) { close(folder "/" id "/" field) }
    part == "" && /^(#.*)?$/ { next }
    part == "" && /^=== [a-z0-9_]+$/ {
      id = $2
      if (id in seen) bad("a second mutant is called " id)
      seen[id] = 1
      print id >>(folder "/ids")
      part = "head"
      next
    }
    part == "head" && /^(file|kill|with|sanitizer|lives|mistake): +[^ ]/ {
      field = $1
      sub(/:$/, "", field)
      text = $0
      sub(/^[a-z]+: +/, "", text)
      put(field, text)
      finish(field)
      have[id, field] = 1
      next
    }
    part == "head" && /^--- old$/ {
      for (i = split("file kill mistake", needed, " "); i > 0; i--)
        if (!((id, needed[i]) in have)) bad(id " has no line \"" needed[i] ": ...\"")
      part = "old"
      next
    }
    part == "old" && /^--- new$/ { finish("old"); part = "new"; printf "" >(folder "/" id "/new"); next }
    part == "new" && /^--- end$/ { finish("new"); part = ""; next }
    (part == "old" || part == "new") && !/^(=== [a-z0-9_]+|--- (old|new|end))$/ { put(part, $0); next }
    { bad("cannot read this line: " $0) }
    END { if (!failed && part != "") bad(id " has no --- end"); exit failed }' "$@"
}

# field FOLDER ID NAME: that field, or nothing.
field() { [[ ! -f $1/$2/$3 ]] || cat "$1/$2/$3"; }

# mutate MUTANT FILE: prints FILE with the old lines replaced. Prints nothing and fails with the
# number of times that they occur, 9 at most, unless that is one.
mutate() {
  awk -v old_file="$1/old" -v new_file="$1/new" -v file="$2" '
    function lines_of(name,  text, line) {
      text = "\n"
      while ((getline line <name) > 0) text = text line "\n"
      close(name)
      return text
    }
    BEGIN {
      old = lines_of(old_file)
      text = lines_of(file)
      count = 0
      from = 1
      while ((at = index(substr(text, from), old)) > 0) {
        place = from + at - 1
        from = place + 1
        count++
      }
      if (count != 1) exit count == 0 ? 10 : (count > 9 ? 9 : count)
      # Both begin and end with the end of a line, which a neighbour shares.
      result = substr(text, 1, place - 1) lines_of(new_file) substr(text, place + length(old))
      ORS = ""
      print substr(result, 2)
    }'
}
