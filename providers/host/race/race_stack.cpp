// SPDX-License-Identifier: MIT
#include "race/race_stack.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <boost/stacktrace/frame.hpp>
#include <boost/stacktrace/safe_dump_to.hpp>

namespace hipvmm::host_provider {
namespace {

constexpr std::size_t most_lines = 16;
constexpr std::size_t longest_name = 160;  // of templates in templates the beginning will do

// Null when no library or program contains the address.
const void* module_of(const void* at) noexcept {
  Dl_info found{};
  return dladdr(at, &found) != 0 ? found.dli_fbase : nullptr;
}

const void* own_module() noexcept {
  static const char inside = 0;
  static const void* const once = module_of(&inside);
  return once;
}

// The return address may belong to the next line, or even the next function.
boost::stacktrace::frame call_before(const void* return_address) {
  return boost::stacktrace::frame{static_cast<const char*>(return_address) - 1};
}

std::string place_in_module(const void* at) {
  Dl_info found{};
  if (dladdr(at, &found) == 0 || found.dli_fname == nullptr) return "an unknown module";
  return found.dli_fname;
}

}  // namespace

race_stack race_stack::capture() noexcept {
  race_stack taken;
  taken.count_ = boost::stacktrace::safe_dump_to(0, taken.frames_.data(), sizeof(taken.frames_));
  while (taken.count_ > 0 && taken.frames_[taken.count_ - 1] == nullptr) --taken.count_;
  return taken;
}

std::span<const void* const> race_stack::of_program() const noexcept {
  const auto first = frames_.begin();
  const auto last = first + static_cast<std::ptrdiff_t>(count_);
  const auto outside =
      std::find_if(first, last, [](const void* each) { return module_of(each) != own_module(); });
  return {outside, last};
}

std::string race_stack::text() const {
  std::string lines;
  std::size_t number = 0;
  for (const void* const each : of_program().first(std::min(most_lines, of_program().size()))) {
    const boost::stacktrace::frame call = call_before(each);
    std::string name = call.name();
    if (name.size() > longest_name) name.replace(longest_name, std::string::npos, "...");
    const std::string file = call.source_file();
    lines += "      #" + std::to_string(number++) + " " + (name.empty() ? "?" : name);
    lines += file.empty() ? " in " + place_in_module(each)
                          : " at " + file + ":" + std::to_string(call.source_line());
    lines += "\n";
    if (name == "main") break;
  }
  return lines.empty() ? "      (no frame outside of the provider)\n" : lines;
}

}  // namespace hipvmm::host_provider
