// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::test {

/// Gives another's memory and says of it that the host can use it, and whose it is.
class pretending_resource final : public mr::memory_resource {
 public:
  pretending_resource(mr::memory_resource* upstream, std::optional<device_ref> owner)
      : upstream_{upstream}, owner_{owner} {}

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override {
    return upstream_->allocate(stream, bytes, alignment);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override {
    upstream_->deallocate(stream, pointer, bytes, alignment);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override {
    return upstream_->allocate_sync(bytes, alignment);
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override {
    upstream_->deallocate_sync(pointer, bytes, alignment);
  }
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override { return owner_; }
  [[nodiscard]] bool do_is_host_accessible() const noexcept override { return true; }

  mr::memory_resource* upstream_;
  std::optional<device_ref> owner_;
};

}  // namespace hipvmm::test
