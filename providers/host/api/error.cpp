// SPDX-License-Identifier: MIT
#include <utility>

#include "base/enum_value.hpp"
#include "base/error_name.hpp"
#include "base/thread_state.hpp"
#include "machine/call.hpp"

using namespace hipvmm::host_provider;

const char* hipGetErrorName(hipError_t code) {
  return call_infallible(__func__, [&] { return name_of_error(value_of(code)); });
}

const char* hipGetErrorString(hipError_t code) {
  return call_infallible(__func__, [&] { return text_of_error(value_of(code)); });
}

hipError_t hipGetLastError() {
  return call_infallible(__func__, [] { return std::exchange(last_error(), hipSuccess); });
}

hipError_t hipPeekAtLastError() {
  return call_infallible(__func__, [] { return last_error(); });
}
