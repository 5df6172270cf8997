// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/owner_process.hpp>

namespace hipvmm::detail {

/// hipHostMalloc and hipHostFree. Throws: out_of_memory, hip_error; free_pinned() reports.
[[nodiscard]] void* allocate_pinned(std::size_t bytes, unsigned flags);
void free_pinned(void* pointer) noexcept;

/// Owns memory of the host that every device may copy from and to. Pre of destruction: unused.
/// - From `least_registered` bytes on, threads touch pages of the system and hipHostRegister pins
///   them, in a fraction of hipHostMalloc's time.
/// - hipHostMalloc allocates smaller ones, those that HIP refuses to register, and those above an
///   eighth of the free memory, because touching pages might end the process.
class pinned_memory {
 public:
  static constexpr std::size_t least_registered = 8 * MiB;

  pinned_memory() noexcept = default;
  /// Throws: as allocate_pinned().
  explicit pinned_memory(std::size_t bytes);
  pinned_memory(pinned_memory&& other) noexcept
      : pointer_{std::exchange(other.pointer_, nullptr)},
        registered_{std::exchange(other.registered_, 0)},
        process_{other.process_} {}
  pinned_memory& operator=(pinned_memory&& other) noexcept {
    pinned_memory moved{std::move(other)};
    std::swap(pointer_, moved.pointer_);
    std::swap(registered_, moved.registered_);
    std::swap(process_, moved.process_);
    return *this;
  }
  ~pinned_memory();

  [[nodiscard]] void* get() const noexcept { return pointer_; }
  /// Never frees the memory.
  void abandon() noexcept { pointer_ = nullptr; }

 private:
  void* pointer_ = nullptr;
  std::size_t registered_ = 0;  // 0: from hipHostMalloc
  owner_process process_;
};

}  // namespace hipvmm::detail
