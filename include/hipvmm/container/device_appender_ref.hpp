// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <type_traits>

#include <hipvmm/container/append_slots.hpp>

namespace hipvmm {

/// Appends elements from kernels, which get it from device_appender::prepare() by value: takes
/// slots behind the last element of a vector.
/// - Any number of threads may take slots at once. On a device, lanes that call together share one
///   atomic operation.
/// - A slot beyond the end is counted, and null or false is returned.
/// - A thread that gets a slot must write it, because it becomes an element.
/// - Works in host code too, if the host may access the memory.
template <typename T>
class device_appender_ref {
  static_assert(std::is_trivially_copyable_v<T>,
                "device_appender_ref<T>: T must be trivially copyable, as in the vector");

 public:
  using value_type = T;
  using size_type = std::size_t;

  /// Pre: the counters are zero before a slot is taken.
  HIPVMM_HOST_DEVICE constexpr device_appender_ref(T* base, size_type capacity,
                                                   append_counters* counters) noexcept
      : base_{base}, capacity_{capacity}, counters_{counters} {}

  [[nodiscard]] HIPVMM_HOST_DEVICE T* slot() const {
    const size_type first = detail::take_slot(&counters_->taken);
    return first < capacity_ ? base_ + first : nullptr;
  }
  /// Takes `count` consecutive slots. Returns null if fewer are left, which then stay unused. For 0
  /// slots the result has no meaning. Pre: all counts of a run, granted or not, add up to less than
  /// 2^64.
  [[nodiscard]] HIPVMM_HOST_DEVICE T* slots(size_type count) const {
    const size_type first = detail::take_slots(&counters_->taken, count);
    if (first < capacity_ && count <= capacity_ - first) return base_ + first;
    // Blocks are consecutive, so only one of them can cross the end.
    if (first < capacity_) counters_->unused = capacity_ - first;
    return nullptr;
  }

  HIPVMM_HOST_DEVICE bool push(const T& value) const {
    T* const own = slot();
    if (own == nullptr) return false;
    *own = value;
    return true;
  }
  /// Appends all values next to one another, or none and returns false. Pre: as slots().
  HIPVMM_HOST_DEVICE bool push(const T* values, size_type count) const {
    T* const own = slots(count);
    if (own == nullptr) return count == 0;
    for (size_type i = 0; i < count; ++i) own[i] = values[i];
    return true;
  }

  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr T* base() const noexcept { return base_; }
  /// All slots, taken or not.
  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr size_type capacity() const noexcept {
    return capacity_;
  }

 private:
  T* base_;
  size_type capacity_;
  append_counters* counters_;
};

}  // namespace hipvmm
