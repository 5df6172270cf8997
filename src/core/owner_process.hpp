// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

#include <hipvmm/core/owner_process.hpp>  // IWYU pragma: export

namespace hipvmm::detail {

/// A T that is never destroyed: static objects of a program may use the library while it exits. A
/// static one is made at its first use. If noexcept functions use it first, its constructor must
/// not allocate, because the host may have no memory left, or the program's start makes it.
template <typename T>
class never_destroyed {
 public:
  never_destroyed() noexcept(noexcept(T())) { ::new (static_cast<void*>(bytes_)) T(); }
  never_destroyed& operator=(never_destroyed&&) = delete;

  [[nodiscard]] T& get() noexcept { return *std::launder(reinterpret_cast<T*>(bytes_)); }

 private:
  alignas(T) std::byte bytes_[sizeof(T)];
};

/// The one T of the process.
template <typename T>
[[nodiscard]] T& only() noexcept(noexcept(T())) {
  static never_destroyed<T> made;
  return made.get();
}

/// Marks its thread while it lives. Each `Kind` is a mark of its own; marks of one kind may nest.
template <typename Kind>
class thread_mark {
 public:
  thread_mark() noexcept : before_{std::exchange(marked, true)} {}
  ~thread_mark() { marked = before_; }
  thread_mark& operator=(thread_mark&&) = delete;
  [[nodiscard]] static bool is_set() noexcept { return marked; }

 private:
  static inline thread_local constinit bool marked = false;
  const bool before_;
};

class counted_scope {
 public:
  explicit counted_scope(std::atomic<int>& number) noexcept : number_{number} { ++number_; }
  ~counted_scope() { --number_; }
  counted_scope& operator=(counted_scope&&) = delete;

 private:
  std::atomic<int>& number_;
};

}  // namespace hipvmm::detail
