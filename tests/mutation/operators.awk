# SPDX-License-Identifier: MIT
# Prints mutants of a C++ file, in the form of common.sh: each is one operator at one place.
#   awk -v file=src/core/bytes.cpp -v program=test_core [-v sample=20] [-v seed=1] \
#       -f operators.awk src/core/bytes.cpp
# `sample` of them are drawn by `seed`, or all printed. Their ids are STEM_LINE_OPERATOR.

# Comments and the contents of literals become blanks, so that places stay the same.
function mask(line,  out, i, c, quote) {
  out = ""
  quote = ""
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    if (quote != "") {
      if (c == "\\") { out = out " "; i++; c = " " }
      else if (c == quote) quote = ""
      else c = " "
    } else if (in_comment) {
      if (substr(line, i, 2) == "*/") { in_comment = 0; out = out " "; i++ }
      c = " "
    } else if (substr(line, i, 2) == "//") {
      while (length(out) < length(line)) out = out " "
      return out
    } else if (substr(line, i, 2) == "/*") {
      in_comment = 1
      c = " "
    } else if (c == "\"" || (c == "'" && substr(line, i - 1, 1) !~ /[0-9]/)) {
      quote = c
    }
    out = out c
  }
  return out
}

# The number of brackets in `text` that are open, less those that are closed.
function depth_of(text) { return gsub(/[(\[]/, "", text) - gsub(/[)\]]/, "", text) }

# The begin of the operand that ends before `at`, or the end of the one that begins at `at`.
function operand_begin(at, stops,  depth, c) {
  for (depth = 0; at > 1; at--) {
    c = substr(code, at - 1, 1)
    if (c ~ /[)\]}]/) depth++
    else if (c ~ /[(\[{]/ && --depth < 0) break
    else if (depth == 0 && (c ~ /[;,]/ || substr(code, at - 7, 7) == "return " ||
        substr(code, at - 3, 3) == " = " || (stops && substr(code, at - 4, 4) ~ /^ (&&|\|\|)[ \n]$/)))
      break
  }
  while (substr(code, at, 1) ~ /[ \n]/) at++
  return at
}
function operand_end(at,  depth, c) {
  for (depth = 0; at <= length(code); at++) {
    c = substr(code, at, 1)
    if (c ~ /[(\[{]/) depth++
    else if (c ~ /[)\]}]/ && --depth < 0) break
    else if (depth == 0 && (c ~ /[;,]/ || substr(code, at, 4) ~ /^ (&&|\|\||\? )/)) break
  }
  return at
}

# emit OPERATOR MISTAKE FROM LENGTH TEXT: a mutant with TEXT in place of that part of the statement.
function emit(operator, mistake, from, size, text,  id, changed, old, first, old_lines, i, count) {
  changed = substr(statement, 1, from - 1) text substr(statement, from + size)
  if (changed == statement) return
  sub(/^[ \n]+$/, "", changed)
  # Lines before the statement belong to it until its text occurs once.
  old = statement
  for (first = begin; occurrences(old) != 1 && first > 1; ) {
    first--
    old = lines[first] "\n" old
    changed = lines[first] (changed == "" ? "" : "\n" changed)
  }
  if (occurrences(old) != 1) return
  old_lines = substr(statement, 1, from - 1)
  i = begin + gsub(/\n/, "", old_lines)
  id = stem "_" i "_" operator
  count = ++taken[id]
  if (count > 1) id = id "_" count
  mutants[++found] = "=== " id "\nfile: " file "\nkill: " program "\nmistake: " mistake " in line " i \
    "\n--- old\n" old "\n--- new\n" (changed == "" ? "" : changed "\n") "--- end\n"
}
function occurrences(text,  rest, at, count) {
  rest = whole
  for (count = 0; count < 2 && (at = index(rest, "\n" text "\n")) > 0; count++)
    rest = substr(rest, at + 1)
  return count
}

# replace OPERATOR WORD BY: a mutant for each place of WORD in the code of the statement.
function replace(operator, word, by,  from, at) {
  for (from = 1; (at = index(substr(code, from), word)) > 0; from += at + length(word) - 1)
    emit(operator, "\"" word "\" becomes \"" by "\"", from + at - 1, length(word), by)
}

# A call, an assignment or a step, no declaration.
function is_call(code) {
  return code ~ /^ *(\*|\+\+|--)?[A-Za-z_][A-Za-z_0-9:]*(<[^;()]*>)?(\.|->|\(|\[|\+\+|--| [-+*\/|&]?= )[^;]*; *$/ &&
    code !~ /^ *(static_assert|static_cast|return|if|for|while|else|HIPVMM_)[^a-z]/
}

# An object of no further use, such as a lock: its name is not in the rest of its function.
function is_guard(code,  name, i) {
  if (code !~ /^ *const [a-z_:]+(<[a-z_:]+>)? [a-z_]+(\{[^;]*\})?; *$/) return 0
  name = code
  sub(/(\{[^;]*\})?; *$/, "", name)
  sub(/.* /, "", name)
  for (i = last + 1; i <= NR && masked[i] !~ /^\}/; i++)
    if ((" " masked[i] " ") ~ ("[^a-z_]" name "[^a-z_]")) return 0
  return 1
}

function mutate_statement(  at, end, size, i) {
  # A statement that is left out: a call, an assignment, a guard, a lock, a jump.
  if (code ~ /; *$/ &&
      (is_call(code) ||
       code ~ /^ *(if|else|for|while) / || code ~ /^ *(throw|continue|break|return;)/ ||
       is_guard(code)) &&
      code !~ /^ *(static_assert|static_cast|HIPVMM_)/)
    emit("drop", "the statement is left out", 1, length(statement), "")

  # Conditions: the other way round, or without one of their parts.
  if ((at = match(code, /(if|while) \(/)) && code !~ /^ *#/) {
    at += RLENGTH
    end = at
    for (size = 1; size > 0 && end <= length(code); end++) {
      if (substr(code, end, 1) == "(") size++
      if (substr(code, end, 1) == ")") size--
    }
    end--
    while ((i = index(substr(code, at, end - at), "; ")) > 0) at += i + 1
    if (substr(code, at, end - at) !~ / = / && end <= length(code)) {
      emit("negate", "the condition is the other way round", at, end - at,
        "!(" substr(statement, at, end - at) ")")
      if (code ~ /^ *if \(/) emit("always", "the condition is not asked", at, end - at, "true")
    }
  }
  if (match(code, /(^|[ {])return [^;]*;/) &&
      substr(code, RSTART, RLENGTH) ~ / (==|!=|<|>|<=|>=|&&|\|\|)[ \n]| !|return !/ &&
      substr(code, RSTART, RLENGTH) !~ /[{}?]|<<|throw/ && RSTART + RLENGTH > at) {
    at = index(substr(code, RSTART), "return ") + RSTART + 6
    emit("negate", "the answer is the other way round", at, RSTART + RLENGTH - 1 - at,
      "!(" substr(statement, at, RSTART + RLENGTH - 1 - at) ")")
  }
  for (i = 1; i <= length(code); i++) {
    if (match(substr(code, i), /^[ (][1-9][0-9]?[;,)]/) && code !~ /^ *(case|static_assert) /)
      emit("one", "it is one more", i + 1, RLENGTH - 2, substr(code, i + 1, RLENGTH - 2) + 1)
    if (substr(code, i, 4) ~ /^ (&&|\|\|)[ \n]$/) {
      at = operand_begin(i, 1)
      for (end = i + 4; substr(code, end, 1) ~ /[ \n]/; end++);
      emit("operand", "the condition before " substr(code, i + 1, 2) " is left out", at, end - at, "")
      emit("operand", "the condition behind " substr(code, i + 1, 2) " is left out", i,
        operand_end(i + 4) - i, "")
    }
    if (substr(code, i, 3) ~ /^[ \n]\? $/) {
      at = operand_begin(i, 0)
      emit("choice", "the other value is chosen", at, i - at,
        "!(" substr(statement, at, i - at) ")")
    }
    if (match(substr(code, i), /^std::(exchange|min|max)\(/)) {
      size = operand_end(i + RLENGTH) - i - RLENGTH
      for (at = i + RLENGTH + size; substr(code, at, 1) ~ /[, \n]/; at++);
      end = operand_end(at)
      if (substr(code, end, 1) == ")") {
        emit("first", "only the first argument counts", i, end + 1 - i,
          substr(statement, i + RLENGTH, size))
        if (substr(code, i + 5, 1) == "m")
          emit("second", "only the second argument counts", i, end + 1 - i,
            substr(statement, at, end - at))
      }
    }
  }

  both("compare", " < ", " <= ")
  both("compare", " > ", " >= ")
  both("compare", " == ", " != ")
  if (code !~ /"/) {
    both("arithmetic", " + ", " - ")
    both("arithmetic", " * ", " / ")
    both("arithmetic", " += ", " -= ")
  }
  both("arithmetic", "++", "--")
  both("rounding", "align_up(", "align_down(")
  both("bound", "lower_bound(", "upper_bound(")
  both("constant", "true", "false")
  replace("one", " + 1", "")
  replace("one", " - 1", "")

  # The statement before the one that it needs.
  if (is_call(code) && is_call(former_code) && former_last == begin - 1 &&
      match(code, /[^ ]/) == match(former_code, /[^ ]/)) {
    size = length(statement)
    code = former_code "\n" code
    at = statement
    statement = former "\n" statement
    begin = former_begin
    emit("order", "it comes before the statement above", 1, length(statement), at "\n" former)
    begin = former_last + 1
    statement = at
    code = substr(code, length(code) - size + 1)
  }

  # A function that does nothing, or answers the same to everybody.
  if (code ~ /\) [^;=]*\{ *$/ && code !~ /^ *(if|for|while|switch|\}|else|do|try|catch|namespace|class|struct)/) {
    if (code ~ /(^|[ \n])void [A-Za-z_:]+\(/)
      emit("return", "the function does nothing", length(statement) + 1, 0, "\n  return;")
    if (code ~ /(^|[ \n])bool [A-Za-z_:]+\(/) {
      emit("return", "the answer is always yes", length(statement) + 1, 0, "\n  return true;")
      emit("return", "the answer is always no", length(statement) + 1, 0, "\n  return false;")
    }
  }
  if (code ~ /(void |^ *([a-z_]+::)?~)[^;={}]*\{ [^;{}]*; \}$/) {
    at = index(code, "{ ")
    emit("return", "the function does nothing", at + 1, length(code) - at - 1, "")
  }
}
function both(operator, one, other) {
  replace(operator, one, other)
  replace(operator, other, one)
}

{
  lines[NR] = $0
  masked[NR] = $0 ~ /^ *#/ && !in_comment ? "" : mask($0)
  whole = whole "\n" $0
}

END {
  whole = whole "\n"
  stem = file
  sub(/.*\//, "", stem)
  sub(/\.[a-z]*$/, "", stem)
  for (begin = 1; begin <= NR; begin = last + 1) {
    last = begin
    if (masked[begin] ~ /^ *$/) continue
    code = masked[begin]
    statement = lines[begin]
    while (last < NR && last < begin + 20 && (code !~ /[;{}:] *$/ || depth_of(code) > 0)) {
      # A body in an argument has statements of its own.
      if (code ~ /\{ *$/) break
      last++
      code = code "\n" masked[last]
      statement = statement "\n" lines[last]
    }
    mutate_statement()
    former = statement
    former_code = code
    former_begin = begin
    former_last = last
  }
  # Numbers of a generator of Park and Miller, the same for every awk.
  state = seed % 2147483647 + 1
  for (i = 1; i <= found; i++) {
    if (sample > 0 && i > sample) break
    state = state * 16807 % 2147483647
    at = sample > 0 ? i + state % (found - i + 1) : i
    print mutants[at]
    mutants[at] = mutants[i]
  }
}
