// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace hipvmm::detail {

/// Number of this process: one more in a child of fork() than in its parent.
extern std::atomic<unsigned> process_number;

/// Throws: unsupported. A child of fork() used an object of its parent.
[[noreturn]] void refuse_in_child();

/// Part of an object: the process that made it. In a child of fork() HIP does not know the object's
/// resources, no thread of the library runs, and a lock may be held for ever: the object's
/// resources must stay as they are. Cost: two loads.
class process_mark {
 public:
  [[nodiscard]] bool is_of_parent() const noexcept {
    return process_number.load(std::memory_order_relaxed) != made_in_;
  }
  /// Throws: unsupported in a child of the process that made the object.
  void require_own() const {
    if (is_of_parent()) [[unlikely]]
      refuse_in_child();
  }

 private:
  unsigned made_in_ = process_number.load(std::memory_order_relaxed);
};

/// Has a T in its own bytes, which lives as long as the process: static objects of a program may
/// use the library while it exits. A static one is made at its first use. If noexcept functions use
/// it, that must allocate nothing, for the host may have no memory left: one whose constructor
/// allocates is made when the program starts, too.
template <typename T>
class never_destroyed {
 public:
  never_destroyed() noexcept(noexcept(T())) { ::new (static_cast<void*>(bytes_)) T(); }
  never_destroyed& operator=(never_destroyed&&) = delete;

  [[nodiscard]] T& get() noexcept { return *std::launder(reinterpret_cast<T*>(bytes_)); }

 private:
  alignas(T) std::byte bytes_[sizeof(T)];
};

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

}  // namespace hipvmm::detail
