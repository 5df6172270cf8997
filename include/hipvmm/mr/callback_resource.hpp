// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>

#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::mr {

/// Gives so many bytes, at a multiple of 256, that work submitted to `stream` from then on may use;
/// nullptr when there are none. May throw.
using allocate_callback_t = std::function<void*(std::size_t bytes, stream_ref stream, void* args)>;
/// Takes back what the other gave, behind all that `stream` was given until then. Must not throw.
using deallocate_callback_t =
    std::function<void(void* pointer, std::size_t bytes, stream_ref stream, void* args)>;

/// Takes back memory that work of any stream may still use: as safe as hipFree, it lets nobody have
/// the memory before all work that devices have been given so far is over. Must not throw.
using deallocate_sync_callback_t =
    std::function<void(void* pointer, std::size_t bytes, void* args)>;

/// Memory from functions of the program, such as those of a foreign allocator. They are called
/// without a lock in whichever threads use the resource, at the same time too, and with `args`.
/// Without a stream:
/// - allocate_sync() calls `allocate` with a stream of the resource's own, and waits for that;
/// - deallocate_sync() calls `deallocate_sync` and does not wait itself;
/// - where there is none it waits for all devices, then calls `deallocate` with that stream. Where
///   a device cannot be waited for, it calls nothing and the error handler is told.
class callback_resource final : public memory_resource {
 public:
  /// The own stream is one of the current device; `deallocate_sync` gets `deallocate_args`.
  /// Throws: std::invalid_argument when one of the first two functions is empty; hip_error.
  callback_resource(allocate_callback_t allocate, deallocate_callback_t deallocate,
                    void* allocate_args = nullptr, void* deallocate_args = nullptr,
                    deallocate_sync_callback_t deallocate_sync = {});

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  allocate_callback_t allocate_;
  deallocate_callback_t deallocate_;
  deallocate_sync_callback_t deallocate_sync_;
  void* allocate_args_;
  void* deallocate_args_;
  stream sync_stream_;  // of allocate_sync() and deallocate_sync()
};

}  // namespace hipvmm::mr
