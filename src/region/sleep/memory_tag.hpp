// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/memory_location.hpp>
#include "core/owner_process.hpp"
#include "region/sleep/copy_jobs.hpp"
#include "region/sleep/file_copies.hpp"
#include "region/sleep/host_bytes.hpp"
#include "region/sleep/parallel_copies.hpp"
#include "region/sleep/sleep_plan.hpp"

namespace hipvmm {
class region;
}  // namespace hipvmm

namespace hipvmm::detail {

struct sleeping_range {
  void* address;
  std::size_t bytes;
  device_ref device;  // copies it
};

template <class Range>
[[nodiscard]] std::size_t bytes_of(const std::vector<Range>& ranges) noexcept {
  std::size_t sum = 0;
  for (const Range& each : ranges) sum += each.bytes;
  return sum;
}

[[nodiscard]] inline bool has_address(std::pair<const void*, std::size_t> of,
                                      const void* address) noexcept {
  const auto* const first = static_cast<const std::byte*>(of.first);
  return std::less_equal<>{}(first, address) && std::less<>{}(address, first + of.second);
}

using mapped_again = std::function<void(void* address, std::size_t bytes)>;

/// Memory that resume() has not made yet.
struct memory_to_make {
  std::map<std::optional<device_ref>, std::size_t> bytes = {};  ///< nullopt: the host's
  std::chrono::steady_clock::time_point evicts_until = {};      ///< as idle_request
};

/// Waits until the contents from that address on are saved.
using wait_until_saved = std::function<void(void* address)>;

struct chunks_that_stay_mapped {
  std::vector<suspend_range> ranges = {};  ///< by address; `what` is keep::nothing
  std::size_t bytes = 0;                   ///< counts memory once that several ranges show
};

/// An object that carries a tag. The tag calls each step for all carriers before the next step. Two
/// pairs of steps come carrier by carrier: `staying` with `contents` or `held_bytes`, and
/// `finish_waking` with `be_awake`.
///
///   call                 steps in their order                      after a failure
///   -------------------  ----------------------------------------  ----------------------------
///   suspend(), evict()   prepare_to_sleep, wait_for_work (*),      be_awake
///                        staying, contents
///                        unmap_to_sleep                            map_again, then be_awake
///                        finish_suspend
///   resume()             reacquire_addresses, each_asleep          nothing: it sleeps
///                        map_for_resume, apply_rights              stay_asleep (+)
///                        finish_waking, be_awake
///   resume() if torn     map_again, be_awake                       nothing: it sleeps, torn
///   save_checkpoint()    prepare_to_sleep, wait_for_work (*),      be_awake
///                        contents, staying, be_awake
///   prepare_suspend()    staying, contents                         nothing
///   bytes_to_evict()     held_bytes, staying                       nothing
///   a carrier is made    begin_asleep, if the tag sleeps
///
/// After a failure, be_awake is called for each carrier that had prepare_to_sleep called, and
/// stay_asleep for each that had map_for_resume called.
/// (*) Not in evict(). If a stream is given, the tag waits for it instead.
/// (+) Not if the host has freed contents: all stays mapped, and the next resume() goes on after
/// map_for_resume().
class sleep_participant {
 public:
  virtual ~sleep_participant() = default;
  sleep_participant& operator=(sleep_participant&&) = delete;

  /// All addresses that it may back.
  [[nodiscard]] virtual std::pair<const void*, std::size_t> addresses_of() const noexcept = 0;
  [[nodiscard]] virtual device_ref device() const noexcept = 0;
  virtual void begin_asleep() noexcept {}
  /// The most bytes that it could release. Throws, as contents() and staying(): std::bad_alloc.
  [[nodiscard]] virtual std::size_t held_bytes() = 0;
  /// Checks that it can sleep, and refuses requests until be_awake(). Throws: as suspend().
  virtual void prepare_to_sleep(const sleep_plan& plan) = 0;
  virtual void be_awake() noexcept {}
  virtual void wait_for_work() = 0;
  /// Calls `found` for each chunk that prepare_to_sleep() chose.
  virtual void each_asleep(
      const std::function<void(memory_location, std::size_t)>& found) const = 0;
  [[nodiscard]] std::size_t sleeping_bytes() const {
    std::size_t sum = 0;
    each_asleep([&sum](memory_location, std::size_t bytes) { sum += bytes; });
    return sum;
  }
  /// By address, also of parts that stay mapped; with idle blocks before prepare_to_sleep().
  [[nodiscard]] virtual std::vector<sleeping_range> contents() = 0;
  [[nodiscard]] virtual chunks_that_stay_mapped staying(const sleep_plan& plan) = 0;
  /// Unmaps from the highest address to the lowest, each part after `saved` has returned for it.
  /// Keeps the chunks. Throws: hip_error; as `saved`.
  virtual void unmap_to_sleep(const wait_until_saved& saved) = 0;
  /// Throws: out_of_memory, hip_error, which name the bytes without a mapping. May be called again.
  virtual void map_again() = 0;
  /// Releases the unmapped chunks.
  virtual void finish_suspend() noexcept = 0;

  /// Reserves the addresses that finish_suspend() lost. Throws: out_of_memory, which names them;
  /// hip_error if HIP has forgotten them.
  virtual void reacquire_addresses() = 0;
  /// Makes and maps new memory, and calls `each` for each part. A request that lacks memory asks
  /// others for all of `left`, which shrinks with each chunk. Throws: as resume(); as `each`.
  virtual void map_for_resume(const mapped_again& each, memory_to_make& left) = 0;
  /// Undoes map_for_resume(). `may_be_in_use`: HIP refused to wait for copies to the memory.
  virtual void stay_asleep(bool may_be_in_use) noexcept = 0;
  /// For rights that come after the contents. Throws: hip_error.
  virtual void apply_rights() {}
  virtual void finish_waking() noexcept = 0;
};

/// Throws: std::logic_error if memory sleeps at `address`; unsupported in a child of a process in
/// which memory sleeps. Reads one counter while none sleeps.
void require_awake_at(const void* address, const char* function);

/// For carriers that hold a region without a tag.
[[nodiscard]] sleep_participant& sleep_participant_of(region& of);

/// Shared by copies of a memory_tag. Calls that change carriers take turns.
class tag_state {
 public:
  /// To be waited for after some copies of a member.
  struct copies_mark {
    const std::byte* end;  // suspend(): of the copied memory, which begins at the next mark's end
    std::vector<event> events;
    std::size_t jobs = 0;   // how many of copy_jobs must have ended
    std::size_t until = 0;  // resume(): end of the copied bytes, as an offset in `saved`
  };
  struct member {
    sleep_participant* who;
    host_bytes saved = {};
    std::vector<sleeping_range> contents = {};  // one behind the other in `saved` or `file`
    std::vector<sleeping_range> copied = {};    // in `saved` since the last resume()
    std::vector<sleeping_range> zeros = {};     // to be filled by resume()
    std::deque<copies_mark> marks = {};         // of copies under way, in the order of submission
    std::size_t bytes_kept = 0;                 // bytes of `saved` that forget() leaves
    backup_file file = {};                      // in place of `saved`
    std::size_t bytes_on_disk = 0;

    /// Whether `saved` has a copy of the contents from the last resume().
    [[nodiscard]] bool has_copy() const noexcept {
      return std::ranges::equal(copied, contents, [](const auto& a, const auto& b) {
        return a.address == b.address && a.bytes == b.bytes;
      });
    }
    /// Calls copy(device, from, bytes, offset) for each piece of the contents, from the end.
    /// `offset` is that in `saved` or `file`.
    template <class Copy>
    void cut(Copy copy) const;
    void submit(parallel_copies& copies);
    /// Waits for the copies of memory from `address` on.
    void wait_for_copies(const void* address, copy_jobs& jobs);
    void forget() noexcept {
      contents.clear();
      zeros.clear();
      marks.clear();
      file = {};
      saved.shrink(bytes_kept);
    }
    // For statistics() and has(), under the mutex.
    chunks_that_stay_mapped staying = {};
    std::size_t bytes_asleep = 0;
    std::size_t bytes_on_host = 0;
  };
  using member_list = std::list<member>;

  explicit tag_state(std::string name) : name_{std::move(name)} {}
  ~tag_state();
  tag_state& operator=(tag_state&&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool is_asleep() const noexcept {
    const tag_phase now = phase();
    return now == tag_phase::asleep || now == tag_phase::waking;
  }
  [[nodiscard]] tag_phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
  [[nodiscard]] tag_statistics statistics();
  /// Whether a carrier has `address`, and not in a chunk that stays mapped.
  [[nodiscard]] bool has(const void* address);
  [[nodiscard]] std::string refusal(const char* function) const;
  /// Throws: std::logic_error while the tag sleeps or may be evicted.
  void require_awake(const char* function) const;
  /// From now on evict() may be called. Returns false if the tag has an evictable.
  [[nodiscard]] bool begin_evictions() noexcept {
    eviction expected = eviction::never;
    return eviction_.compare_exchange_strong(expected, eviction::possible);
  }
  /// `may_be`: no use is open. Pre: between begin_evictions() and end_evictions().
  void let_evict(bool may_be) noexcept {
    eviction_ = may_be ? eviction::possible : eviction::later;
  }
  void end_evictions() noexcept { eviction_ = eviction::never; }
  std::size_t prepare_suspend(keep what, const suspend_options& options);
  std::size_t suspend(keep what, const suspend_options& options);
  /// As suspend(), but waits for no work. Empty if a turn is under way. `is_unchanged`: copies on
  /// the host are valid, because nothing was written since. Pre: no work uses the memory.
  std::optional<std::size_t> evict(keep what, const suspend_options& options, bool is_unchanged);
  /// If memory is lacking, waits for work on evictable memory, until `evicts_until`.
  std::size_t resume(std::chrono::steady_clock::time_point evicts_until = {});
  /// Waits for work as suspend() with `stream` does, and calls `body` with all carriers. They stay
  /// awake, and nobody releases memory of theirs meanwhile. Throws: std::logic_error while the tag
  /// sleeps; as sleep_participant::prepare_to_sleep(), and as `body`.
  void read_awake(const char* function, const std::optional<stream_ref>& stream,
                  const std::function<void(const member_list&)>& body);
  /// Does nothing if the tag sleeps. Throws: hip_error.
  void wait_for_work();
  [[nodiscard]] bool restores_nothing() const noexcept { return restores_nothing_; }
  /// The most bytes that evict() could release; 0 while a turn is under way.
  [[nodiscard]] std::size_t bytes_to_evict(const suspend_options& options);
  /// Waits for the end of a turn. None begins while the result lives. Not recursive.
  [[nodiscard]] std::unique_lock<std::mutex> hold_still();

  [[nodiscard]] member_list::iterator join(sleep_participant& who);
  void leave(member_list::iterator at) noexcept;

 private:
  /// While one lives, other calls, and threads that make or end carriers, wait. Holds no lock.
  class turn;

  struct slow_copies {
    bool is_one_device = true;  // all contents are of one device
    parallel_copies zeros;
    file_copies files;
    copy_jobs jobs;  // last: they use the files
  };

  /// The body of suspend() and evict().
  std::size_t finish_suspend(turn& mine, const sleep_plan& plan, const suspend_options& options,
                             bool is_unchanged);
  /// Throws: std::invalid_argument if a range is not of one member.
  void require_members_have(const std::vector<suspend_range>& ranges) const;
  /// For all contents that resume() copies back or makes zero.
  template <class Found>
  static void each_content(member& one, const sleep_plan& plan,
                           const chunks_that_stay_mapped& staying, Found found);
  void choose_contents(const sleep_plan& plan);
  /// Returns the pinned bytes.
  std::size_t pin_host_memory(const sleep_plan& plan);
  /// Submits the copies. Waits for them only if runtime_rules::events_cover_copies is false.
  void save_contents(sleep_storage storage, bool is_unchanged, copy_jobs& jobs);
  void save_to_files(const std::string& folder, slow_copies& slow);
  /// Waits for all copies.
  void unmap_all(copy_jobs& jobs);
  /// Undoes unmap_all(). Throws: as sleep_participant::map_again(); then the tag sleeps, torn, and
  /// the error handler gets `cause`.
  void map_all_again(turn& mine, const std::exception_ptr& cause);
  /// Returns the bytes that wake. Throws: as map_all_again().
  std::size_t end_torn_sleep(turn& mine);
  /// Makes the memory unless a failed resume() has left it, and submits the copies.
  void wake(member& one, slow_copies& slow, memory_to_make& left);
  /// Waits for copies in jobs, and frees the host bytes that they have read.
  void free_copied(member& one, slow_copies& slow);
  std::size_t wake_all(turn& mine, std::chrono::steady_clock::time_point evicts_until = {});
  [[nodiscard]] std::unique_lock<std::mutex> lock_when_still();

  const std::string name_;
  const owner_process process_;
  std::mutex mutex_;
  std::condition_variable turn_ended_;
  bool is_turn_ = false;
  std::atomic<tag_phase> phase_{tag_phase::awake};
  enum class eviction { never, possible, later };
  std::atomic<eviction> eviction_{eviction::never};
  // Used in a turn; join() and leave() change the list between turns. The list, and the parts of a
  // member for statistics() and has(), change under the mutex.
  member_list members_;
  parallel_copies copies_;
  bool is_torn_ = false;          // asleep with all memory, of which suspend() left some unmapped
  bool is_half_resumed_ = false;  // asleep with all memory mapped, and some contents only there
  std::atomic<bool> restores_nothing_{false};  // of the last suspend() or evict()
  bool keeps_streams_ = false;                 // of copies_, until the next suspend()
};

/// Of an object whose tag is optional.
class tag_membership {
 public:
  tag_membership(const std::optional<memory_tag>& tag, sleep_participant& who)
      : state_{tag ? tag->state() : nullptr} {
    if (state_) at_ = state_->join(who);
  }
  ~tag_membership() { end(); }
  tag_membership& operator=(tag_membership&&) = delete;

  /// Waits for a turn under way. Frees saved contents.
  void end() noexcept {
    if (state_) state_->leave(at_);
    state_.reset();
  }
  [[nodiscard]] bool is_asleep() const noexcept { return state_ && state_->is_asleep(); }
  void require_awake(const char* function) const {
    if (state_) state_->require_awake(function);
  }
  /// As tag_state::hold_still(), for calls without require_awake().
  [[nodiscard]] std::unique_lock<std::mutex> hold_still() const {
    return state_ ? state_->hold_still() : std::unique_lock<std::mutex>{};
  }
  /// Pre: the object carries a tag.
  [[nodiscard]] std::string refusal(const char* function) const {
    return state_->refusal(function);
  }

 private:
  std::shared_ptr<tag_state> state_;
  tag_state::member_list::iterator at_;
};

}  // namespace hipvmm::detail
