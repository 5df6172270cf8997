# SPDX-License-Identifier: MIT
# A page of ours as Doxygen reads Markdown; FILTER_PATTERNS in the Doxyfile calls it.
# - Headings get the anchors that Markdown hosts give them, behind the name of their page.
# - Links to pages and headings become references, so that Doxygen warns of those that lead nowhere;
#   in the pages that list others, subpages, which orders the tree beside the text.
# - So do links to headers and samples. Other files are in files/, where make.sh puts them.

# The root of the repository is where Doxygen runs.
BEGIN { root = ENVIRON["PWD"] "/" }

FNR == 1 {
  page = FILENAME
  if (index(page, root) == 1) page = substr(page, length(root) + 1)
  folder = page
  if (!sub(/\/[^\/]*$/, "/", folder)) folder = ""
  lists = page ~ /^(docs\/README|docs\/reference\/benchmarks|providers\/host\/README)\.md$/
}

# The list of all pages becomes one page for each of its sections, which makes them branches of the
# tree.
page == "docs/README.md" && /^# / {
  print "# Documentation {#" name_of(page) "}\n"
  while ((getline line < FILENAME) > 0)
    if (sub(/^## /, "", line)) print "- @subpage " section_of(line) " \"" line "\""
  next
}
page == "docs/README.md" && /^## / {
  finish_paragraph()
  heading = substr($0, 4)
  print "\n@page " section_of(heading) " " heading "\n"
  next
}

function section_of(heading) {
  sub(/:.*/, "", heading)
  return "list_" anchor_of(heading)
}

# The name of a page: of docs/guides/kv_cache.md, guides_kv_cache.
function name_of(path) {
  if (path == "README.md") return "index"
  sub(/^docs\//, "", path)
  sub(/\.md$/, "", path)
  gsub(/\/docs\//, "/", path)
  gsub(/[^A-Za-z0-9_]/, "_", path)
  return "page_" path
}

# By the rule of the common Markdown hosts.
function anchor_of(heading) {
  heading = tolower(heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  return heading
}

# `path` seen from the root, without "..".
function resolve(path,    parts, count, kept, i, result) {
  count = split(folder path, parts, "/")
  kept = 0
  for (i = 1; i <= count; ++i) {
    if (parts[i] == "..") --kept
    else if (parts[i] != "." && parts[i] != "") parts[++kept] = parts[i]
  }
  result = ""
  for (i = 1; i <= kept; ++i) result = result (i > 1 ? "/" : "") parts[i]
  return result
}

# What stands for [text](target).
function link(text, target,    path, anchor, name, plain) {
  if (target ~ /^[a-z]+:/) return "[" text "](" target ")"
  anchor = ""
  path = target
  if (match(target, /#/)) {
    anchor = substr(target, RSTART + 1)
    path = substr(target, 1, RSTART - 1)
  }
  path = path == "" ? page : resolve(path)
  if (path ~ /^include\/hipvmm\/.*\.h(pp)?$/) {
    sub(/^include\//, "", path)
    return "[" text "](@ref " path ")"
  }
  if (path ~ /^samples\/([a-z]*\/)?[^\/]*\.(cpp|cu)$/) return "[" text "](@ref " path ")"
  if (path !~ /\.md$/) return "[" text "](files/" path ")"
  name = name_of(path)
  if (anchor != "") return "[" text "](@ref " name "--" anchor ")"
  if (!lists || name == "index" || name in listed) return "[" text "](@ref " name ")"
  listed[name] = 1
  plain = text
  gsub(/[`"]/, "", plain)
  return "@subpage " name " \"" plain "\""
}

# A paragraph with its links rewritten, but not those in code.
function rewrite(line,    result, before, text, target) {
  # Doxygen does not see bold text that begins with code.
  while (match(line, /\*\*`[^*]*\*\*/))
    line = substr(line, 1, RSTART - 1) "<b>" substr(line, RSTART + 2, RLENGTH - 4) "</b>" \
      substr(line, RSTART + RLENGTH)
  result = ""
  while (match(line, /`[^`]*`|\[[^][]*\]\([^)]*\)/)) {
    before = substr(line, 1, RSTART - 1)
    text = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    if (text ~ /^\[/) {
      target = text
      sub(/^\[[^][]*\]\(/, "", target)
      sub(/\)$/, "", target)
      sub(/\]\([^)]*\)$/, "", text)
      text = link(substr(text, 2), target)
    } else if (length(text) > 2 && text ~ /'/) {
      text = "`" text "`"  # else Doxygen ends the code at the apostrophe
    }
    result = result before text
  }
  return result line
}

# A link or a span of code may go on in the next line, but not beyond the paragraph.
function finish_paragraph() {
  if (paragraph != "") printf "%s", rewrite(paragraph)
  paragraph = ""
}

/^[ \t]*```/ {
  finish_paragraph()
  in_code = !in_code
  print
  next
}
in_code {
  print
  next
}
/^#+ / {
  finish_paragraph()
  level = $0
  sub(/ .*/, "", level)
  heading = $0
  sub(/^#+ */, "", heading)
  label = level == "#" ? name_of(page) : name_of(page) "--" anchor_of(heading)
  print level " " heading " {#" (label == "index" ? "mainpage" : label) "}"
  next
}
{ paragraph = paragraph $0 "\n" }
/^[ \t]*$/ { finish_paragraph() }
END { finish_paragraph() }
