// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>

namespace hipvmm::detail {

/// Calls hipHostMalloc with its flags, and hipHostFree, whose failure is reported.
/// Throws: out_of_memory, hip_error.
[[nodiscard]] void* allocate_pinned(std::size_t bytes, unsigned flags);
void free_pinned(void* pointer) noexcept;

/// Owns memory of the host that every device may copy from and to.
/// Pre of destruction: no work uses it.
class pinned_memory {
 public:
  pinned_memory() noexcept = default;
  /// Throws: as allocate_pinned().
  explicit pinned_memory(std::size_t bytes);
  pinned_memory(pinned_memory&& other) noexcept : pointer_{other.release()} {}
  pinned_memory& operator=(pinned_memory&& other) noexcept {
    pinned_memory moved{std::move(other)};
    std::swap(pointer_, moved.pointer_);
    return *this;
  }
  ~pinned_memory() {
    if (pointer_ != nullptr) free_pinned(pointer_);
  }

  [[nodiscard]] void* get() const noexcept { return pointer_; }
  [[nodiscard]] void* release() noexcept { return std::exchange(pointer_, nullptr); }

 private:
  void* pointer_ = nullptr;
};

}  // namespace hipvmm::detail
