// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <hipvmm/container/slot_arena_options.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/event.hpp>
#include "container/row_memory.hpp"
#include "core/background_task.hpp"
#include "core/observers/memory_events.hpp"
#include "core/owner_process.hpp"
#include "region/device_work.hpp"
#include "region/sleep/memory_tag.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::detail {

/// The implementation of a slot_arena. Each slot claims rows. The owner (the thread that calls the
/// arena), the background task and give_idle() in any thread change rows and claims under the lock
/// of `idle_`.
/// - While the others may run, the owner reads and writes lengths, and the events of slots in use.
/// - For everything else the owner makes a `pause`, which waits for the HIP calls of one chunk.
class slot_allocator final : sleep_participant, idle_holder {
 public:
  slot_allocator(device_ref device, const slot_arena_options& options);
  ~slot_allocator() override;
  slot_allocator& operator=(slot_allocator&&) = delete;

  // As the functions of slot_arena with these names; arguments are checked here.
  [[nodiscard]] std::size_t acquire(stream_ref stream);
  void commit(const std::size_t* slots, const std::size_t* lengths, std::size_t count,
              stream_ref stream);
  void release(std::size_t slot, stream_ref stream);
  void truncate(std::size_t slot, std::size_t length, stream_ref stream);
  void share_prefix(std::size_t from, const std::size_t* to, std::size_t count, std::size_t bytes,
                    stream_ref stream);
  void make_writable(std::size_t which, std::size_t offset, std::size_t bytes, stream_ref stream);
  [[nodiscard]] std::size_t slots_that_fit(std::size_t length);
  void set_eviction(std::function<void(std::size_t)> evict) {
    require_not_evicting("slot_arena::set_eviction");
    evict_ = std::move(evict);
  }
  void set_budget(std::size_t bytes);
  std::size_t trim();
  [[nodiscard]] slot_arena_statistics statistics();
  [[nodiscard]] void* pointer(std::size_t slot, std::size_t plane) const;
  [[nodiscard]] std::size_t length(std::size_t slot) const;
  [[nodiscard]] std::size_t capacity(std::size_t slot) const;
  [[nodiscard]] bool in_use(std::size_t slot) const;

  [[nodiscard]] const slot_geometry& geometry() const noexcept { return geometry_; }
  [[nodiscard]] void* base() const noexcept { return rows_.memory().base(); }
  [[nodiscard]] device_ref device() const noexcept override { return device_; }
  [[nodiscard]] const owner_process& process() const noexcept { return process_; }

 private:
  /// A commit that needs no memory reads only this and `capacities_`, to touch few cache lines.
  /// Written by the owner; `is_marked` of a free slot also by the background task.
  struct slot {
    std::atomic<std::size_t> length{0};
    std::atomic<bool> in_use{false};
    bool is_marked = false;  // whether claimed_rows::passed has an event
  };
  struct claimed_rows {
    std::size_t count = 0;        // the slot's first ones, all of them backed
    std::size_t wanted = 0;       // during a commit: the requested bytes
    std::optional<event> passed;  // end of the work that may use bytes behind the length
  };
  enum class asker { owner, background };
  /// Rows that a slot may lose.
  enum class spare {
    idle,  ///< of free slots, and of slots in use beyond the prefetched blocks
    any,   ///< all beyond the lengths
  };
  /// Drops the claims that slots get during its life, unless keep() was called.
  class growth {
   public:
    growth(slot_allocator& owner, std::size_t count);
    ~growth();
    growth& operator=(growth&&) = delete;
    /// Pre: called at most `count` times.
    void add(std::size_t which, std::size_t wanted) noexcept;
    void keep() noexcept { is_kept_ = true; }

   private:
    struct grown_slot {
      std::size_t which;
      std::size_t count;
    };
    slot_allocator& owner_;
    std::vector<grown_slot> grown_;
    bool is_kept_ = false;
  };
  /// While one lives, the eviction callback runs for a commit of these slots.
  class eviction {
   public:
    eviction(slot_allocator& owner, const std::size_t* slots, std::size_t count) noexcept
        : slots_{slots}, count_{count}, owner_{owner} {
      owner_.evicting_ = this;
    }
    ~eviction() { owner_.evicting_ = nullptr; }
    eviction& operator=(eviction&&) = delete;
    [[nodiscard]] bool names(std::size_t which) const noexcept {
      return std::find(slots_, slots_ + count_, which) != slots_ + count_;
    }

   private:
    const std::size_t* slots_;
    std::size_t count_;
    slot_allocator& owner_;
  };
  /// While one lives, neither the background task nor give_idle() runs. They are not nested.
  class pause {
   public:
    explicit pause(slot_allocator& owner) noexcept;
    ~pause();
    pause& operator=(pause&&) = delete;

   private:
    const events_wait until_unlocked_;
    slot_allocator& owner_;
    std::optional<idle_membership::lock> alone_;
  };

  // For suspend() and resume(): claims on spare rows are dropped, the region does the rest.
  [[nodiscard]] std::pair<const void*, std::size_t> addresses_of() const noexcept override {
    return rows_.chunks().addresses_of();
  }
  void begin_asleep() noexcept override { is_asleep_ = true; }
  [[nodiscard]] std::size_t held_bytes() override {
    const pause stopped{*this};
    return rows_.chunks().held_bytes();
  }
  void prepare_to_sleep(const sleep_plan& plan) override;
  void be_awake() noexcept override;
  void wait_for_work() override { rows_.chunks().wait_for_work(); }
  void each_asleep(const std::function<void(memory_location, std::size_t)>& found) const override {
    rows_.chunks().each_asleep(found);
  }
  [[nodiscard]] std::vector<sleeping_range> contents() override {
    const pause stopped{*this};
    return rows_.chunks().contents();
  }
  [[nodiscard]] chunks_that_stay_mapped staying(const sleep_plan& plan) override {
    const pause stopped{*this};
    return rows_.chunks().staying(plan);
  }
  void unmap_to_sleep(const wait_until_saved& saved) override {
    rows_.chunks().unmap_to_sleep(saved);
  }
  void map_again() override { rows_.chunks().map_again(); }
  void finish_suspend() noexcept override;
  void reacquire_addresses() override { rows_.chunks().reacquire_addresses(); }
  void map_for_resume(const mapped_again& each, memory_to_make& left) override;
  void stay_asleep(bool may_be_in_use) noexcept override;
  void apply_rights() override { rows_.chunks().apply_rights(); }
  void finish_waking() noexcept override { rows_.chunks().finish_waking(); }
  [[nodiscard]] given_memory give_idle(const idle_request& asked) override;
  [[nodiscard]] std::size_t idle_bytes() override;
  /// Throws: std::logic_error while the memory sleeps; as sleep_participant::map_again().
  void require_awake(const char* function) {
    membership_.require_awake(function);
    if (may_be_torn_) [[unlikely]]
      map_torn_again();
  }
  void map_torn_again();

  /// Throws: std::logic_error in the eviction callback, because slots get no memory there.
  void require_not_evicting(const char* function) const;
  void require_outside_batch(const char* function, std::size_t which) const;
  void require_slot(const char* function, std::size_t which) const;
  slot& require_in_use(const char* function, std::size_t which, stream_ref stream);
  /// Replaces the slot's event by one that also follows the work of `stream`.
  void mark(const char* function, std::size_t which, stream_ref stream);
  void wait_in(const char* function, std::size_t which, stream_ref stream);

  void shorten(std::size_t which, std::size_t length);
  void grow_all(const std::size_t* slots, const std::size_t* lengths, std::size_t count,
                stream_ref stream);
  /// Throws: out_of_memory if the rows that all slots then need exceed the budget, the limit of the
  /// device's memory_budget or the device's memory. No eviction relieves the last two if those of
  /// the batch alone exceed them.
  void require_budget(const std::size_t* slots, const std::size_t* lengths,
                      std::size_t count) const;
  /// Bytes of the rows that the slots lack and no length needs yet, each counted once.
  [[nodiscard]] std::size_t missing_bytes(const std::size_t* slots, const std::size_t* lengths,
                                          std::size_t count) const;
  /// Claims and backs the slot's next row. Returns false if the background task is to stop. Throws:
  /// out_of_memory, hip_error; then the row is not claimed.
  bool claim_next(std::size_t which, asker who);
  /// If there is room, backs several rows for `length` bytes by one commit for each plane.
  void back_run(std::size_t which, std::size_t length);
  /// As claim_next(), for the claimed `row`.
  bool back(std::size_t row, asker who);
  /// Returns whether no slot claims that row now.
  bool unclaim_last(std::size_t which) noexcept;
  [[nodiscard]] std::size_t last_row(std::size_t which) const noexcept {
    return geometry_.first_row(which) + claims_[which].count - 1;
  }
  void set_claims(std::size_t which, std::size_t claims) noexcept;
  /// Claimed rows before the first shared one behind the slot's length.
  [[nodiscard]] std::size_t usable_rows(std::size_t which) const noexcept;
  /// Waits for the slot's event, then drops its claims beyond `kept` or usable_rows(). Throws:
  /// hip_error.
  void drop_claims(std::size_t which, std::size_t kept);
  void show_prefix(std::size_t from, std::size_t to, std::size_t bytes, stream_ref stream);
  void require_sharing() const;
  /// Drops claims on spare rows until a row has none. Returns that row, if there is one.
  std::optional<std::size_t> unclaim_spare(asker who, spare which);
  /// Unmaps a spare row. Returns false if there is none.
  bool evict_row(asker who, spare which);
  /// evict_row() that counts as a move.
  bool move_spare(asker who, spare which);
  /// Waits for the work of one slot with spare rows. Returns false if there is none.
  bool wait_for_spare();
  /// Whether no slot has bytes, nor work under way.
  [[nodiscard]] bool may_unmap_all();
  [[nodiscard]] std::size_t protected_rows(std::size_t which, spare of) const noexcept;
  /// Drops the slot's event if it has passed.
  [[nodiscard]] bool has_passed(std::size_t which);
  /// The budget, or the bytes held now or when a growth began if these are more.
  [[nodiscard]] std::size_t limit() const noexcept {
    return std::max({budget_, held_before_, rows_.held_bytes()});
  }
  [[nodiscard]] std::size_t room() const noexcept { return limit() - rows_.held_bytes(); }
  [[nodiscard]] bool has_room(std::size_t bytes) const {
    return bytes - std::min(bytes, rows_.reusable_bytes(bytes)) <= room();
  }
  [[noreturn]] void throw_over_budget(std::size_t bytes) const;
  [[nodiscard]] shortage budget_shortage(std::size_t bytes, std::size_t left) const;
  void release_down_to(std::size_t bytes);
  void note_held() noexcept;
  [[nodiscard]] std::size_t held_now() const noexcept { return rows_.held_bytes() - bytes_asleep_; }
  [[nodiscard]] std::size_t next_free();
  /// Rows for the lengths, or also for the full size of slots in use.
  enum class needed_by { lengths, slots_in_use };
  [[nodiscard]] std::vector<bool> needed_rows(needed_by whom = needed_by::lengths) const;
  void mark_rows(std::vector<bool>& rows, std::size_t which, std::size_t bytes) const noexcept;
  [[nodiscard]] std::size_t added_rows(std::size_t which, std::size_t length,
                                       const std::vector<bool>& needed) const noexcept;
  /// Memory that several rows share counts once.
  [[nodiscard]] std::size_t needed_bytes(const std::vector<bool>& needed) const;

  void request_prefetch() noexcept;
  [[nodiscard]] bool lacks_prefetch(std::size_t length, std::size_t capacity) const noexcept {
    return capacity < geometry_.most && capacity - length < prefetch_rows_ * geometry_.block;
  }
  void prefetch() noexcept;
  /// Returns false if the owner stopped it.
  bool prefetch_rows();
  [[nodiscard]] bool lacks_rows(std::size_t which) const noexcept;

  owner_process process_;
  device_ref device_;
  std::size_t most_memory_;  // of the device
  slot_geometry geometry_;
  std::function<void(std::size_t)> evict_;
  std::size_t prefetch_rows_;
  std::size_t budget_;
  std::size_t floor_;
  int priority_;
  std::size_t held_before_ = 0;  // rows_.held_bytes() when the present growth began
  row_memory rows_;
  device_list devices_;  // of the streams that may use slots
  std::vector<slot> slots_;
  std::vector<std::atomic<std::size_t>> capacities_;  // bytes in the usable rows of each slot
  std::vector<claimed_rows> claims_;
  static constexpr std::size_t no_slot = std::numeric_limits<std::size_t>::max();
  std::size_t claiming_ = no_slot;  // by claim_next()
  std::size_t next_victim_ = 0;
  std::size_t peak_held_ = 0;
  std::uint64_t grown_rows_ = 0;
  std::uint64_t moved_rows_ = 0;
  std::uint64_t evictions_ = 0;
  std::uint64_t prefetched_rows_ = 0;
  std::uint64_t failed_prefetches_ = 0;

  const eviction* evicting_ = nullptr;

  bool may_be_torn_ = false;             // rows may be unmapped after a failed make_writable()
  std::size_t bytes_asleep_ = 0;         // of mapped_bytes(), those that suspend() has released
  std::atomic<bool> is_asleep_ = false;  // or falling asleep
  bool has_shared_ = false;              // since the first share_prefix()
  bool is_paused_ = false;
  std::atomic<bool> stops_{false};
  std::atomic<bool> is_requested_{false};
  std::atomic<bool> has_grown_{false};    // a length has grown since the last run of the task
  int idle_looks_ = 0;                    // runs of the task without a request or growth
  std::atomic<bool> may_prefetch_{true};  // false after a failure, until memory may be free again
  background_task task_{[this] { prefetch(); }};
  // Last members, because suspend() and give_idle() in other threads use all others.
  idle_membership idle_{*this, device_, idle_membership::price::spare, priority_};
  tag_membership membership_;
};

}  // namespace hipvmm::detail
