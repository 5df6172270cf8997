// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {

/// Allocates `bytes` bytes at a multiple of 256 for work submitted to `stream` after the call.
/// Returns nullptr when no memory is available. May throw.
using allocate_callback_t = std::function<void*(std::size_t bytes, stream_ref stream, void* args)>;
/// Deallocates such memory, after all work submitted to `stream` so far. Must not throw.
using deallocate_callback_t =
    std::function<void(void* pointer, std::size_t bytes, stream_ref stream, void* args)>;

/// Deallocates memory that work of any stream may still use, as safely as hipFree: the memory is
/// not reused before all work submitted to devices so far is done. Must not throw.
using deallocate_sync_callback_t =
    std::function<void(void* pointer, std::size_t bytes, void* args)>;

/// The threads that use the resource call the callbacks without a lock, perhaps concurrently.
/// - allocate_sync() calls `allocate` with the resource's own stream, and waits for it.
/// - deallocate_sync() calls `deallocate_sync` and does not wait itself. Without such a callback it
///   waits for all devices, then calls `deallocate` with the own stream. If a wait fails, it calls
///   nothing and the error handler gets a report.
class callback_resource final : public memory_resource {
 public:
  /// The own stream belongs to the current device. `deallocate_sync` gets `deallocate_args`.
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
  stream sync_stream_;
};

}  // namespace hipvmm::mr
