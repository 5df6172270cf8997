// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <type_traits>

#include <hipvmm/container/append_slots.hpp>

namespace hipvmm {

/// Appends elements from kernels: takes slots behind the last element of a vector.
/// - device_appender::prepare makes it; it is passed to kernels by value.
/// - Any number of threads may take slots at once. A call takes them with one atomic, on devices
///   for all lanes that make it together.
/// - A slot beyond the end is counted, and reported by null or false: no write is out of bounds.
/// - A thread that gets a slot must write it, because it becomes an element.
/// - Works in host code too, if the host may access the memory.
template <typename T>
class device_appender_ref {
  static_assert(std::is_trivially_copyable_v<T>,
                "device_appender_ref<T>: T must be trivially copyable, as in the vector");

 public:
  using value_type = T;
  using size_type = std::size_t;

  /// Refers to `capacity` slots from `base` on. Pre: the counters are zero before one is taken.
  HIPVMM_HOST_DEVICE constexpr device_appender_ref(T* base, size_type capacity,
                                                   append_counters* counters) noexcept
      : base_{base}, capacity_{capacity}, counters_{counters} {}

  /// Takes a slot; returns null when none is left.
  [[nodiscard]] HIPVMM_HOST_DEVICE T* slot() const {
    const size_type first = detail::take_slot(&counters_->taken);
    return first < capacity_ ? base_ + first : nullptr;
  }
  /// Takes `count` consecutive slots. Returns null when fewer are left; then no thread gets those.
  /// For 0 nothing is taken or counted, and null has no meaning. Pre: the counts of a run, with
  /// those that got null, add up to less than 2^64.
  [[nodiscard]] HIPVMM_HOST_DEVICE T* slots(size_type count) const {
    const size_type first = detail::take_slots(&counters_->taken, count);
    if (first < capacity_ && count <= capacity_ - first) return base_ + first;
    // Blocks are consecutive, so only one of them can cross the end.
    if (first < capacity_) counters_->unused = capacity_ - first;
    return nullptr;
  }

  /// Appends `value`; returns false when no slot was left.
  HIPVMM_HOST_DEVICE bool push(const T& value) const {
    T* const own = slot();
    if (own == nullptr) return false;
    *own = value;
    return true;
  }
  /// Appends `count` values next to one another. Returns false, with none appended, when fewer
  /// slots were left. Returns true for 0. Pre: as slots.
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
