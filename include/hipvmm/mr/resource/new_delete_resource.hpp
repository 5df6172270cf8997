// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::mr {

/// Allocates host memory by operator new, for the host alone: HIP may copy to and from it, kernels
/// may not use it. Needs no device. All are equal, and equal to a system_resource.
/// Cost: deallocate() waits for its stream, because copies and host functions there may still use
/// the memory. deallocate_sync() waits for the devices that reach all host memory, if there are
/// any; copies and host functions must have finished. Failures: if a wait for a device fails, or
/// the stream is captured, the memory stays allocated and the error handler gets a report.
class new_delete_resource : public memory_resource {
 private:
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept final;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) final;
  void do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) noexcept final;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept final;
  [[nodiscard]] bool do_is_device_accessible() const noexcept override { return false; }
  [[nodiscard]] bool do_is_host_accessible() const noexcept final { return true; }
};

}  // namespace hipvmm::mr
