// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

namespace hipvmm::test {

[[nodiscard]] inline std::string last_report() {
  std::string text(hipvmm_host_last_order_report(nullptr, 0), '\0');
  hipvmm_host_last_order_report(text.data(), text.size() + 1);
  return text;
}

/// Waits for all devices, so that memory left by a case is no fault of its own.
inline void finish_streams() {
  for (int device = 2; device >= 0; --device) {
    REQUIRE(hipSetDevice(device) == hipSuccess);
    static_cast<void>(hipDeviceSynchronize());
  }
}

/// The one report that `plant` brings about.
template <class Plant>
[[nodiscard]] std::string report_of(Plant&& plant) {
  REQUIRE(hipvmm_host_order_reports() == 0);
  plant();
  CHECK(hipvmm_host_order_reports() == 1);
  std::string text = last_report();
  hipvmm_host_clear_order_reports();
  finish_streams();
  return text;
}

/// Whether the checker finds `program` in order.
template <class Program>
[[nodiscard]] bool is_clean(Program&& program) {
  program();
  finish_streams();
  const bool clean = hipvmm_host_order_reports() == 0;
  hipvmm_host_clear_order_reports();
  return clean;
}

[[nodiscard]] inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

[[nodiscard]] inline std::string hexadecimal(const void* value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%zx", reinterpret_cast<std::size_t>(value));
  return text;
}

inline void write_in(void* memory, std::size_t bytes, hipStream_t on) {
  REQUIRE(hipMemsetAsync(memory, 1, bytes, on) == hipSuccess);
}

/// The notes of a sub-allocator.
inline void note_allocate(void* memory, std::size_t bytes, hipStream_t on) {
  REQUIRE(hipvmm_host_note_allocate(memory, bytes, on) == hipSuccess);
}
inline void note_deallocate(void* memory, std::size_t bytes, hipStream_t on) {
  REQUIRE(hipvmm_host_note_deallocate(memory, bytes, on) == hipSuccess);
}

/// Makes later work of `second` come after earlier work of `first`.
inline void order(hipStream_t first, hipStream_t second) {
  const event between{hipEventDisableTiming};
  REQUIRE(hipEventRecord(between.get(), first) == hipSuccess);
  REQUIRE(hipStreamWaitEvent(second, between.get(), 0) == hipSuccess);
}

}  // namespace hipvmm::test
