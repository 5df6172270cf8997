// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <hipvmm/ipc/budget/budget_options.hpp>
#include "ipc/budget/process_identity.hpp"

namespace hipvmm::detail {

// A process may be killed between any two stores, so each store is atomic and leaves the file
// whole. No sum is stored: readers add up the records of running processes.
inline constexpr std::uint64_t budget_magic = 0x7467646d6d767068;  // "hpvmmdgt"
inline constexpr std::uint32_t budget_version = 2;
inline constexpr std::size_t max_budget_name = 64;
inline constexpr std::size_t max_budget_processes = 128;
inline constexpr std::size_t budget_page_bytes = 4096;

struct budget_record {
  /// Zero: the record is free. Highest bit: it was taken, and the rest is still the last owner's.
  std::atomic<process_identity> owner;
  std::atomic<std::uint64_t> held;            ///< bytes
  std::atomic<std::uint64_t> claimed;         ///< bytes that it tries to add to `held`
  std::atomic<std::uint64_t> waiting_for;     ///< bytes for which it asks others to trim
  std::atomic<std::uint64_t> waits_until_ms;  ///< by the steady clock; after it, waits for nothing
  std::atomic<std::int32_t> priority;
  std::atomic<std::uint32_t> answered;  ///< the budget_header::requests that it has dealt with
  std::array<std::atomic<char>, 32> program;
};

struct budget_header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t records;
  std::uint64_t pid_namespace;   ///< in which process IDs mean something
  std::uint64_t time_namespace;  ///< in which starts and deadlines do
  std::array<unsigned char, 16> device;
  std::array<char, max_budget_name> name;  ///< padded with zeros
  std::atomic<std::uint64_t> limit;        ///< in bytes
  std::atomic<std::uint32_t> is_fixed;     ///< not zero: set by set_limit(), for good
  std::atomic<std::uint32_t> requests;     ///< changes if holders must check for waiting requests
  std::atomic<std::uint32_t> changes;      ///< changes if a request may fit that did not before
};

struct budget_layout {
  alignas(budget_page_bytes) budget_header header;
  alignas(budget_page_bytes) std::array<budget_record, max_budget_processes> records;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(budget_record) == 80 && sizeof(budget_layout) == 4 * budget_page_bytes);

struct trim_request {
  std::uint64_t to_release = 0;  ///< bytes
  bool is_turn = true;           ///< all processes asked before it have answered
};

/// Accepts any contents. If another process has freed this one's record, no function writes to it:
/// this process takes another, which counts all of its bytes.
class budget_table {
 public:
  explicit budget_table(budget_layout& shared) noexcept : shared_{shared} {}

  /// Returns false if running processes have all records. Pre: `program` outlives this object.
  [[nodiscard]] bool join(process_identity self, int priority, const char* program) noexcept;
  void leave() noexcept;  ///< pre: join() returned true
  /// Takes another record if this process has lost its own. Returns false if all are taken.
  bool keep_record() noexcept;

  /// Sets the bytes of this process, even beyond the limit. Not concurrently with claim().
  void set_held(std::uint64_t bytes) noexcept;
  [[nodiscard]] std::uint64_t own_held() const noexcept { return own_held_; }
  /// Adds `bytes` if they fit. One call at a time; yields for a short time to claims of other
  /// processes.
  [[nodiscard]] bool claim(std::uint64_t bytes) noexcept;
  /// This process waits for `bytes` bytes; zero ends that.
  void set_waiting(std::uint64_t bytes, std::chrono::steady_clock::time_point until) noexcept;
  /// Has all holders check for waiting requests. Returns the number of the request.
  std::uint32_t request() noexcept;
  [[nodiscard]] bool is_answered(std::uint32_t number) noexcept;

  /// The bytes that this process must release for others, or because the limit was lowered.
  [[nodiscard]] trim_request duty(std::uint32_t number) noexcept;
  void answer(std::uint32_t number) noexcept;

  /// The bytes that fit beside all holders, claims of others, and waiting requests of a higher
  /// priority.
  [[nodiscard]] std::uint64_t left() const noexcept;
  /// left() if all processes that this one may ask released all.
  [[nodiscard]] std::uint64_t most_left() const noexcept;
  [[nodiscard]] std::uint64_t held() const noexcept;
  [[nodiscard]] bool is_waiting() const noexcept;
  bool reap() noexcept;  ///< frees the records of dead processes; returns whether there were some
  [[nodiscard]] std::vector<budget_holder> holders() const;

  [[nodiscard]] budget_header& header() noexcept { return shared_.header; }
  [[nodiscard]] const budget_header& header() const noexcept { return shared_.header; }

 private:
  using all_held = std::array<std::pair<process_identity, std::uint64_t>, max_budget_processes>;
  [[nodiscard]] all_held held_at_once() const noexcept;
  struct sums {
    std::uint64_t held = 0;            // by all
    std::uint64_t firm = 0;            // by this process and those of a higher priority
    std::uint64_t reserved = 0;        // waiting requests of other processes of a higher priority
    std::uint64_t claimed_before = 0;  // by others with a record before this one's
    std::uint64_t claimed_behind = 0;
  };
  [[nodiscard]] sums add_up() const noexcept;
  // Both with own_mutex_ locked.
  [[nodiscard]] bool take_record() noexcept;
  /// Takes another record if this process has lost its own; null if none is free.
  [[nodiscard]] budget_record* own_record() noexcept;

  budget_layout& shared_;
  process_identity self_ = 0;  // zero: does not take part
  int priority_ = 0;
  const char* program_ = "";
  std::mutex own_mutex_;  // one thread writes to the record, or takes another
  std::atomic<std::size_t> own_ = max_budget_processes;
  std::atomic<std::uint64_t> own_held_{0};
};

}  // namespace hipvmm::detail
