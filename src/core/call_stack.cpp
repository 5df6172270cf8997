// SPDX-License-Identifier: MIT
#include "core/call_stack.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <boost/stacktrace/frame.hpp>
#include <boost/stacktrace/safe_dump_to.hpp>
#include <cstddef>
#include <string_view>

namespace hipvmm::detail {
namespace {

constexpr std::size_t most_frames = 32;
constexpr std::size_t longest_name = 160;

std::string module_of(const void* at) {
  Dl_info found{};
  if (::dladdr(at, &found) == 0 || found.dli_fname == nullptr) return "an unknown module";
  return found.dli_fname;
}

bool takes_stacks(std::string_view name) {
  constexpr const char* takers[] = {"safe_dump_to",
                                    "detail::call_stack(",
                                    "hipvmm::mr::guard_resource_adaptor::",
                                    "hipvmm::mr::tracking_resource_adaptor::",
                                    "hipvmm::mr::resource_adaptor::",
                                    "hipvmm::mr::memory_resource::"};
  return std::ranges::any_of(
      takers, [name](const char* each) { return name.find(each) != std::string_view::npos; });
}

}  // namespace

std::vector<const void*> call_stack() {
  std::array<const void*, most_frames + 1> frames{};
  boost::stacktrace::safe_dump_to(0, frames.data(), sizeof(frames));
  return std::vector<const void*>(frames.begin(), std::find(frames.begin(), frames.end(), nullptr));
}

std::string text_of_stack(const std::vector<const void*>& stack) {
  std::string lines;
  std::size_t number = 0;
  for (const void* const each : stack) {
    // The return address may belong to the next line or function.
    const boost::stacktrace::frame call{static_cast<const char*>(each) - 1};
    std::string name = call.name();
    if (number == 0 && takes_stacks(name)) continue;
    if (name.size() > longest_name) name.replace(longest_name, std::string::npos, "...");
    lines += "    #" + std::to_string(number++) + " " + (name.empty() ? "?" : name);
    const std::string file = call.source_file();
    lines += file.empty() ? " in " + module_of(each)
                          : " at " + file + ":" + std::to_string(call.source_line());
    lines += "\n";
    if (name == "main") break;
  }
  return lines;
}

}  // namespace hipvmm::detail
