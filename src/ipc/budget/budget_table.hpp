// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/ipc/budget/budget_options.hpp>
#include "ipc/budget/process_identity.hpp"

namespace hipvmm::detail {

// The file of a budget: a header and the records of the processes. It is only changed by atomic
// stores, each of which leaves it whole, so that a process may be killed between any two. No sum is
// stored: what all hold is the sum of the records of those that run.
inline constexpr std::uint64_t budget_magic = 0x7467646d6d767068;  // "hpvmmdgt"
inline constexpr std::uint32_t budget_version = 1;
inline constexpr std::size_t max_budget_name = 64;
inline constexpr std::size_t max_budget_processes = 128;
inline constexpr std::size_t budget_page_bytes = 4096;

struct budget_record {
  std::atomic<process_identity> owner;        ///< zero: the record is free, the rest means nothing
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
  std::uint64_t pid_namespace;  ///< in which process IDs mean something
  std::array<unsigned char, 16> device;
  std::array<char, max_budget_name> name;  ///< padded with zeros
  std::atomic<std::uint64_t> limit;        ///< in bytes
  std::atomic<std::uint32_t> is_fixed;     ///< not zero: set by set_limit(), for good
  std::atomic<std::uint32_t> requests;     ///< changes when holders are to look who waits
  std::atomic<std::uint32_t> changes;      ///< changes when a request may fit that did not
};

struct budget_layout {
  alignas(budget_page_bytes) budget_header header;
  alignas(budget_page_bytes) std::array<budget_record, max_budget_processes> records;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(budget_record) == 80 && sizeof(budget_layout) == 4 * budget_page_bytes);

/// What a process that looks at the table has to do with what others wait for.
struct budget_duty {
  std::uint64_t to_release = 0;  ///< bytes
  bool is_turn = true;           ///< whether all that are asked before it have answered
};

/// The records of a budget, and one of them that is this process's. All functions accept any
/// contents of the table.
class budget_table {
 public:
  /// Pre: `shared` stays mapped as long as this object lives.
  explicit budget_table(budget_layout& shared) noexcept : shared_{shared} {}

  /// Takes a record. Returns false where all are taken by processes that run.
  /// Pre: no other process joins meanwhile.
  [[nodiscard]] bool join(process_identity self, int priority, const char* program) noexcept;
  /// Frees it. Pre: join() returned true.
  void leave() noexcept;

  /// Sets what this process holds, whether or not it fits. Not beside claim().
  void set_held(std::uint64_t bytes) noexcept;
  /// What this process holds, whatever others have written into its record.
  [[nodiscard]] std::uint64_t own_held() const noexcept { return own_held_; }
  /// Adds `bytes` to what this process holds where that fits: then returns true. One call at a
  /// time. Gives way to others that claim at the same time, for a short time.
  [[nodiscard]] bool claim(std::uint64_t bytes) noexcept;
  /// This process waits for `bytes` bytes; zero ends that.
  void set_waiting(std::uint64_t bytes, std::chrono::steady_clock::time_point until) noexcept;
  /// Has all holders look who waits. Returns the number of the request.
  std::uint32_t request() noexcept;
  /// Whether all that are asked by this process have answered request `number`.
  [[nodiscard]] bool is_answered(std::uint32_t number) noexcept;

  /// What this process is to release for others, or because the limit was lowered.
  [[nodiscard]] budget_duty duty(std::uint32_t number) noexcept;
  void answer(std::uint32_t number) noexcept;

  /// How much more would fit, beside what all hold, others claim and those of a higher priority
  /// wait for.
  [[nodiscard]] std::uint64_t left() const noexcept;
  /// The most that could be left if all that this process may ask released all.
  [[nodiscard]] std::uint64_t most_left() const noexcept;
  [[nodiscard]] std::uint64_t held() const noexcept;
  [[nodiscard]] bool is_waiting() const noexcept;
  /// Frees the records of processes that do not run. Returns whether there were some.
  bool reap() noexcept;
  [[nodiscard]] std::vector<budget_holder> holders() const;

  [[nodiscard]] budget_header& header() noexcept { return shared_.header; }
  [[nodiscard]] const budget_header& header() const noexcept { return shared_.header; }

 private:
  struct sums {
    std::uint64_t held = 0;            // by all
    std::uint64_t firm = 0;            // by this process and those of a higher priority
    std::uint64_t reserved = 0;        // what others of a higher priority wait for
    std::uint64_t claimed_before = 0;  // by others with a record before this one's
    std::uint64_t claimed_behind = 0;
  };
  [[nodiscard]] sums add_up() const noexcept;
  [[nodiscard]] budget_record& own() const noexcept { return shared_.records[own_]; }

  budget_layout& shared_;
  std::size_t own_ = max_budget_processes;
  std::atomic<std::uint64_t> own_held_{0};
};

}  // namespace hipvmm::detail
