// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "memory/address.hpp"
#include "memory/tracked_range.hpp"

namespace hipvmm::host_provider {

/// All addresses that the provider knows, and the system calls that map them. Thread-safe. System
/// calls and waits for pins run outside its lock, so mapping new memory never waits for a running
/// copy, nor for another thread's unmap.
class address_map {
 public:
  explicit address_map(const settings& limits) noexcept
      : rules_{*limits.like},
        touch_{limits.touch},
        granularity_{limits.granularity},
        address_space_{limits.address_space_bytes},
        host_memory_{limits.host_bytes} {}

  /// Tries `hint` first. The start is a multiple of `alignment`.
  address reserve(std::size_t bytes, std::size_t alignment, address hint);
  void free_reservation(address start, std::size_t bytes);
  void map(address start, std::size_t bytes, const std::shared_ptr<chunk>& memory);
  /// Returns how many bytes from `start` on were unmapped, which profiles make more or less than
  /// `bytes`. If holes are allowed, each run of neighbours is unmapped by itself.
  std::size_t unmap(address start, std::size_t bytes);
  [[nodiscard]] std::pair<address, std::size_t> reservation_around(address mapped);
  /// Returns how many bytes from `start` on have changed, as above. Throws: failure with
  /// hipErrorInvalidDevice when a device gains rights to memory of an owner to which `links` has no
  /// link; nothing has changed then.
  std::size_t set_access(address start, std::size_t bytes, const access_change& change,
                         const std::vector<device_set>& links);

  /// Opens the mapping at `at` and its neighbours behind it to `users` as well, once.
  void open_to(address at, device_set users);

  /// Memory that the host and all devices may use, as much as the machine has.
  address allocate(memory_kind kind, int device, std::size_t bytes, unsigned flags);
  /// Maps memory that is lent in stream order.
  address place_block(int device, std::size_t bytes, std::shared_ptr<tenancy> tenant,
                      const file_backing& pages, memory_kind kind = memory_kind::pool_block);
  /// Maps a chunk as a device allocation, of this process or imported.
  address allocate_from(memory_kind kind, std::shared_ptr<chunk> memory, unsigned flags = 0);
  /// Registers memory of the caller. Throws: failure with hipErrorHostMemoryAlreadyRegistered when
  /// some of it is pinned already, with hipErrorInvalidValue when it is HIP's.
  void register_host(address start, std::size_t bytes, int device, unsigned flags, bool writable);
  /// Frees the allocation, or the registration, at `start`, and returns its range.
  tracked_range free_allocation(memory_kind kind, address start);

  [[nodiscard]] memory_class classify(address at) const;
  /// The range that has `at` among its usable bytes. `bytes` of a pool's block is the size that its
  /// holder requested; a block without a holder is not found.
  [[nodiscard]] std::optional<tracked_range> find(address at) const;
  /// A mapping, or a part of a reservation without any.
  struct touched {
    bool is_mapping;
    int device;
    std::size_t bytes;
  };
  /// For handlers of signals: returns nullopt at once while the lock is held.
  [[nodiscard]] std::optional<std::optional<touched>> try_find_touched(address at) const noexcept;
  /// Whether synchronous calls wait for copies of this memory within a device, and for fills of it.
  [[nodiscard]] bool is_synchronous(address at) const;
  bool set_synchronous(address at, bool synchronous);
  /// Whether `request` is allowed for every byte. Every request is allowed for pageable memory.
  [[nodiscard]] bool allows(address start, std::size_t bytes, const access_request& request) const;

  /// Keeps a piece of memory mapped, with its rights, while a copy or fill uses it.
  class pin {
   public:
    pin() = default;
    pin(address_map& map, tracked_range* pinned, right needed, std::size_t bytes, bool seen = true,
        bool stale = false) noexcept
        : map_{&map}, range_{pinned}, needed_{needed}, bytes_{bytes}, seen_{seen}, stale_{stale} {}
    pin(pin&& other) noexcept
        : map_{other.map_},
          range_{std::exchange(other.range_, nullptr)},
          needed_{other.needed_},
          bytes_{other.bytes_},
          seen_{other.seen_},
          stale_{other.stale_} {}
    pin& operator=(pin&&) = delete;
    ~pin();
    /// Bytes pinned, from the end of the request at which hold() began.
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    /// False while a new mapping is hidden: reads give zeros and writes are lost.
    [[nodiscard]] bool seen() const noexcept { return seen_; }
    /// The address for reads of the pinned byte `at`.
    [[nodiscard]] address read_at(address at) const noexcept {
      return stale_ ? within(*range_->stale, at) : memory_at(at);
    }
    /// Calls `write` with each address to which the bytes from `at` on are written.
    template <class Write>
    void write_at(address at, Write write) const {
      write(memory_at(at));
      if (stale_) write(within(*range_->stale, at));
    }
    /// Null for memory that is not managed.
    [[nodiscard]] managed_pages* managed() const noexcept {
      const bool found = range_ != nullptr && range_->kind == memory_kind::managed_allocation;
      return found ? range_->pages.get() : nullptr;
    }

   private:
    [[nodiscard]] address within(const host_view& other, address at) const noexcept {
      return other.start() + (at - range_->start);
    }
    [[nodiscard]] address memory_at(address at) const noexcept {
      const bool has_view = range_ != nullptr && range_->view != nullptr;
      return has_view ? within(*range_->view, at) : at;
    }

    address_map* map_ = nullptr;
    tracked_range* range_ = nullptr;
    right needed_ = right::read;
    std::size_t bytes_ = 0;
    bool seen_ = true;
    bool stale_ = false;  // bytes written at another address are to be missed
  };
  /// Pins the part of [start, start + bytes) that lies in the range of its first byte, or of its
  /// last byte when `from_end`. Throws: failure with hipErrorIllegalAddress when nothing is there
  /// or the request is not allowed.
  pin hold(address start, std::size_t bytes, const access_request& request, bool from_end = false);

  struct totals {
    std::uint64_t reservations;
    std::uint64_t mappings;
    std::uint64_t device_allocations;
    std::uint64_t host_allocations;
    std::uint64_t managed_allocations;
    std::uint64_t imported_allocations;
    std::uint64_t registrations;
  };
  [[nodiscard]] totals count() const;
  [[nodiscard]] std::uint64_t granted_mappings() const;

  struct live_range {
    std::optional<memory_kind> kind;  // empty: a reservation
    int device;
    address start;
    std::size_t bytes;
  };
  [[nodiscard]] std::vector<live_range> live_ranges() const;
  /// Makes all hidden mappings visible.
  void show_mappings();

 private:
  struct reservation {
    std::size_t bytes;
    std::size_t mappings = 0;
    bool is_forgotten = false;  // freed with something mapped: never to be had again
    std::set<std::shared_ptr<chunk>> kept = {};  // memory that goes back only with the addresses
  };
  /// The end of a range that begins at the start of a mapping.
  enum class range_end {
    exact,     ///< at the end of a mapping
    inside,    ///< anywhere in the last mapping
    anywhere,  ///< mappings after the first that it does not cover are left out
  };
  using range_map = std::map<address, std::unique_ptr<tracked_range>>;
  using reservation_map = std::map<address, reservation>;
  using guard = std::unique_lock<std::mutex>;

  void refuse_to_free(reservation& used) const;
  address add(std::unique_ptr<tracked_range> made);
  [[nodiscard]] tracked_range* range_at(address at) const;
  [[nodiscard]] reservation_map::iterator reservation_at(address at);
  std::size_t unmap_run(address start, std::size_t bytes);
  /// Whole mappings between `start` and its reservation's end, neighbours taken together.
  [[nodiscard]] std::vector<std::pair<address, std::size_t>> mapped_runs(address start,
                                                                         std::size_t bytes);
  [[nodiscard]] std::vector<tracked_range*> mappings_in(guard& lock, address start,
                                                        std::size_t bytes, range_end end);
  [[nodiscard]] bool is_within_one(address first, address second) const;
  /// Whether `bytes` is the size of the first mappings, together, of the reservation around
  /// `start`.
  [[nodiscard]] bool is_sum_from_first(address start, std::size_t bytes);
  [[nodiscard]] bool is_in_use(const chunk& memory) const;
  /// Whether `memory` is mapped; with `alias`, whether it was so before that.
  [[nodiscard]] bool is_mapped(const chunk& memory, const stale_view* alias = nullptr) const;
  [[nodiscard]] bool knows_any(address start, address end) const;
  void retire(guard& lock, std::span<tracked_range* const> ranges);
  void forget_stale(guard& lock, address start, std::size_t bytes);
  [[nodiscard]] std::uint64_t& live(memory_kind kind) noexcept {
    return live_[static_cast<std::size_t>(kind)];
  }
  void change_access(guard& lock, const std::vector<tracked_range*>& whole,
                     const access_change& change);
  void end_change(std::span<tracked_range* const> ranges);

  const profile& rules_;
  const host_touch touch_;
  const std::size_t granularity_;
  const std::size_t address_space_;
  const std::size_t host_memory_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a pin ended, or a range is no longer changing
  reservation_map reservations_;
  range_map ranges_;
  std::size_t reserved_bytes_ = 0;
  std::size_t host_bytes_ = 0;  // of pinned and managed memory
  std::array<std::uint64_t, memory_kinds> live_{};
  std::uint64_t granted_ = 0;
};

}  // namespace hipvmm::host_provider
