// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/check.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/refused_unmaps.hpp"

namespace hipvmm {

/// The addresses of a region: one reservation, and those that extend() found free behind it. If HIP
/// refuses to unmap or to free, all of it is kept and tried again.
class address_range final : public detail::refused_end {
 public:
  [[nodiscard]] static std::shared_ptr<address_range> make(address_reservation first) {
    const auto end = [](address_range* made) {
      end_or_keep(std::unique_ptr<detail::refused_end>{made});
    };
    return {new address_range{reserved_part{std::move(first)}}, end};
  }

  [[nodiscard]] void* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] void* end() const noexcept { return static_cast<char*>(base()) + bytes_; }

  /// Pre: `next` starts at end().
  void append(address_reservation next) {
    const std::size_t added = next.bytes();
    const std::lock_guard lock{adding_};
    parts_.push_back({std::move(next)});
    bytes_ += added;
  }
  /// Ends the last part as a range of its own, with what HIP refused to unmap there.
  void drop_last() noexcept {
    bytes_ -= parts_.back().bytes;
    if (auto* const ending = new (std::nothrow) address_range{std::move(parts_.back())}) {
      auto refused = refused_.take(ending->base(), ending->bytes());
      ending->refused_.put_back(refused);
      end_or_keep(std::unique_ptr<detail::refused_end>{ending});
    } else {
      reserved_part& last = parts_.back();  // nothing has moved
      last.pins.stay();
      static_cast<void>(last.addresses.release());
    }
    const std::lock_guard lock{adding_};
    parts_.pop_back();
  }
  /// Work may still use the addresses when they are freed.
  void mark_in_use() noexcept {
    for (reserved_part& each : parts_) each.is_waited_for = false;
  }
  /// `pins`: the device returns memory only when addresses are freed. Pre: the chunk fits, see
  /// longest_at(). Throws: as mapping; hip_error if HIP still refuses to unmap what is there.
  [[nodiscard]] mapping map(std::size_t offset, const physical_chunk& chunk, map_check check,
                            bool pins) const {
    refused_.retry(static_cast<char*>(base()) + offset, chunk.bytes());
    if (size_of_all_ == 0) size_of_all_ = chunk.bytes();
    has_two_sizes_ = has_two_sizes_ || chunk.bytes() != size_of_all_;
    std::size_t start = 0;
    auto part = parts_.begin();
    while (offset >= start + part->bytes) start += (part++)->bytes;
    const bool is_new = pins && part->pins.add(chunk);
    try {
      mapping made{part->addresses, offset - start, chunk, map_check::trusted};
      if (check == map_check::verified) refused_.verify_or_keep(made, chunk, part->addresses);
      return made;
    } catch (...) {
      // If HIP did not answer verify_or_keep(), the chunk may be mapped.
      if (is_new && refused_.empty()) part->pins.remove(chunk);
      throw;
    }
  }
  /// One hipMemUnmap may undo neighbours of `device`; ordinals above 63 are ignored. Thread-safe.
  void note_unmaps_many(device_ref device) noexcept { unmaps_many_of_ |= bit_of(device); }
  [[nodiscard]] bool unmaps_many() const noexcept { return unmaps_many_of_ != 0; }
  /// `first` is at the lower address.
  [[nodiscard]] bool may_unmap_together(const mapping& first,
                                        const mapping& second) const noexcept {
    const auto* const start = static_cast<const char*>(first.get());
    const auto offset = [this](const void* at) {
      return static_cast<std::size_t>(static_cast<const char*>(at) -
                                      static_cast<const char*>(base()));
    };
    return !first.empty() && start + first.bytes() == second.get() &&
           first.device() == second.device() && (unmaps_many_of_ & bit_of(first.device())) != 0 &&
           !first.is_on_host() && !second.is_on_host() &&
           part_start(offset(start)) == part_start(offset(second.get()));
  }
  [[nodiscard]] bool had_one_size() const noexcept { return !has_two_sizes_; }
  /// Thread-safe.
  [[nodiscard]] std::size_t part_start(std::size_t offset) const noexcept {
    const std::lock_guard lock{adding_};
    std::size_t start = 0;
    for (auto part = parts_.begin(); offset - start >= part->bytes; ++part) start += part->bytes;
    return start;
  }
  /// The most bytes from `offset` on that one chunk may cover: HIP maps within one reservation.
  [[nodiscard]] std::size_t longest_at(std::size_t offset) const noexcept {
    std::size_t end = 0;
    auto part = parts_.begin();
    while (offset >= end) end += (part++)->bytes;
    return end - offset;
  }

  /// The worst result of detail::reclaim_pinned(). take_back() reserves lost parts.
  [[nodiscard]] detail::reclaim_result reclaim_pinned() noexcept {
    detail::reclaim_result result = detail::reclaim_result::done;
    for (reserved_part& each : parts_) {
      if (each.addresses.empty()) continue;
      const detail::reclaim_result made = detail::reclaim_pinned(each.addresses);
      each.is_forgotten = made == detail::reclaim_result::forgotten;
      if (each.is_forgotten)
        each.pins.stay();
      else if (made != detail::reclaim_result::refused)
        each.pins.end();
      result = std::max(result, made);
    }
    return result;
  }
  [[nodiscard]] bool is_lost() const noexcept {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const reserved_part& each) { return each.addresses.empty(); });
  }
  /// Throws: hip_error if reclaim_pinned() has found addresses that HIP has forgotten.
  void require_known() const {
    for (const reserved_part& each : parts_)
      if (each.is_forgotten)
        detail::throw_failure(
            hipErrorUnknown, "hipMemAddressFree",
            "the addresses at " + detail::address_text(each.start) + ", " +
                format_bytes(each.bytes) +
                ", are lost, because HIP has forgotten them without freeing "
                "them: end the object that has them; then resume() wakes the rest of its tag");
  }
  /// Returns false while others hold some. Throws: out_of_memory, hip_error.
  [[nodiscard]] bool take_back() {
    require_known();
    for (reserved_part& each : parts_) {
      if (!each.addresses.empty()) continue;
      address_reservation again{each.bytes, 0, each.start};
      if (again.get() != each.start) return false;
      each.addresses = std::move(again);
    }
    return true;
  }

  /// Bytes of the chunks that the addresses hold, mapped or not.
  [[nodiscard]] std::size_t pinned_bytes() const noexcept {
    std::size_t sum = 0;
    for (const reserved_part& each : parts_) sum += each.pins.bytes();
    return sum;
  }
  [[nodiscard]] refused_unmaps& refused() const noexcept { return refused_; }

 private:
  struct reserved_part;
  explicit address_range(reserved_part first) noexcept : base_{first.start}, bytes_{first.bytes} {
    parts_.push_back(std::move(first));
  }

  [[nodiscard]] bool end(bool reports) noexcept override {
    detail::report_exceptions([this] { refused_.retry(nullptr, 0); });
    // AMD's runtime loses its record of addresses that it refuses to free.
    if (!refused_.empty()) return false;
    bool ended = true;
    for (reserved_part& each : parts_) ended = each.end(reports) && ended;
    return ended;
  }

  [[nodiscard]] static std::uint64_t bit_of(device_ref device) noexcept {
    return device.ordinal() < 64 ? std::uint64_t{1} << device.ordinal() : 0;
  }

  struct reserved_part {
    address_reservation addresses;  // empty if lost or ended
    void* start;
    std::size_t bytes;
    bool is_waited_for = true;
    bool is_forgotten = false;
    mutable detail::chunk_pins pins;

    reserved_part(address_reservation taken) noexcept
        : addresses{std::move(taken)}, start{addresses.get()}, bytes{addresses.bytes()} {}
    /// Returns whether nothing is left to end.
    [[nodiscard]] bool end(bool reports) noexcept {
      if (detail::free_or_report(addresses, is_waited_for, reports))
        pins.end();
      else if (addresses.empty())
        pins.stay();
      return addresses.empty();
    }
  };

  void* const base_;
  // The library's thread may unmap retired memory while the owner changes `parts_`.
  mutable std::mutex adding_;
  boost::container::small_vector<reserved_part, 2> parts_;
  std::size_t bytes_ = 0;
  std::atomic<std::uint64_t> unmaps_many_of_{0};
  mutable std::size_t size_of_all_ = 0;
  mutable bool has_two_sizes_ = false;
  mutable refused_unmaps refused_;
};

}  // namespace hipvmm
