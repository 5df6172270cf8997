// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include <hipvmm/mr/resource/pinned_host_resource.hpp>

namespace hipvmm::mr {

/// Host memory for copies without a wait, in slots of one size. Not thread-safe.
class pinned_slots {
 public:
  explicit pinned_slots(std::size_t slot_bytes) : slot_bytes_{slot_bytes} {}
  ~pinned_slots() {
    for (void* const each : slabs_) memory_.deallocate_sync(each, slots_in_slab * slot_bytes_);
  }
  pinned_slots& operator=(pinned_slots&&) = delete;

  [[nodiscard]] unsigned char* take() {
    if (free_.empty()) add_slab();
    unsigned char* const slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void put(unsigned char* slot) noexcept { free_.push_back(slot); }

 private:
  static constexpr std::size_t slots_in_slab = 64;

  void add_slab() {
    // put() must not fail.
    free_.reserve((slabs_.size() + 1) * slots_in_slab);
    slabs_.reserve(slabs_.size() + 1);
    slabs_.push_back(memory_.allocate_sync(slots_in_slab * slot_bytes_));
    auto* const first = static_cast<unsigned char*>(slabs_.back());
    for (std::size_t i = 0; i < slots_in_slab; ++i) free_.push_back(first + i * slot_bytes_);
  }

  std::size_t slot_bytes_;
  pinned_host_resource memory_;
  std::vector<void*> slabs_;
  std::vector<unsigned char*> free_;
};

}  // namespace hipvmm::mr
