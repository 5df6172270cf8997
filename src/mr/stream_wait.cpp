// SPDX-License-Identifier: MIT
#include "mr/stream_wait.hpp"

#include <optional>

#include <hipvmm/core/device.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/device_wait.hpp"

namespace hipvmm::detail {

bool wait_for_work(stream_ref stream) {
  std::optional<bool> waited;
  report_exceptions([&] {
    const bool captured = is_captured(stream);
    if (!captured) stream.synchronize();
    waited = !captured;
  });
  if (waited) return *waited;
  // The stream may be gone, or its work has failed.
  const relaxed_captures relaxed;
  for (int device = 0; device < device_count(); ++device) wait_for_device(device_ref{device});
  return true;
}

void* allocate_and_wait(mr::memory_resource& resource, stream_ref own, std::size_t bytes,
                        std::size_t alignment) {
  void* const pointer = resource.allocate(own, bytes, alignment);
  try {
    own.synchronize();
  } catch (...) {
    resource.deallocate(own, pointer, bytes, alignment);
    throw;
  }
  return pointer;
}

}  // namespace hipvmm::detail
