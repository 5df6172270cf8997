// SPDX-License-Identifier: MIT
// Stands in for ROCTx: counts the ranges that begin and end, and keeps their names.
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
int depth = 0;
std::string names;

}  // namespace

extern "C" {

int roctxRangePushA(const char* name) {
  const std::lock_guard lock{mutex};
  names += std::string{name} + "\n";
  return depth++;
}

int roctxRangePop() {
  const std::lock_guard lock{mutex};
  return --depth;
}

/// Ranges that have begun and not ended.
int fake_roctx_depth() { return depth; }
/// The names of all ranges, a line each.
const char* fake_roctx_names() { return names.c_str(); }
}
