// SPDX-License-Identifier: MIT
#include "core/observers/profiler_range.hpp"

#include <dlfcn.h>
#include <stdlib.h>

#include <string_view>
#include "core/environment.hpp"

namespace hipvmm::detail {
namespace {

struct range_library {
  const char* soname;
  const char* push;
  const char* pop;
};

// Those of ROCm first, because its profilers read them if both exist.
constexpr range_library range_libraries[] = {
    {"librocprofiler-sdk-roctx.so.1", "roctxRangePushA", "roctxRangePop"},
    {"librocprofiler-sdk-roctx.so.0", "roctxRangePushA", "roctxRangePop"},
    {"libroctx64.so.4", "roctxRangePushA", "roctxRangePop"},
    {"libnvToolsExt.so.1", "nvtxRangePushA", "nvtxRangePop"}};

struct range_calls {
  int (*push)(const char* name) = nullptr;
  int (*pop)() = nullptr;
};

range_calls find_range_calls() noexcept {
  const char* const asked = environment("HIPVMM_RANGES");
  if (asked == nullptr || std::string_view{asked} != "1") return {};
  for (const range_library& each : range_libraries) {
    // The library stays for the life of the process.
    void* const library = ::dlopen(each.soname, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    range_calls found;
    found.push = reinterpret_cast<int (*)(const char*)>(::dlsym(library, each.push));
    found.pop = reinterpret_cast<int (*)()>(::dlsym(library, each.pop));
    if (found.push != nullptr && found.pop != nullptr) return found;
    ::dlclose(library);
  }
  return {};
}

const range_calls& calls_for_ranges() noexcept {
  static const range_calls found = find_range_calls();
  return found;
}

}  // namespace

profiler_range::profiler_range(const char* name) noexcept {
  const range_calls& calls = calls_for_ranges();
  if (calls.push != nullptr) static_cast<void>(calls.push(name));
}

profiler_range::~profiler_range() {
  const range_calls& calls = calls_for_ranges();
  if (calls.pop != nullptr) static_cast<void>(calls.pop());
}

}  // namespace hipvmm::detail
