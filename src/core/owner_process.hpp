// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

#include <hipvmm/core/owner_process.hpp>  // IWYU pragma: export

namespace hipvmm::detail {

/// Never destroyed, because a program's static objects may use the library at exit. If noexcept
/// functions use a static one first, T() must not allocate, or the program's start must make it.
template <typename T>
class never_destroyed {
 public:
  never_destroyed() noexcept(noexcept(T())) { ::new (static_cast<void*>(bytes_)) T(); }
  never_destroyed& operator=(never_destroyed&&) = delete;

  [[nodiscard]] T& get() noexcept { return *std::launder(reinterpret_cast<T*>(bytes_)); }

 private:
  alignas(T) std::byte bytes_[sizeof(T)];
};

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
