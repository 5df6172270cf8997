// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/device.hpp>
#include "region/sleep/host_bytes.hpp"

namespace hipvmm::detail {

/// Memory of one chunk that sleeps and wakes.
struct sleeping_range {
  void* address;
  std::size_t bytes;
  device_ref device;  // whose engine copies it
};

/// What carries a tag, as its suspend() and resume() see it. Each of them calls the same step of
/// all before the next step of any.
class sleeper {
 public:
  sleeper() = default;
  virtual ~sleeper() = default;
  sleeper(const sleeper&) = delete;
  sleeper& operator=(const sleeper&) = delete;

  /// Checks that all of it can sleep. Throws: as suspend().
  virtual void prepare_to_sleep(keep what) = 0;
  /// Waits for all work that may use it.
  virtual void wait_for_work() = 0;
  /// What it has, from prepare_to_sleep() until finish_waking().
  [[nodiscard]] virtual std::vector<sleeping_range> ranges() const = 0;
  /// Unmaps all, and holds it. Throws: hip_error; then all is mapped.
  virtual void unmap_to_sleep() = 0;
  /// Undoes unmap_to_sleep().
  virtual void map_again() noexcept = 0;
  /// Releases what is unmapped.
  virtual void fall_asleep() noexcept = 0;

  /// Reserves what fall_asleep() lost of the addresses. Throws: out_of_memory, which names them.
  virtual void take_addresses_back() = 0;
  /// Makes the memory again, and maps it. Throws: as resume(); then it sleeps.
  virtual void begin_to_wake() = 0;
  /// Undoes begin_to_wake(); copies to the memory may be under way.
  virtual void sleep_on() noexcept = 0;
  virtual void finish_waking() noexcept = 0;
};

/// What the copies of one memory_tag share.
class tag_state {
 public:
  struct member {
    sleeper* who;
    host_bytes saved = {};
  };
  using member_list = std::list<member>;

  explicit tag_state(std::string name) : name_{std::move(name)} {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool is_asleep() const noexcept { return asleep_.load(std::memory_order_acquire); }
  [[nodiscard]] tag_statistics statistics();
  /// Throws: std::logic_error while it sleeps.
  void require_awake(const char* function) const;
  std::size_t suspend(keep what, const suspend_options& options);
  std::size_t resume();

  [[nodiscard]] member_list::iterator join(sleeper& who);
  void leave(member_list::iterator at) noexcept;

 private:
  void save_contents(sleep_storage storage);

  const std::string name_;
  // HIP is called under it, which makes only those wait who make or end what carries the tag.
  std::mutex mutex_;
  std::atomic<bool> asleep_{false};
  member_list members_;
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

 private:
  std::shared_ptr<tag_state> state_;
  tag_state::member_list::iterator at_;
};

}  // namespace hipvmm::detail
