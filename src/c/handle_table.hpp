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

[[nodiscard]] const char* name_of(handle_kind kind) noexcept;

class invalid_handle : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The objects behind the handles of the C interface. A handle is a value of this table, never an
/// address: a tag that no address of a program has (bits 56 to 63), the generation of its slot (24
/// to 55), and the slot (0 to 23). All three are checked before an object is used.
/// - find() shares ownership: an object destroyed meanwhile ends with the last call for it.
/// - A slot is used again with another generation, and no more once its generations are used up.
/// - fork() waits for calls under way in the table of the process: a child can take() handles of
///   its parent, and use its own.
class handle_table {
 public:
  /// Never destroyed, because a program's destructors may still use handles.
  [[nodiscard]] static handle_table& shared();

  /// Throws: std::bad_alloc; std::length_error.
  [[nodiscard]] void* insert(handle_kind kind, std::shared_ptr<void> object);
  /// Throws: invalid_handle; unsupported if the process has the object from its parent by fork().
  [[nodiscard]] std::shared_ptr<void> find(handle_kind kind, const void* handle) const;
  /// Removes the object: the handle is stale from then on. Throws: invalid_handle.
  [[nodiscard]] std::shared_ptr<void> take(handle_kind kind, const void* handle);
  /// True also for a stale handle.
  [[nodiscard]] static bool has_tag(const void* value) noexcept;
  [[nodiscard]] std::size_t size() const;

 private:
  static void register_fork_handlers() noexcept;

  struct slot {
    std::shared_ptr<void> object;  // null if the slot is free
    std::uint32_t generation = 1;
    handle_kind kind{};
    detail::owner_process process;
    std::uint32_t next_free = 0;
  };

  [[nodiscard]] std::size_t require(handle_kind kind, const void* handle) const;

  // Not a shared_mutex: a child of fork() would wait for readers that waited in the parent.
  mutable std::mutex mutex_;
  std::vector<slot> slots_;
  std::size_t live_ = 0;
  std::uint32_t first_free_ = no_slot;

  static constexpr std::uint32_t no_slot = 0xff'ffff;
};

}  // namespace hipvmm::c
