// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "core/owner_process.hpp"

namespace hipvmm::c {

/// The type of the object behind a handle.
enum class handle_kind : std::uint8_t {
  buffer = 1,
  resource,
  stream,
  publication,
  attachment,
  slot_arena,
  budget,
  event,
  pressure,
  evictable,
  checkpoint,
};

/// The kind in messages, such as "a buffer".
[[nodiscard]] const char* name_of(handle_kind kind) noexcept;

/// A handle that is null, was destroyed, is of another kind, or was never one.
class invalid_handle : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The objects behind the handles of the C interface. A handle is a value of this table, never an
/// address: a tag that no address of a program has (bits 56 to 63), the generation of its slot (24
/// to 55), and the slot (0 to 23). No object is used before all three were found right.
/// - find() shares ownership: an object that is destroyed by another thread meanwhile ends when the
///   last call for it does.
/// - A slot is used again with another generation, and not at all once these are used up.
/// - fork() waits for calls under way in the table of the process: a child can take() handles of
///   its parent, and use its own.
class handle_table {
 public:
  /// The table of the process. Never destroyed, because a program's destructors may still use
  /// handles.
  [[nodiscard]] static handle_table& shared();

  /// Adds an object and returns its handle. Throws: std::bad_alloc; std::length_error.
  [[nodiscard]] void* insert(handle_kind kind, std::shared_ptr<void> object);
  /// Returns the object. Throws: invalid_handle; unsupported in a child of fork() of the process
  /// that made it.
  [[nodiscard]] std::shared_ptr<void> find(handle_kind kind, const void* handle) const;
  /// The same, and the handle is stale from then on. Throws: invalid_handle.
  [[nodiscard]] std::shared_ptr<void> take(handle_kind kind, const void* handle);
  /// Returns whether a value has the tag of handles. Any kind, and stale ones.
  [[nodiscard]] static bool has_tag(const void* value) noexcept;
  /// Handles that were not taken.
  [[nodiscard]] std::size_t size() const;

 private:
  static void register_fork_handlers() noexcept;

  struct slot {
    std::shared_ptr<void> object;  // null: free
    std::uint32_t generation = 1;
    handle_kind kind{};
    detail::owner_process process;  // that made the object
    std::uint32_t next_free = 0;
  };

  [[nodiscard]] std::size_t require(handle_kind kind, const void* handle) const;

  // Not a shared one, which would wait in a child of fork() for waiting threads of the parent.
  mutable std::mutex mutex_;
  std::vector<slot> slots_;
  std::size_t live_ = 0;
  std::uint32_t first_free_ = no_slot;

  static constexpr std::uint32_t no_slot = 0xff'ffff;
};

}  // namespace hipvmm::c
