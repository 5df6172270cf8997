// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <hipvmm/vmm/memory_registrar.hpp>
#include "support/host/host_profile.hpp"

namespace hipvmm::test {

/// Keeps the registrations, and counts breaks of memory_registrar's promises. Each call reads
/// the first and the last byte, which ends the process if nothing is mapped.
class recording_registrar final : public memory_registrar {
 public:
  void add(const mapped_memory& memory) override {
    const std::lock_guard lock{mutex_};
    ++calls_;
    if (calls_ == fails_at_)
      throw std::runtime_error{"the registration of " + std::to_string(memory.bytes) + " bytes"};
    touch(memory);
    if (!known_.try_emplace(memory.address, memory).second) ++mistakes_;
    ++adds_;
  }
  void remove(const mapped_memory& memory) noexcept override {
    const std::lock_guard lock{mutex_};
    removers_.insert(std::this_thread::get_id());
    touch(memory);
    const auto at = known_.find(memory.address);
    if (at == known_.end() || at->second.bytes != memory.bytes ||
        at->second.handle != memory.handle)
      ++mistakes_;
    else
      known_.erase(at);
  }
  /// The call of add() from now on that throws; 0: none.
  void fail_at(std::size_t nth) {
    const std::lock_guard lock{mutex_};
    calls_ = 0;
    fails_at_ = nth;
  }
  [[nodiscard]] bool has_failed() const {
    const std::lock_guard lock{mutex_};
    return fails_at_ != 0 && calls_ >= fails_at_;
  }
  [[nodiscard]] std::size_t mistakes() const {
    const std::lock_guard lock{mutex_};
    return mistakes_;
  }
  [[nodiscard]] std::size_t adds() const {
    const std::lock_guard lock{mutex_};
    return adds_;
  }
  [[nodiscard]] std::map<void*, mapped_memory> known() const {
    const std::lock_guard lock{mutex_};
    return known_;
  }
  [[nodiscard]] std::size_t known_bytes() const {
    std::size_t sum = 0;
    for (const auto& [address, memory] : known()) sum += memory.bytes;
    return sum;
  }
  /// Whether a thread but this one has removed something.
  [[nodiscard]] bool was_removed_elsewhere() const {
    const std::lock_guard lock{mutex_};
    for (const std::thread::id each : removers_)
      if (each != std::this_thread::get_id()) return true;
    return false;
  }

 private:
  static void touch(const mapped_memory& memory) noexcept {
    if (quirks::host_may_not_touch.holds()) return;
    const volatile char* const bytes = static_cast<const volatile char*>(memory.address);
    static_cast<void>(bytes[0]);
    static_cast<void>(bytes[memory.bytes - 1]);
  }

  mutable std::mutex mutex_;
  std::map<void*, mapped_memory> known_;
  std::set<std::thread::id> removers_;
  std::size_t calls_ = 0;
  std::size_t fails_at_ = 0;
  std::size_t adds_ = 0;
  std::size_t mistakes_ = 0;
};

using registrar_ptr = std::shared_ptr<recording_registrar>;

}  // namespace hipvmm::test
