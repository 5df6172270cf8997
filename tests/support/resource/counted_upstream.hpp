// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <limits>
#include <new>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include "support/thrown.hpp"

namespace hipvmm::test {

/// hipMalloc by way of callbacks, which tell how much is out and may be told to refuse.
class counted_upstream {
 public:
  /// More than `limit` bytes are std::bad_alloc.
  explicit counted_upstream(std::size_t limit = std::numeric_limits<std::size_t>::max())
      : limit_{limit} {}

  [[nodiscard]] mr::memory_resource* get() noexcept { return &resource_; }
  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  [[nodiscard]] std::size_t calls() const noexcept { return calls_; }
  /// Called in each allocation, before the memory is there.
  std::function<void()> meanwhile = [] {};

 private:
  void* take(std::size_t bytes) {
    ++calls_;
    meanwhile();
    if (held_.fetch_add(bytes) + bytes > limit_) {
      held_ -= bytes;
      throw std::bad_alloc{};
    }
    return below_.allocate_sync(bytes);
  }
  void give(void* pointer, std::size_t bytes) noexcept {
    below_.deallocate_sync(pointer, bytes);
    held_ -= bytes;
  }

  std::size_t limit_;
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> calls_{0};
  mr::hip_resource below_{device_ref{0}};
  mr::callback_resource resource_{
      [this](std::size_t bytes, stream_ref, void*) { return take(bytes); },
      [this](void* pointer, std::size_t bytes, stream_ref, void*) { give(pointer, bytes); }};
};

/// The message of `resource` if it refuses so many bytes; empty if it does not.
inline std::string refusal(mr::memory_resource& resource, std::size_t bytes) {
  return text_thrown_by<out_of_memory>(
      [&] { resource.deallocate_sync(resource.allocate_sync(bytes), bytes); });
}

}  // namespace hipvmm::test
