// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/export_kind.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm {

/// Consecutive bytes of device memory in the form of a network driver's call:
/// ibv_reg_dmabuf_mr(domain, offset, bytes, address, handle.get(), rights).
struct dma_buf {
  const void* address;      ///< of the first byte, in this process
  std::size_t bytes;        ///< at least 1
  std::size_t offset;       ///< of the first byte in the dma-buf
  shareable_handle handle;  ///< owns the descriptor; bytes() is the size of the whole dma-buf
};

/// Exports [offset, offset + bytes) of `memory`, of any alignment, as dma-bufs. Together they hold
/// exactly these bytes, ordered by address.
/// - NVIDIA: one dma-buf for all neighbouring chunks of a device. AMD: one for each chunk.
/// - A dma-buf keeps its memory until the descriptor and all its registrations are closed. It
///   covers the present chunks only: export again after growth or replacement.
/// - The receiver reaches the whole host page of each byte on NVIDIA, the whole chunk on AMD.
/// - Make the memory shareable (region_options::shareable): AMD exports nothing else, and NVIDIA
///   then creates chunks that network cards can use, if the device supports it.
/// Cost: one descriptor each. The first call for a device also pays for export_kind_of().
/// Throws (nothing is exported then): std::out_of_range; std::invalid_argument if `bytes` is 0 or
/// some bytes are not backed, or as region::export_chunks(); unsupported if the machine has no
/// dma-bufs of its memory (the host provider, NVIDIA's driver without its open kernel modules);
/// out_of_memory without descriptors; hip_error.
[[nodiscard]] std::vector<dma_buf> export_dma_bufs(region& memory, std::size_t offset,
                                                   std::size_t bytes);
/// The same for the block at `pointer`. Throws also: as mr::vmm_pool_resource::export_block().
[[nodiscard]] std::vector<dma_buf> export_dma_bufs(mr::vmm_pool_resource& pool,
                                                   const void* pointer);

namespace detail {
using chunk_exporter = std::function<std::vector<exported_chunk>(std::uint64_t since)>;
[[nodiscard]] std::vector<dma_buf> export_dma_bufs(const std::vector<chunk_view>& chunks,
                                                   const void* start, std::size_t bytes,
                                                   const chunk_exporter& export_since);
struct dma_buf_source {
  export_kind kind;
  chunk_exporter export_since;
  std::function<shareable_handle(const void* address, std::size_t bytes, device_ref device)> range;
};
[[nodiscard]] std::vector<dma_buf> dma_bufs_of(const std::vector<chunk_view>& chunks,
                                               const void* start, std::size_t bytes,
                                               const dma_buf_source& from);
}  // namespace detail

template <typename T>
[[nodiscard]] std::vector<dma_buf> export_dma_bufs(growable_device_vector<T>& vector) {
  return detail::export_dma_bufs(
      vector.chunks(), vector.data(), vector.size() * sizeof(T),
      [&vector](std::uint64_t since) { return vector.export_chunks(since); });
}

}  // namespace hipvmm
