// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/mr/adaptor/guard_options.hpp>
#include <hipvmm/runtime/event.hpp>
#include "core/check.hpp"

namespace hipvmm::mr {

using call_addresses = std::vector<const void*>;

/// An allocated block of a guard_resource_adaptor.
struct guarded_block {
  std::size_t bytes;
  std::size_t alignment;
  call_addresses allocated_by;
  bool is_guarded = true;  // false: allocated in a captured stream, with no canaries
};

/// One that was freed and is not yet compared, or is in quarantine.
struct freed_block {
  unsigned char* pointer;
  guarded_block block;
  call_addresses freed_by;
  std::optional<event> copied{};      // nothing to wait for without it
  unsigned char* canaries = nullptr;  // copies of both; nullptr when they were compared
  bool is_kept = false;               // in quarantine
  std::uint64_t number = 0;           // counts deallocations
  bool is_damaged = false;
};

/// "1000 bytes at 0x7f12c0000000".
[[nodiscard]] std::string text_of(const freed_block& one);
/// The calls of a stack as lines below "`what` by:"; empty for an empty stack.
[[nodiscard]] std::string calls_text(const char* what, const call_addresses& calls);
/// Both stacks of a block.
[[nodiscard]] std::string calls_of(const freed_block& one);

/// The damage that a guard_resource_adaptor has yet to report. Thread-safe.
class guard_findings {
 public:
  /// Compares the `count` bytes before and behind the block, whose copies follow each other.
  void compare_canaries(freed_block& one, const unsigned char* copies, std::size_t count) noexcept;
  /// Compares bytes of a freed block from offset `at` on. Returns whether they are unchanged.
  bool compare_freed(freed_block& one, std::size_t at, const unsigned char* bytes,
                     std::size_t count) noexcept;
  /// Adds the result of `sentence`.
  template <typename Sentence>
  void add(Sentence sentence) noexcept {
    detail::report_exceptions([&] {
      std::string text = sentence();
      const std::lock_guard lock{mutex_};
      reports_.push_back(std::move(text));
    });
  }
  /// Reports all so far to the error handler, or throws it as one std::logic_error. Pre: no lock is
  /// held, which an error handler could need.
  void deliver(guard_damage how);
  [[nodiscard]] std::uint64_t damages() const noexcept;

 private:
  void add_damage(freed_block& one, const std::string& what, unsigned char found,
                  unsigned char expected) noexcept;

  mutable std::mutex mutex_;
  std::vector<std::string> reports_;
  std::uint64_t damages_ = 0;
};

}  // namespace hipvmm::mr
