# SPDX-License-Identifier: MIT
# Prints C++ without comments and the contents of literals, as path:line:code. A check that greps must not trip over a function named in a sentence.
FNR == 1 {
  state = "code"
  file = index(FILENAME, root "/") == 1 ? substr(FILENAME, length(root) + 2) : FILENAME
}
{
  out = ""
  n = length($0)
  for (i = 1; i <= n; i++) {
    c = substr($0, i, 1)
    two = substr($0, i, 2)
    if (state == "block") {
      if (two == "*/") { state = "code"; i++ }
    } else if (state == "raw") {
      if (substr($0, i, length(raw_end)) == raw_end) {
        state = "code"
        i += length(raw_end) - 1
        out = out "\""
      }
    } else if (state == "string" || state == "character") {
      quote = state == "string" ? "\"" : "'"
      if (c == "\\") i++
      else if (c == quote) { state = "code"; out = out c }
    } else if (two == "//") {
      break
    } else if (two == "/*") {
      state = "block"
      out = out " "
      i++
    } else if (c == "\"") {
      out = out c
      if (substr(out, length(out) - 1, 1) == "R") {
        open_at = index(substr($0, i), "(")
        raw_end = ")" substr($0, i + 1, open_at - 2) "\""
        state = "raw"
        i += open_at - 1
      } else state = "string"
    } else if (c == "'" && substr($0, i - 1, 1) !~ /[0-9A-Fa-f]/) {
      state = "character"
      out = out c
    } else out = out c
  }
  # An unfinished literal ends with its line, unless it is raw or goes on behind a backslash.
  if ((state == "string" || state == "character") && $0 !~ /\\$/) state = "code"
  if (out ~ /[^ \t]/) print file ":" FNR ":" out
}
