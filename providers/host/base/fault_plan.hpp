// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "base/fault_rule.hpp"

namespace hipvmm::host_provider {

/// The planned faults of this process: rules of HIPVMM_HOST_FAULTS or hipvmm_host_set_faults, and
/// the one call of hipvmm_host_fail_call. Thread-safe.
class fault_plan {
 public:
  /// Never destroyed, because HIP may be called while the process ends.
  static fault_plan& get();

  void replace(fault_settings planned);
  /// `nth` 0 removes it.
  void fail_call(const char* function, std::uint64_t nth, hipError_t error);
  [[nodiscard]] bool struck() const noexcept { return struck_.load(std::memory_order_relaxed); }

  /// The error that this call must return, if any. Delays the call and kills before it returns.
  std::optional<hipError_t> strike(const char* function) noexcept {
    if (!armed_.load(std::memory_order_acquire)) return std::nullopt;
    return strike_armed(function);
  }

  [[nodiscard]] std::size_t device_bytes() const noexcept {
    return device_bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t chunks() const noexcept {
    return chunks_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::chrono::nanoseconds unseen() const noexcept {
    return std::chrono::nanoseconds{unseen_.load(std::memory_order_relaxed)};
  }
  [[nodiscard]] bool incoherent_aliases() const noexcept {
    return incoherent_aliases_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool ignored_hints() const noexcept {
    return ignored_hints_.load(std::memory_order_relaxed);
  }

 private:
  fault_plan();
  std::optional<hipError_t> strike_armed(const char* function) noexcept;
  void arm() noexcept;

  std::atomic<bool> armed_{false};
  std::atomic<bool> struck_{false};
  std::atomic<std::size_t> device_bytes_;
  std::atomic<std::size_t> chunks_;
  std::atomic<std::int64_t> unseen_;
  std::atomic<bool> incoherent_aliases_;
  std::atomic<bool> ignored_hints_;
  std::mutex mutex_;
  std::vector<fault_rule> rules_;
  fault_rule call_;  // of fail_call
};

}  // namespace hipvmm::host_provider
