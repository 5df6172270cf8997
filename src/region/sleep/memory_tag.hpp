// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include "region/sleep/copy_jobs.hpp"
#include "region/sleep/file_copies.hpp"
#include "region/sleep/host_bytes.hpp"
#include "region/sleep/parallel_copies.hpp"

namespace hipvmm {
class region;
}  // namespace hipvmm

namespace hipvmm::detail {

/// Contents of memory that sleeps and wakes.
struct sleeping_range {
  void* address;
  std::size_t bytes;
  device_ref device;  // whose engine copies it
};

/// What is mapped again at that address, and may be used.
using mapped_again = std::function<void(void* address, std::size_t bytes)>;

/// What is mapped from that address on is to be unmapped: it returns when its contents are saved.
using wait_until_saved = std::function<void(void* address)>;

/// What carries a tag, as its suspend() and resume() see it. Each of them calls the same step of
/// all before the next step of any.
class sleeper {
 public:
  sleeper() = default;
  virtual ~sleeper() = default;
  sleeper(const sleeper&) = delete;
  sleeper& operator=(const sleeper&) = delete;

  /// It was made while the tag sleeps.
  virtual void begin_asleep() noexcept {}
  /// Checks that all of it can sleep. Throws: as suspend(); then nothing is to be undone.
  virtual void prepare_to_sleep(keep what) = 0;
  /// Undoes prepare_to_sleep().
  virtual void stay_awake() noexcept {}
  /// Waits for all work that may use it.
  virtual void wait_for_work() = 0;
  /// Bytes that it releases, known from prepare_to_sleep() on.
  [[nodiscard]] virtual std::size_t sleeping_bytes() const = 0;
  /// What keep::contents copies of that, by address, known like the bytes. Throws: std::bad_alloc.
  [[nodiscard]] virtual std::vector<sleeping_range> contents() const = 0;
  /// Unmaps all, from the highest address to the lowest, each part when `saved` has returned for
  /// it, and holds it. Throws: hip_error, and as `saved`; then all is mapped.
  virtual void unmap_to_sleep(const wait_until_saved& saved) = 0;
  /// Undoes unmap_to_sleep().
  virtual void map_again() noexcept = 0;
  /// Releases what is unmapped.
  virtual void fall_asleep() noexcept = 0;

  /// Reserves what fall_asleep() lost of the addresses. Throws: out_of_memory, which names them.
  virtual void take_addresses_back() = 0;
  /// Makes the memory again and maps it, and calls `each` for each part. Throws: as resume(), and
  /// as `each`; then sleep_on() is to follow.
  virtual void begin_to_wake(const mapped_again& each) = 0;
  /// Undoes begin_to_wake(), also where that failed. `may_be_in_use`: copies to the memory may be
  /// running, for HIP refused to wait for them.
  virtual void sleep_on(bool may_be_in_use) noexcept = 0;
  /// The contents are there. Throws: hip_error; then sleep_on() is to follow.
  virtual void apply_rights() {}
  virtual void finish_waking() noexcept = 0;
};

/// The steps of a region without a tag, for what stands on it and carries one.
[[nodiscard]] sleeper& sleeper_of(region& of);

/// What the copies of one memory_tag share.
class tag_state {
 public:
  /// Behind some of the copies of one member, which end no higher than `end`.
  struct copies_mark {
    const std::byte* end;
    std::vector<event> events;
    std::size_t jobs = 0;  // behind so many of copy_jobs
  };
  struct member {
    sleeper* who;
    host_bytes saved = {};
    std::vector<sleeping_range> contents = {};  // in `saved`, one behind the other
    std::deque<copies_mark> marks = {};         // of copies to there under way, from the end
    bool keeps_host_bytes = false;              // none that a suspend() has made which then fails
    backup_file file = {};                      // in place of `saved`
    std::size_t bytes_on_disk = 0;

    /// Calls `copy` for each piece of the contents, from the end: to, or in the file at, that
    /// offset of all that is saved.
    template <class Copy>
    void cut(Copy copy) const;
    /// Submits the copies of all contents.
    void submit(parallel_copies& copies);
    /// Waits for the copies of what lies at `address` and behind it.
    void wait_for_copies(const void* address, copy_jobs& jobs);
    /// Ends what is saved.
    void forget() noexcept {
      contents.clear();
      marks.clear();
      file = {};
      if (!keeps_host_bytes) saved = {};
    }
    // For statistics(), which does not wait for suspend() and resume().
    std::size_t bytes_asleep = 0;
    std::size_t bytes_on_host = 0;
  };
  using member_list = std::list<member>;

  explicit tag_state(std::string name) : name_{std::move(name)} {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Whether the memory is not there: asleep, or waking.
  [[nodiscard]] bool is_asleep() const noexcept {
    const tag_phase now = phase();
    return now == tag_phase::asleep || now == tag_phase::waking;
  }
  [[nodiscard]] tag_phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
  [[nodiscard]] tag_statistics statistics();
  /// The text of the refusal while it sleeps.
  [[nodiscard]] std::string refusal(const char* function) const;
  /// Throws: std::logic_error while it sleeps.
  void require_awake(const char* function) const;
  std::size_t suspend(keep what, const suspend_options& options);
  std::size_t resume();

  [[nodiscard]] member_list::iterator join(sleeper& who);
  void leave(member_list::iterator at) noexcept;

 private:
  /// The one suspend() or resume() that is under way, for which others wait, and all who make or
  /// end what carries the tag. No lock is held meanwhile.
  class turn;

  struct slow_copies;

  /// Submits the copies of all contents.
  void save_contents(sleep_storage storage, copy_jobs& jobs);
  /// Waits for all copies where no event tells of one.
  void wait_where_events_pass_early(copy_jobs& jobs);
  void save_to_files(const std::string& folder, slow_copies& slow);
  /// Unmaps all while copies of what is still mapped run, and waits for them.
  void unmap_all(copy_jobs& jobs);
  /// Makes the memory of one member again, and submits the copies of its contents.
  void wake(member& one, slow_copies& slow);
  [[nodiscard]] std::unique_lock<std::mutex> lock_when_still();

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable turn_ended_;
  bool is_turn_ = false;
  std::atomic<tag_phase> phase_{tag_phase::awake};
  // Both during a turn only by that; the numbers of the members always under the mutex.
  member_list members_;
  parallel_copies copies_;
  bool keeps_streams_ = false;  // of the copies, until the next turn
};

/// Membership of one object in a tag, or none.
class tag_membership {
 public:
  tag_membership(const std::optional<memory_tag>& tag, sleeper& who)
      : state_{tag ? tag->state() : nullptr} {
    if (state_) at_ = state_->join(who);
  }
  ~tag_membership() { end(); }
  tag_membership(const tag_membership&) = delete;
  tag_membership& operator=(const tag_membership&) = delete;

  /// Waits for a suspend() or resume() under way. Kept contents go.
  void end() noexcept {
    if (state_) state_->leave(at_);
    state_.reset();
  }
  [[nodiscard]] bool is_asleep() const noexcept { return state_ && state_->is_asleep(); }
  /// Throws: std::logic_error while the tag sleeps.
  void require_awake(const char* function) const {
    if (state_) state_->require_awake(function);
  }
  /// The text of the refusal. Pre: it is one of a tag.
  [[nodiscard]] std::string refusal(const char* function) const {
    return state_->refusal(function);
  }

 private:
  std::shared_ptr<tag_state> state_;
  tag_state::member_list::iterator at_;
};

}  // namespace hipvmm::detail
