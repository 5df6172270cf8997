// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <hipvmm/mr/resource/hip_resource.hpp>

namespace hipvmm::test {

/// Memory of hipMalloc, and how it was asked for. One thread at a time.
class watched_resource final : public mr::memory_resource {
 public:
  struct call {
    ihipStream_t* stream;  // null for those of no stream, too
    device_ref current;    // the thread's device during the call
    std::size_t bytes;
  };

  /// `told` is the answer of device(); nullopt means memory of no device in particular.
  explicit watched_resource(device_ref device, std::optional<device_ref> told)
      : memory_{device}, told_{told} {}
  explicit watched_resource(device_ref device) : watched_resource{device, device} {}

  std::vector<call> allocations;
  std::vector<call> deallocations;

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override {
    void* const pointer = memory_.allocate(stream, bytes, alignment);
    allocations.push_back({stream.get(), device_ref::current(), bytes});
    return pointer;
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override {
    deallocations.push_back({stream.get(), device_ref::current(), bytes});
    memory_.deallocate(stream, pointer, bytes, alignment);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override {
    void* const pointer = memory_.allocate_sync(bytes, alignment);
    allocations.push_back({nullptr, device_ref::current(), bytes});
    return pointer;
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override {
    deallocations.push_back({nullptr, device_ref::current(), bytes});
    memory_.deallocate_sync(pointer, bytes, alignment);
  }
  std::optional<device_ref> do_device() const noexcept override { return told_; }

  mr::hip_resource memory_;
  std::optional<device_ref> told_;
};

}  // namespace hipvmm::test
