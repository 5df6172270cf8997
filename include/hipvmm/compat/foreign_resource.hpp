// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {

enum class foreign_reach {
  device,           ///< kernels of the resource's device
  host_and_device,  ///< host code as well, as pinned or managed memory
  host,
};

/// Base of resources whose memory is another library's. A derived class overrides the two functions
/// that call that library; this class keeps the rules of memory_resource.
/// - Each call is made with the resource's device current, if it has one.
/// - An address that is nullptr or not aligned as requested is an error, never returned.
/// - allocate_sync() allocates in the null stream and waits for that stream.
/// - deallocate_sync() waits for all devices, then deallocates in the null stream. If the wait
///   fails, the memory stays allocated, and the error handler gets a report.
class foreign_resource : public memory_resource {
 public:
  foreign_resource& operator=(foreign_resource&&) = delete;

 protected:
  /// `name` begins the messages, a string with static storage. `device` owns the memory; nullopt if
  /// no single device does.
  foreign_resource(const char* name, foreign_reach reach, std::optional<device_ref> device) noexcept
      : name_{name}, reach_{reach}, device_{device} {}

 private:
  /// Allocates as do_allocate(). May return nullptr, which becomes out_of_memory.
  [[nodiscard]] virtual void* foreign_allocate(stream_ref stream, std::size_t bytes,
                                               std::size_t alignment) = 0;
  /// Deallocates as do_deallocate(). Exceptions are reported to the error handler.
  virtual void foreign_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                  std::size_t alignment) = 0;

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) final;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept final;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) final;
  void do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) noexcept final;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept final { return device_; }
  [[nodiscard]] bool do_is_device_accessible() const noexcept final {
    return reach_ != foreign_reach::host;
  }
  [[nodiscard]] bool do_is_host_accessible() const noexcept final {
    return reach_ != foreign_reach::device;
  }

  const char* name_;
  foreign_reach reach_;
  std::optional<device_ref> device_;
};

}  // namespace hipvmm::mr
