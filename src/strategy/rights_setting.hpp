// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// The mappings of one reservation.
class mapped_sizes {
 public:
  void add(std::size_t offset, std::size_t bytes) noexcept {
    start_ = std::min(start_, offset);
    end_ = std::max(end_, offset + bytes);
    sum_ += bytes;
    if (size_ == 0) size_ = bytes;
    has_one_size_ = has_one_size_ && bytes == size_;
  }
  [[nodiscard]] bool has_no_hole() const noexcept { return sum_ == bytes(); }
  [[nodiscard]] bool has_one_size() const noexcept { return has_one_size_; }
  [[nodiscard]] std::size_t start() const noexcept { return start_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return end_ - start_; }

 private:
  std::size_t start_ = std::numeric_limits<std::size_t>::max();
  std::size_t end_ = 0;
  std::size_t sum_ = 0;
  std::size_t size_ = 0;
  bool has_one_size_ = true;
};

/// The range of a call that sets rights.
enum class rights_range {
  mapping,      ///< the mapping that gets other rights
  reservation,  ///< all that is mapped in its reservation
  none,         ///< HIP takes neither
};

/// The ranges for which HIP takes rights.
// ROCm 7.0 to 7.2 sort the mappings of a reservation by heap addresses. They take a range only if
// its length is the sum of the first n sizes in that order, for some n (ROCm/rocm-systems#2516,
// #6977; ggml-org/llama.cpp#23900). Two ranges always have such a length: one mapping if all have
// one size, and all mappings of a reservation. A call names one mapping if it can, because n calls
// that each name all cost n * n / 2 grants. It names all only if all get the same rights. Devices
// that pass the probe tail_access refuse one mapping now and then; then the call names all. This
// work-around may go when no supported release fails that probe.
struct rights_setting {
  bool takes_any_mapping;  ///< otherwise one mapping only if all have one size
  bool takes_runs;         ///< takes neighbours by one call (the probe base_access)
  device_ref refusing;     ///< the first device that refuses some mappings, else the first
  const std::string* why;  ///< the failure that was seen

  /// Whether the first call is for the mapping alone. `had_one_size`: all mappings that were ever
  /// in the range had the same size.
  [[nodiscard]] bool begins_with_mapping(bool had_one_size) const noexcept {
    return takes_any_mapping || had_one_size;
  }
  /// The range of the next call. `bytes`: of the mapping, or of neighbours; `there`: all mappings
  /// of the reservation, these included.
  /// - `has_same_rights`: all of them get the same rights.
  /// - `was_refused`: HIP has refused the mapping alone. `was_released`: retired memory was
  ///   released since.
  [[nodiscard]] static rights_range next(const mapped_sizes& there, std::size_t bytes,
                                         bool has_same_rights, bool was_refused,
                                         bool was_released) noexcept {
    const bool is_alone = there.bytes() == bytes;
    if ((has_same_rights || is_alone) && there.has_no_hole() && !(was_refused && is_alone))
      return rights_range::reservation;
    const bool may_pass = was_refused ? was_released : there.has_one_size();
    return may_pass ? rights_range::mapping : rights_range::none;
  }
  /// Whether the mapping that was added to `there` last can get the same rights as the others.
  [[nodiscard]] static bool can_add_to(const mapped_sizes& there) noexcept {
    return there.has_one_size() || there.has_no_hole();
  }
};

}  // namespace hipvmm::detail
