// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <type_traits>

#include <hipvmm/container/append_slots.hpp>

namespace hipvmm {

/// What kernels append through: slots behind the last element of a vector, passed to kernels by
/// value; device_appender::prepare gives it. Any number of threads may take slots at once; a call
/// takes them with one atomic, on devices for all lanes that make it together. A slot that does not
/// exist is counted and told by null or false: nothing is written out of bounds. Whoever gets a
/// slot writes it, for it becomes an element. Works in host code too, where the host may touch
/// the memory.
template <typename T>
class device_appender_ref {
  static_assert(std::is_trivially_copyable_v<T>,
                "device_appender_ref<T>: T must be trivially copyable, as in the vector");

 public:
  using value_type = T;
  using size_type = std::size_t;

  /// `capacity` slots from `base` on. Pre: the counters are zero before the first is taken.
  HIPVMM_HOST_DEVICE constexpr device_appender_ref(T* base, size_type capacity,
                                                   append_counters* counters) noexcept
      : base_{base}, capacity_{capacity}, counters_{counters} {}

  /// Takes a slot; null when none is left.
  [[nodiscard]] HIPVMM_HOST_DEVICE T* slot() const {
    const size_type first = detail::take_slot(&counters_->taken);
    return first < capacity_ ? base_ + first : nullptr;
  }
  /// Takes `count` slots in a row; null when fewer are left, and nobody gets those. For 0 nothing
  /// is taken or counted, and null has no meaning.
  /// Pre: the counts of a run, with those that got null, add up to less than 2^64.
  [[nodiscard]] HIPVMM_HOST_DEVICE T* slots(size_type count) const {
    const size_type first = detail::take_slots(&counters_->taken, count);
    if (first < capacity_ && count <= capacity_ - first) return base_ + first;
    // Blocks follow one another, so that only one of them can reach across the end.
    if (first < capacity_) counters_->unused = capacity_ - first;
    return nullptr;
  }

  /// Appends `value`; false when no slot was left.
  HIPVMM_HOST_DEVICE bool push(const T& value) const {
    T* const own = slot();
    if (own == nullptr) return false;
    *own = value;
    return true;
  }
  /// Appends `count` values next to one another; false when fewer slots were left, and none is
  /// appended. For 0 it is true. Pre: as slots.
  HIPVMM_HOST_DEVICE bool push(const T* values, size_type count) const {
    T* const own = slots(count);
    if (own == nullptr) return count == 0;
    for (size_type i = 0; i < count; ++i) own[i] = values[i];
    return true;
  }

  /// The first slot.
  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr T* base() const noexcept { return base_; }
  /// Slots that there are, taken or not.
  [[nodiscard]] HIPVMM_HOST_DEVICE constexpr size_type capacity() const noexcept {
    return capacity_;
  }

 private:
  T* base_;
  size_type capacity_;
  append_counters* counters_;
};

}  // namespace hipvmm
