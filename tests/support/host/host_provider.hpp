// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <ostream>
#include <string>

#include <hipvmm/provider/host_control.h>

inline bool operator==(const hipvmm_host_counters& a, const hipvmm_host_counters& b) {
  return a.handles == b.handles && a.reservations == b.reservations && a.mappings == b.mappings &&
         a.allocations == b.allocations && a.host_allocations == b.host_allocations &&
         a.streams == b.streams && a.events == b.events && a.descriptors == b.descriptors &&
         a.managed_allocations == b.managed_allocations && a.ipc_imports == b.ipc_imports &&
         a.registrations == b.registrations && a.pools == b.pools && a.graphs == b.graphs &&
         a.graph_execs == b.graph_execs;
}

inline std::ostream& operator<<(std::ostream& out, const hipvmm_host_counters& counters) {
  return out << "{handles " << counters.handles << ", reservations " << counters.reservations
             << ", mappings " << counters.mappings << ", allocations " << counters.allocations
             << ", host allocations " << counters.host_allocations << ", streams "
             << counters.streams << ", events " << counters.events << ", descriptors "
             << counters.descriptors << ", managed allocations " << counters.managed_allocations
             << ", ipc imports " << counters.ipc_imports << ", registrations "
             << counters.registrations << ", pools " << counters.pools << ", graphs "
             << counters.graphs << ", graph execs " << counters.graph_execs << "}";
}

namespace hipvmm::test {

[[nodiscard]] inline hipvmm_host_counters live_objects() {
  hipvmm_host_counters counters;
  hipvmm_host_get_counters(&counters);
  return counters;
}

/// Calls of one HIP function since this was made.
class call_counter {
 public:
  explicit call_counter(const char* function)
      : function_{function}, start_{hipvmm_host_call_count(function)} {}
  [[nodiscard]] std::uint64_t count() const { return hipvmm_host_call_count(function_) - start_; }

 private:
  const char* function_;
  std::uint64_t start_;
};

/// Calls of all functions of one kind since this was made.
template <std::size_t Size>
class calls_of {
 public:
  explicit calls_of(const std::array<const char*, Size>& functions)
      : functions_{functions}, start_{sum()} {}
  [[nodiscard]] std::uint64_t count() const { return sum() - start_; }

 private:
  [[nodiscard]] std::uint64_t sum() const {
    std::uint64_t total = 0;
    for (const char* function : functions_) total += hipvmm_host_call_count(function);
    return total;
  }

  std::array<const char*, Size> functions_;
  std::uint64_t start_;
};

/// Every function that moves bytes.
inline constexpr std::array copying_functions{
    "hipMemcpy",     "hipMemcpyAsync",     "hipMemcpyHtoD",      "hipMemcpyHtoDAsync",
    "hipMemcpyDtoH", "hipMemcpyDtoHAsync", "hipMemcpyDtoD",      "hipMemcpyDtoDAsync",
    "hipMemcpyPeer", "hipMemcpyPeerAsync", "hipMemcpyWithStream"};

/// Every function that waits for work of a device.
inline constexpr std::array waiting_functions{"hipDeviceSynchronize", "hipStreamSynchronize",
                                              "hipEventSynchronize",  "hipMemcpy",
                                              "hipMemcpyWithStream",  "hipFree"};

/// The two ways by which the library waits for a device: device_ref::synchronize().
inline constexpr std::array device_waiting_functions{"hipDeviceSynchronize", "hipFree"};

/// No stream starts another operation while this lives.
class held_streams {
 public:
  held_streams() { hipvmm_host_hold_streams(); }
  ~held_streams() { release(); }
  held_streams& operator=(held_streams&&) = delete;

  void release() {
    if (held_) hipvmm_host_release_streams();
    held_ = false;
  }

 private:
  bool held_ = true;
};

/// This thread's calls while this lives are out of order on purpose: HIPVMM_HOST_CHECK is silent.
/// The case says why.
class unordered_on_purpose {
 public:
  unordered_on_purpose() { hipvmm_host_suspend_order_check(); }
  ~unordered_on_purpose() { hipvmm_host_resume_order_check(); }
  unordered_on_purpose& operator=(unordered_on_purpose&&) = delete;
};

/// Makes one HIP call fail; the plan ends with this object.
class planned_fault {
 public:
  planned_fault(const char* function, std::uint64_t nth, int error) {
    hipvmm_host_fail_call(function, nth, error);
  }
  ~planned_fault() { end(); }
  planned_fault& operator=(planned_fault&&) = delete;

  [[nodiscard]] bool struck() const { return hipvmm_host_fault_struck() != 0; }
  /// Takes the plan back, so that it strikes no later call of any thread, and says whether it
  /// struck.
  bool end() {
    hipvmm_host_fail_call(nullptr, 0, 0);
    return struck();
  }
};

/// A plan of faults (HIPVMM_HOST_FAULTS) that ends with this object.
class planned_faults {
 public:
  explicit planned_faults(const std::string& plan) {
    REQUIRE(hipvmm_host_set_faults(plan.c_str()) == nullptr);
  }
  ~planned_faults() { hipvmm_host_set_faults(nullptr); }
  planned_faults& operator=(planned_faults&&) = delete;
};

}  // namespace hipvmm::test
