#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Shows that the layering checks can fail: self_test.sh ROOT CASE WORK_FOLDER. Copies the tree, breaks
# one rule in the copy and demands that its check rejects it, by the sentence that belongs to it.
# COMPILER, COMPILE_COMMANDS, PROVIDER, NM, LIBRARY, OWN_PROVIDER and PRELOAD describe the build.
set -euo pipefail
checks=$(cd "$(dirname "$0")" && pwd)
original=$1
breakage=$2
tree=$3/$breakage

die() {
  printf '%s: %s\n' "$breakage" "$1" >&2
  exit 1
}

rm -rf "$tree"
mkdir -p "$tree"
for part in "$original"/{include,src,testing,tests,samples,bench,packaging,providers,python,docs,LICENSE,*.md}; do
  [[ ! -e $part ]] || cp -r "$part" "$tree/"
done
trap 'rm -rf "$tree"' EXIT
surface=$tree/providers/hip_surface.def

# Each check with its arguments on the copy.
includes() { bash "$checks/check_includes.sh" "$tree"; }
circles() { bash "$checks/check_circles.sh" "$tree"; }
host_layout() { bash "$checks/check_host_layout.sh" "$tree"; }
homes() { bash "$checks/check_homes.sh" "$tree"; }
header() { bash "$checks/check_headers.sh" "$tree" "$COMPILER" c++17 "$1"; }
c_interface() { bash "$checks/check_c_interface.sh" "$tree"; }
words() { bash "$checks/check_words.sh" "$tree"; }
release() { bash "$checks/../../packaging/release.sh" --check "$tree"; }
versions() { bash "$checks/check_versions.sh" "$tree"; }
debt() { bash "$checks/check_debt.sh" "$tree"; }
sizes() { bash "$checks/check_sizes.sh" "$tree"; }
quotes() { bash "$checks/check_quotes.sh" "$tree"; }
results() { bash "$checks/check_results.sh" "$tree"; }
figures() { bash "$checks/check_figures.sh" "$tree"; }
names() { bash "$checks/check_names.sh" "$tree"; }
links() { bash "$checks/check_links.sh" "$tree"; }
mutants() { bash "$checks/check_mutants.sh" "$tree"; }
symbols() { bash "$checks/check_symbols.sh" "$tree" "$COMPILER" "$NM" "$LIBRARY" "$OWN_PROVIDER"; }
targets() {
  sed "s|\"$original/|\"$tree/|" "$COMPILE_COMMANDS" >"$tree/compile_commands.json"
  bash "$checks/check_targets.sh" "$tree" "$tree/compile_commands.json" "$PROVIDER"
}

rejects() {  # SENTENCE CHECK...
  local sentence=$1 output
  shift
  output=$("$@" 2>&1) && die "the check accepts the broken tree"
  grep -qF -- "$sentence" <<<"$output" ||
    die "the check rejects the broken tree without saying '$sentence', but:
$output"
}

accepts() {  # CHECK...
  local output
  output=$("$@" 2>&1) || die "the check rejects what keeps the rule:
$output"
}

append() { printf '%s\n' "$2" >>"$tree/$1"; }
last_line() { printf '%s:%s' "$1" "$(wc -l <"$tree/$1")"; }  # FILE: where append wrote

case $breakage in
  upward_include) append src/core/bytes.cpp '#include <hipvmm/region/region.hpp>'
    rejects 'core may not include region' includes ;;
  upward_internal_include) mkdir -p "$tree/src/vmm" && touch "$tree/src/vmm/inner.hpp"
    append src/core/bytes.cpp '#include "vmm/inner.hpp"'
    rejects 'core may not include vmm' includes ;;
  vendor_header_in_public_header)
    append include/hipvmm/core/bytes.hpp '#include <hip/hip_runtime_api.h>'
    rejects 'a public header includes the vendor header <hip/hip_runtime_api.h>' includes ;;
  vendor_header_behind_public_header)
    append include/hipvmm/core/bytes.hpp '#include <boost/version.hpp>'
    rejects 'needs the vendor header /' header hipvmm/core/bytes.hpp ;;
  library_of_tools_in_layer) append src/core/bytes.cpp '#include <nlohmann/json.hpp>'
    rejects '<nlohmann/json.hpp> belongs to no known library' includes ;;
  second_file_with_spdlog) append src/core/error.cpp '#include <spdlog/logger.h>'
    rejects '<spdlog/logger.h> belongs to no known library' includes ;;
  version_asked_elsewhere) append src/region/region.cpp '#if HIP_VERSION_MAJOR >= 6
#endif'
    rejects 'src/region/region.cpp:' versions ;;
  defect_named_elsewhere) append src/core/bytes.cpp '// Where quirk::re_reserve is in force.'
    rejects 'src/core/bytes.cpp names a defect of a device' debt ;;
  debt_paid) sed -i 's/thread_local //' "$tree/src/c/guard.cpp"
    rejects 'write' debt ;;
  name_that_is_gone) append docs/design/pool_design.md 'The pool asks `region::never_was()`.'
    rejects 'docs/design/pool_design.md:' names ;;
  word_that_is_gone) append tests/core/bytes_test.cpp '/* the count_of_nothing of old */'
    rejects 'names count_of_nothing, which no code has' names ;;
  file_that_is_gone) append src/core/bytes.cpp '// As core/never_was.hpp says.'
    rejects 'names core/never_was.hpp, which does not exist' names ;;
  word_given_up) append src/core/bytes.cpp '// Settles what is open.
void settle();'
    rejects "$(last_line src/core/bytes.cpp):void settle();: a word that was given up" words ;;
  subject_that_does_not_act) append src/core/bytes.cpp '// Ends. Where it cannot, it waits.'
    rejects "$(last_line src/core/bytes.cpp):// Ends. Where it cannot, it waits.: a sentence whose subject" words ;;
  circle_of_units) append src/core/bytes.cpp '#include <hipvmm/runtime/stream.hpp>'
    rejects 'units include each other:' circles ;;
  circle_of_folders) append src/core/bytes.cpp '#include "mr/address_table.hpp"'
    rejects 'folders include each other:' circles ;;
  misplaced_member) append src/core/bytes.cpp 'void stream::elsewhere() {}'
    rejects "$(last_line src/core/bytes.cpp): defines a member of stream, which runtime/stream declares" circles ;;
  unknown_folder) mkdir -p "$tree/src/helpers" && touch "$tree/src/helpers/helper.cpp"
    rejects 'src/helpers/helper.cpp: its folder is no layer' includes ;;
  provider_includes_library) mkdir -p "$tree/providers/host"
    append providers/host/extra.cpp '#include <hipvmm/core/error.hpp>'
    rejects 'a provider is HIP and may not include include/hipvmm/core/error.hpp' includes ;;
  provider_includes_other_provider)
    append providers/cuda/extra.cpp '#include "providers/host/base/failure.hpp"'
    rejects 'a provider is HIP and may not include providers/host/base/failure.hpp' includes ;;
  host_folder_upward) append providers/host/memory/transfer.hpp '#include "stream/operation.hpp"'
    rejects 'memory/ may not include stream/' host_layout ;;
  host_circle) append providers/host/memory/address.hpp '#include "memory/transfer.hpp"'
    rejects 'providers/host/memory/address providers/host/memory/transfer' circles ;;
  shared_by_providers_includes_one)
    append providers/failure.hpp '#include "providers/host/base/failure.hpp"'
    rejects 'a provider is HIP and may not include providers/host/base/failure.hpp' includes ;;
  compat_includes_library) append src/core/hip_compat.hpp '#include <hipvmm/core/bytes.hpp>'
    rejects 'core/hip_compat.hpp includes nothing of hipvmm' includes ;;
  version_of_python)
    sed -i 's/^__version__ = .*/__version__ = "9.9.9"/' "$tree/python/src/hipvmm/_version.py"
    rejects 'python/src/hipvmm/_version.py: the version is ' release ;;
  version_of_changelog) sed -i 's/^## Unreleased$/## 9.9.9/' "$tree/CHANGELOG.md"
    rejects "CHANGELOG.md: the first heading is '9.9.9'" release ;;
  second_home)
    append src/region/region.cpp 'void again(void* p) { static_cast<void>(hipMemUnmap(p, 1)); }'
    rejects 'hipMemUnmap is called from src/region/region.cpp and from src/vmm/mapping.cpp' homes ;;
  call_in_header)
    append src/core/check.hpp 'inline void again(void* p) { static_cast<void>(hipFree(p)); }'
    rejects 'src/core/check.hpp calls hipFree: a header has no home' homes ;;
  unlisted_call)
    append src/region/region.cpp 'void fresh() { static_cast<void>(hipDeviceReset()); }'
    rejects 'src/region/region.cpp calls hipDeviceReset, which providers/hip_surface.def does not' homes ;;
  name_in_prose) append src/region/region.cpp '// hipMemUnmap(address) is not called here
/* nor is hipMemUnmap(address)
   hipMemUnmap(address) here */ static const char* const text = "hipMemUnmap(\"here\") " R"(hipMemUnmap())";'
    accepts homes ;;
  unsorted_surface)
    { tac "$surface" | sed '/^\/\//d'; } >"$surface.new" && mv "$surface.new" "$surface"
    rejects 'HIPVMM_HIP_USED lines are not sorted' homes ;;
  variable_read_elsewhere)
    append src/preload/settings.cpp 'const char* const mode = std::getenv("HIPVMM_MODE");'
    rejects "$(last_line src/preload/settings.cpp): reads a variable of its own" homes ;;
  needs_another_header) append include/hipvmm/core/bytes.hpp 'inline std::vector<int> numbers();'
    rejects '<hipvmm/core/bytes.hpp> does not compile alone as c++17' header hipvmm/core/bytes.hpp ;;
  unlisted_source) touch "$tree/src/core/stray.cpp"
    rejects 'src/core/stray.cpp is in no target' targets ;;
  unlisted_test) touch "$tree/tests/vmm/stray_test.cpp"
    rejects 'tests/vmm/stray_test.cpp is in no target' targets ;;
  suite_without_end) append tests/core/bytes_test.cpp 'TEST_SUITE_BEGIN("needs virtual memory");'
    rejects 'tests/core/bytes_test.cpp does not end its suite' targets ;;
  orphan_header) touch "$tree/src/core/stray.hpp"
    rejects 'src/core/stray.hpp is included by nothing' targets ;;
  header_missing_from_umbrella) sed -i '/device_span/d' "$tree/include/hipvmm/hipvmm.hpp"
    rejects 'hipvmm.hpp does not include exactly the headers for programs' targets ;;
  test_part_in_umbrella)
    append include/hipvmm/hipvmm.hpp '#include <hipvmm/testing/resource_contract.hpp>'
    rejects '> hipvmm/testing/resource_contract.hpp' targets ;;
  entry_header_in_layer) append include/hipvmm/core/bytes.hpp '#include <hipvmm/pool.hpp>'
    rejects 'core may not include pool.hpp' includes ;;
  symbol_not_used)
    append providers/hip_surface.def 'HIPVMM_HIP_USED(hipDeviceReset, runtime/device.cpp)'
    rejects 'hipDeviceReset is listed in providers/hip_surface.def but not used' symbols ;;
  symbol_not_listed) sed -i '/(hipMemCreate,/d' "$surface"
    rejects 'hipMemCreate is used by' symbols ;;
  symbol_not_exported) append providers/hip_surface.def 'HIPVMM_HIP_OFFERED(hipDeviceReset)'
    rejects 'hipDeviceReset is listed in providers/hip_surface.def but not exported' symbols ;;
  name_not_replaced) # shellcheck disable=SC2086
    preload() { bash "$checks/check_preload.sh" "$tree" "$NM" $PRELOAD; }
    accepts preload
    sed -i '/^    hipFree;$/d' "$tree/src/preload/exports.map"
    rejects 'exports hipFree, which src/preload/exports.map does not list' preload ;;
  c_function_changed) accepts c_interface
    sed -i 's/hipvmm_synchronize(void\* stream)/hipvmm_synchronize(void* stream, int flags)/' \
      "$tree/include/hipvmm/hipvmm.h"
    rejects 'rely on what is gone or was changed: hipvmm_status hipvmm_synchronize' c_interface ;;
  c_value_changed)
    sed -i 's/HIPVMM_ERROR_IPC = 7/HIPVMM_ERROR_IPC = 8/' "$tree/include/hipvmm/hipvmm.h"
    rejects 'gone or was changed: enum hipvmm_status: HIPVMM_ERROR_IPC = 7' c_interface ;;
  c_function_unlisted)
    sed -i '/hipvmm_status hipvmm_synchronize(/d' "$tree/packaging/abi/hipvmm_c.symbols"
    rejects 'lacks what is new: hipvmm_status hipvmm_synchronize' c_interface ;;
  c_function_of_a_release_gone | c_version_of_a_release) git -C "$tree" init --quiet
    git -C "$tree" add include/hipvmm/*.h packaging/abi
    git -C "$tree" -c user.name=test -c user.email=test@example.com commit --quiet --message=test
    git -C "$tree" tag v9.0.0
    accepts c_interface
    if [[ $breakage == c_version_of_a_release ]]; then
      echo 'int hipvmm_more(void);' >>"$tree/include/hipvmm/torch.h"
      echo 'int hipvmm_more(void)' >>"$tree/packaging/abi/hipvmm_c.symbols"
      rejects 'HIPVMM_C_VERSION is that of v9.0.0' c_interface
    else
      sed -i '/^hipvmm_status hipvmm_synchronize(/d' "$tree/include/hipvmm/hipvmm.h" \
        "$tree/packaging/abi/hipvmm_c.symbols"
      rejects 'programs of v9.0.0 rely on what is gone: hipvmm_status hipvmm_synchronize' c_interface
    fi ;;
  file_too_long) yes '//' | head -n 501 >"$tree/src/core/long.cpp" || true
    rejects 'src/core/long.cpp has 501 lines' sizes ;;
  page_too_long) yes 'a line' | head -n 301 >"$tree/docs/guides/long.md" || true
    rejects 'docs/guides/long.md has more than 300 lines' sizes ;;
  table_without_header) sed -i '0,/^| chunk /s/^| chunk /\n&/' "$tree/docs/design/style.md"
    rejects 'begins a table without a header' sizes ;;
  link_on_two_lines)
    append docs/design/style.md $'The [reference\nof HIP](../reference/hip_surface.md).'
    rejects 'ends the text of a link of the line before' sizes ;;
  prose_not_wrapped) append docs/design/style.md "$(yes word | head -n 21 | paste -sd' ')"
    rejects 'has 104 characters: wrap it at 100' sizes ;;
  folder_full) touch "$tree"/tests/layering/more_{1..26}
    rejects 'tests/layering holds ' sizes ;;
  folder_of_product_full) touch "$tree"/providers/host/api/more_{1..26}.cpp
    rejects 'providers/host/api holds ' sizes ;;
  broken_link) append docs/design/style.md '[nowhere](no_such_page.md)'
    rejects 'docs/design/style.md: the link no_such_page.md leads to no file' links ;;
  broken_anchor)
    append docs/design/style.md '[nowhere](../reference/hip_surface.md#no-such-heading)'
    rejects 'docs/design/style.md: the link ../reference/hip_surface.md#no-such-heading names no heading' links
    ;;
  html_link) html() { bash "$tree/docs/reference/html/check_links.sh" "$tree/html"; }
    mkdir -p "$tree/html/below"
    printf '<h1 id="top">A</h1><a href="b%%20c.html#low">B</a> <a href="https://example.org">E</a>\n' \
      >"$tree/html/a.html"
    printf '<a name="low"></a>\n<a href="below/d.html">D</a>\n' >"$tree/html/b c.html"
    printf '<a href="../a.html#top">A</a><img src="../b%%20c.html"/>\n' >"$tree/html/below/d.html"
    accepts html
    append html/a.html '<a href="below/none.html">N</a>'
    rejects 'a.html: the link below/none.html leads to no file' html
    sed -i '$d' "$tree/html/a.html"
    append html/below/d.html '<a href="../a.html#bottom">A</a>'
    rejects 'below/d.html: the link ../a.html#bottom names no anchor of that page' html ;;
  stale_quote) sed -i 's/numbers/values/' "$tree/samples/grow_in_place.cpp"
    rejects 'README.md: what it quotes from samples/grow_in_place.cpp does not stand there' quotes ;;
  stale_quote_in_list) sed -i "s/total.set_value/total.put/" "$tree/samples/coming_from_hipmm.cpp"
    rejects "docs/guides/coming_from_hipmm.md: what it quotes from ../../samples/coming_from_hipmm.cpp" quotes
    ;;
  code_of_no_program) append docs/guides/getting_started.md '```cpp
int main() { return 17; }
```'
    rejects "docs/guides/getting_started.md: its code 'int main() { return 17; }' ... is of no program" quotes
    ;;
  result_of_no_page) touch "$tree/bench/results/2000-01-01-nothing.csv"
    rejects 'no page links to bench/results/2000-01-01-nothing.csv' results ;;
  result_unlisted) touch "$tree/bench/results/2000-01-01-nothing.csv"
    append README.md '[file](bench/results/2000-01-01-nothing.csv)'
    rejects 'bench/results/README.md does not list 2000-01-01-nothing.csv' results ;;
  result_unpacked) for result in "$tree"/bench/results/*.csv; do break; done
    head --bytes 102401 /dev/zero >"$result"
    rejects 'is above 100 KB: pack it' results ;;
  figure_not_measured) sed -i '/^| an array doubles to 64 GiB/s/ 125 ms/ 124 ms/' "$tree/README.md"
    rejects 'README.md has 124 but 2026-11-22-growth-h200.csv has 125.399' figures ;;
  figure_unlisted)
    append docs/guides/python.md '[file](../../bench/results/2026-11-22-growth-h200.csv)'
    rejects 'docs/guides/python.md quotes bench/results/2026-11-22-growth-h200.csv: say in' figures ;;
  figure_of_table_unlisted)
    sed -i 's/^| the largest array that grew.*/& twice as large: 2 times |/' "$tree/README.md"
    rejects 'README.md: 2 of the 3 figures beside "the largest array that grew' figures ;;
  figure_text_gone) sed -i '/^| an array doubles to 64 GiB/d' "$tree/README.md"
    rejects 'README.md has this text 0 times, not once: | an array doubles to 64 GiB' figures ;;
  stale_mutant) sed -i 's/min_element(queue_, {}, /max_element(queue_, {}, /' \
      "$tree/src/core/background_task.cpp"
    rejects 'mutant core_task_due_order: its old lines occur 0 times in src/core/background_task.cpp' \
      mutants ;;
  mutant_without_end)
    sed -i '/^=== core_task_due_order$/,/^--- end$/{/^--- end$/d}' "$tree/tests/mutation/core.mutants"
    rejects 'cannot read this line: === ' mutants ;;
  mutant_of_no_case)
    sed -i '/^=== core_task_due_order$/,/^--- old$/s/^kill: .*/kill: test_core background_task: none/' \
      "$tree/tests/mutation/core.mutants"
    rejects "mutant core_task_due_order: no test case is called 'background_task: none'" mutants ;;
  *) die "no such case" ;;
esac
printf '%s: the check sees it\n' "$breakage"
