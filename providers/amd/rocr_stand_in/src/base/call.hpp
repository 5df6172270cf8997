// SPDX-License-Identifier: MIT
// The first steps of every exported HSA function: count itself, and fail if that is planned.
#pragma once

#include <atomic>
#include <cstdint>

#include <hsa/hsa.h>

namespace stand_in {

/// The counter of a function, which has it as a static variable. The control functions list it
/// until the process ends.
class call_site {
 public:
  explicit call_site(const char* function);

  /// Counts, and returns the status with which the call must fail, or success.
  hsa_status_t enter();
  /// As enter(), for functions that ROCr refuses before hsa_init().
  hsa_status_t enter_open();
  void count() { calls_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend std::uint64_t calls_of(const char* function);
  const char* function_;
  std::atomic<std::uint64_t> calls_{0};
  call_site* next_ = nullptr;
};

std::uint64_t calls_of(const char* function);

}  // namespace stand_in

// A static variable of the function that expands it, and a return: no function can do either.
#define ROCR_CALL_AS(enter_)                                     \
  static ::stand_in::call_site rocr_call_site(__func__);         \
  if (const hsa_status_t rocr_planned = rocr_call_site.enter_(); \
      rocr_planned != HSA_STATUS_SUCCESS)                        \
  return rocr_planned
#define ROCR_CALL() ROCR_CALL_AS(enter_open)
#define ROCR_CALL_ANY_TIME() ROCR_CALL_AS(enter)
#define ROCR_COUNT()                                     \
  static ::stand_in::call_site rocr_call_site(__func__); \
  rocr_call_site.count()
