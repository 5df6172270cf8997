// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <utility>

#include "call.hpp"
#include "enum_value.hpp"
#include "error_name.hpp"
#include "thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

struct error_text {
  hipError_t code;
  const char* name;
  const char* text;
};

#define HIPVMM_HIP_ERROR(code, text) error_text{code, #code, text},
constexpr std::array texts{
#include "provider/hip_errors.def"
};
#undef HIPVMM_HIP_ERROR

const error_text& text_of(int code) noexcept {
  const auto* const found = std::find_if(
      texts.begin(), texts.end(), [code](const error_text& each) { return each.code == code; });
  return found == texts.end() ? texts.back() : *found;
}

}  // namespace

std::optional<hipError_t> error_named(std::string_view name) {
  const auto* const found = std::find_if(
      texts.begin(), texts.end(),
      [name](const error_text& each) { return each.code != hipSuccess && each.name == name; });
  if (found == texts.end()) return std::nullopt;
  return found->code;
}

}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

const char* hipGetErrorName(hipError_t code) {
  return call_infallible(__func__, [&] { return text_of(value_of(code)).name; });
}

const char* hipGetErrorString(hipError_t code) {
  return call_infallible(__func__, [&] { return text_of(value_of(code)).text; });
}

hipError_t hipGetLastError() {
  return call_infallible(__func__, [] { return std::exchange(last_error(), hipSuccess); });
}

hipError_t hipPeekAtLastError() {
  return call_infallible(__func__, [] { return last_error(); });
}
