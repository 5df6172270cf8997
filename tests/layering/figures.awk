# SPDX-License-Identifier: MIT
# awk -v root=ROOT -f figures.awk LIST: compares figures of pages with the results that they come from.
# Prints one line for each that differs. LIST has these lines:
#   page PATH          the page of the figures below it
#   file NAME          the file in bench/results, .csv or .csv.gz
#   rows COL=VALUE & … the rows that all figures below it come from; empty: all rows
#   any other line     text of the page without ** and line breaks, with {} in place of each figure and
#                      * in place of any text; it is there once
#   <- EXPR; EXPR …    the value of each {}: [median|mean|sum|min|max ]COLUMN[COL=VALUE & …] then *N or /N, or
#                      N/COLUMN…, or two of these with "over" between; without the word exactly one row must fit
function complain(text) { print where ": " text; broken = 1 }

# The page as one line, so that a figure is found across a line break.
function load_page(path,    line, text) {
  if (path in page_text) return
  text = ""
  while ((getline line < (root "/" path)) > 0) text = text " " line
  close(root "/" path)
  gsub(/[*][*]/, "", text)
  gsub(/[ \t]+/, " ", text)
  page_text[path] = text
  if (text == "") complain("there is no page " path)
}

function load_file(name,    command, line, n, i, parts, cells, count, row) {
  if (name in file_rows) return
  command = (name ~ /[.]gz$/ ? "gzip -dc" : "cat") " '" root "/bench/results/" name "' 2>/dev/null"
  row = -1
  while ((command | getline line) > 0) {
    # Commas within quotes belong to the cell.
    n = split(line, parts, "\"")
    line = ""
    for (i = 1; i <= n; ++i) {
      if (i % 2 == 0) gsub(/,/, "\001", parts[i])
      line = line parts[i]
    }
    count = split(line, cells, ",")
    ++row
    for (i = 1; i <= count; ++i) {
      gsub(/\001/, ",", cells[i])
      if (row == 0) { column_name[name, i] = cells[i] } else { cell[name, row, column_name[name, i]] = cells[i] }
    }
    if (row == 0) for (i = 1; i <= count; ++i) has_column[name, cells[i]] = 1
  }
  close(command)
  file_rows[name] = row
  if (row < 1) complain("bench/results/" name " has no rows")
}

# The value of one expression, or "" after a complaint.
function value_of(text,    kind, number, operator, column, select, wants, n, i, r, key, fits, found, values, j, t) {
  if ((i = index(text, "] over ")) > 0) {
    t = value_of(substr(text, 1, i))
    n = value_of(substr(text, i + 7))
    return t == "" || n == "" ? "" : t / n
  }
  kind = ""
  number = ""
  operator = ""
  if (match(text, /^(median|mean|sum|min|max) /)) { kind = substr(text, 1, RLENGTH - 1); text = substr(text, RLENGTH + 1) }
  if (match(text, /^[0-9.]+\//)) { operator = "over"; number = substr(text, 1, RLENGTH - 1); text = substr(text, RLENGTH + 1) }
  else if (match(text, /[*\/][0-9.]+$/)) {
    operator = substr(text, RSTART, 1)
    number = substr(text, RSTART + 1)
    text = substr(text, 1, RSTART - 1)
  }
  select = rows
  if (match(text, /\[.*\]$/)) {
    select = (rows == "" ? "" : rows " & ") substr(text, RSTART + 1, RLENGTH - 2)
    text = substr(text, 1, RSTART - 1)
  }
  column = text
  if (!((file, column) in has_column)) { complain(file " has no column " column); return "" }
  n = select == "" ? 0 : split(select, wants, " & ")
  found = 0
  for (r = 1; r <= file_rows[file]; ++r) {
    fits = cell[file, r, column] != ""
    for (i = 1; i <= n && fits; ++i) {
      key = substr(wants[i], 1, index(wants[i], "=") - 1)
      fits = (file, key) in has_column && cell[file, r, key] == substr(wants[i], index(wants[i], "=") + 1)
    }
    if (fits) values[++found] = cell[file, r, column] + 0
  }
  if (found == 0 || (found > 1 && kind == "")) { complain(found " rows of " file " fit " select); return "" }
  for (i = 2; i <= found; ++i)
    for (j = i; j > 1 && values[j - 1] > values[j]; --j) { t = values[j]; values[j] = values[j - 1]; values[j - 1] = t }
  t = 0
  if (kind == "sum" || kind == "mean") {
    for (i = 1; i <= found; ++i) t += values[i]
    if (kind == "mean") t /= found
  } else t = kind == "max" ? values[found] : kind == "median" ? (values[int((found + 1) / 2)] + values[int(found / 2) + 1]) / 2 : values[1]
  if (operator == "*") return t * number
  if (operator == "/") return t / number
  if (operator == "over") return number / t
  return t
}

# Whether a figure as written is the value, rounded to its last digit.
function is_rounded(written, value,    plain, decimals, unit) {
  plain = written
  gsub(/,/, "", plain)
  value += 0
  unit = 1
  if (match(plain, /[.]/)) { for (decimals = length(plain) - RSTART; decimals > 0; --decimals) unit /= 10 }
  else while (plain + 0 >= 10000 && plain % (unit * 10) == 0) unit *= 10
  return plain - value <= unit * 0.5000001 && value - plain <= unit * 0.5000001
}

# Finds the pattern in the page from a place on; its figures are in figures[]. 1 if it fits there.
function fits_at(text, pattern, figures,    kind, literal, at, count) {
  count = 0
  kind = ""
  while (1) {
    match(pattern, /[{][}]|[*]/)
    literal = RSTART ? substr(pattern, 1, RSTART - 1) : pattern
    if (kind == "{}") {
      if (!match(text, /^[0-9][0-9.,]*[0-9]|^[0-9]/)) return 0
      figures[++count] = substr(text, 1, RLENGTH)
      text = substr(text, RLENGTH + 1)
    }
    at = index(text, literal)
    if (literal != "" && (at == 0 || (kind != "*" && at != 1))) return 0
    if (literal != "") text = substr(text, at + length(literal))
    if (length(pattern) == length(literal)) return count
    pattern = substr(pattern, length(literal) + 1)
    kind = substr(pattern, 1, 1) == "*" ? "*" : "{}"
    pattern = substr(pattern, length(kind) + 1)
  }
}

function check(expressions,    text, start, literal, at, times, count, n, i, list, value, one, got) {
  text = page_text[page]
  match(pattern, /[{][}]|[*]/)
  literal = substr(pattern, 1, RSTART - 1)
  times = 0
  if (literal == "") { complain("the text must begin with words: " pattern); return }
  while ((at = index(text, literal)) > 0) {
    text = substr(text, at)
    split("", one)
    count = fits_at(text, pattern, one)
    if (count) { ++times; for (i = 1; i <= count; ++i) got[i] = one[i]; got[0] = count }
    text = substr(text, 2)
  }
  if (times != 1) { complain(page " has this text " times " times, not once: " pattern); return }
  n = split(expressions, list, /; */)
  if (n != got[0]) { complain(got[0] " figures and " n " values: " pattern); return }
  for (i = 1; i <= n; ++i) {
    value = value_of(list[i])
    if (value != "" && !is_rounded(got[i], value))
      complain(page " has " got[i] " but " file " has " value ": " pattern)
  }
}

{ where = FILENAME ":" FNR }
/^#/ || /^ *$/ { next }
/^page / { page = substr($0, 6); rows = ""; load_page(page); next }
/^file / { file = substr($0, 6); rows = ""; load_file(file); next }
/^rows/ { rows = substr($0, 6); next }
/^<- / {
  if (pattern == "") complain("values without a text")
  else check(substr($0, 4))
  pattern = ""
  next
}
{ if (pattern != "") complain("a text without values: " pattern); pattern = $0 }
END { if (pattern != "") complain("a text without values: " pattern); exit broken }
