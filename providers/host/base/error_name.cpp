// SPDX-License-Identifier: MIT
#include "base/error_name.hpp"

#include <algorithm>
#include <array>

namespace hipvmm::host_provider {
namespace {

struct error_entry {
  hipError_t code;
  const char* name;
  const char* text;
};

#define HIPVMM_HIP_ERROR(code, text) error_entry{code, #code, text},
constexpr std::array entries{
#include "providers/hip_errors.def"
};
#undef HIPVMM_HIP_ERROR

const error_entry& entry_of(int code) noexcept {
  const auto* const found =
      std::find_if(entries.begin(), entries.end(),
                   [code](const error_entry& each) { return each.code == code; });
  return found == entries.end() ? entries.back() : *found;
}

}  // namespace

std::optional<hipError_t> error_named(std::string_view name) {
  const auto* const found = std::find_if(
      entries.begin(), entries.end(),
      [name](const error_entry& each) { return each.code != hipSuccess && each.name == name; });
  if (found == entries.end()) return std::nullopt;
  return found->code;
}

const char* name_of_error(int code) noexcept { return entry_of(code).name; }

const char* text_of_error(int code) noexcept { return entry_of(code).text; }

}  // namespace hipvmm::host_provider
