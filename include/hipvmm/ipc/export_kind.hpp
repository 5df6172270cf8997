// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm {

enum class export_kind {
  dma_buf,      ///< also imported by other drivers, such as network cards' (ibv_reg_dmabuf_mr)
  memory_file,  ///< memory of the host: the host provider's
  driver_file,  ///< a file of NVIDIA's driver, which no other driver understands
  unknown,      ///< the system does not report it, for example without /proc
};

/// Returns the kind of the descriptor of `handle`, by its name in /proc/self/fd.
/// Throws: std::invalid_argument if it is empty, or its descriptor is not open.
[[nodiscard]] export_kind kind_of(const shareable_handle& handle);

/// Returns the kind of chunks of `device` made with handle_type::posix_fd. The first call for a
/// device in this process exports and releases a chunk of one granule; after a failure the next
/// call tries again. Throws: std::invalid_argument if there is no such device; unsupported without
/// usable virtual memory; out_of_memory; hip_error if chunks cannot be exported.
[[nodiscard]] export_kind export_kind_of(device_ref device);

/// Returns whether chunks of `device` can be made with handle_type::fabric and exported. It tries
/// that with a chunk of one granule, because the device's attribute is not sufficient: NVIDIA's
/// driver also needs an IMEX channel that the user may open.
/// Throws: std::invalid_argument if there is no such device; out_of_memory.
[[nodiscard]] bool exports_fabric(device_ref device);

}  // namespace hipvmm
