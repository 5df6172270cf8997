# SPDX-License-Identifier: MIT
# What a program that was compiled with the headers of C in include/hipvmm relies on, a line each:
# functions and types as they are declared, enumerators with their values, members of structs with
# their places. A struct that is only named is another library's.
{ all = all " " $0 }
/^#/ { sub(/#.*$/, "", all) }
END {
  while (match(all, /\/\*[^*]*\*+([^\/*][^*]*\*+)*\//))
    all = substr(all, 1, RSTART - 1) " " substr(all, RSTART + RLENGTH)
  gsub(/extern "C" \{/, "", all)
  gsub(/ HIPVMM_C_ENUM/, "", all)
  gsub(/[ \t]+/, " ", all)
  while (match(all, /typedef (enum|struct) [a-z_]+ \{[^}]*\} [a-z_]+;/)) {
    body = substr(all, RSTART, RLENGTH)
    all = substr(all, 1, RSTART - 1) substr(all, RSTART + RLENGTH)
    split(body, words, " ")
    is_struct = words[2] == "struct"
    name = words[2] " " words[3]
    sub(/^[^{]*\{ ?/, "", body)
    sub(/ ?\}.*$/, "", body)
    if (is_struct) sub(/; *$/, "", body)
    count = split(body, members, is_struct ? "; *" : ", *")
    for (i = 1; i <= count; i++)
      if (members[i] != "") print name (is_struct ? " " i ": " : ": ") members[i]
  }
  count = split(all, parts, /; ?/)
  for (i = 1; i <= count; i++) {
    gsub(/^[ }]+|[ }]+$/, "", parts[i])
    if (parts[i] != "" && parts[i] !~ /^struct [A-Za-z_]+$/) print parts[i]
  }
}
