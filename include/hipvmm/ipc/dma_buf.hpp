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

/// Consecutive bytes of device memory as the driver of a network card takes them:
/// ibv_reg_dmabuf_mr(domain, offset, bytes, address, handle.get(), rights).
struct dma_buf {
  const void* address;      ///< of the first byte, in this process
  std::size_t bytes;        ///< at least 1
  std::size_t offset;       ///< of the first byte in the dma-buf
  shareable_handle handle;  ///< owns the descriptor; bytes() is the size of the whole dma-buf
};

/// Exports [offset, offset + bytes) of `memory`, of any alignment, as dma-bufs that hold exactly
/// these bytes one behind the other, by address.
/// - As few as can be: on NVIDIA one for all neighbouring chunks of a device, on AMD one for each
///   chunk.
/// - Each keeps its memory until it, and what was registered by it, is closed. It is of the chunks
///   of this moment: export anew for what grows, or takes their place.
/// - The receiver can reach what is in the same page of the host on NVIDIA, the whole chunk on AMD.
/// - Make the memory shareable (region_options::shareable): on AMD nothing else can be exported,
///   and on NVIDIA such chunks are made for network cards where the device says that it can.
/// Cost: a descriptor each, until the result ends. The first call for a device also that of
/// export_kind_of().
/// Throws: std::out_of_range; std::invalid_argument for no bytes, where not all of them are backed,
/// or as region::export_chunks(); unsupported where this machine has no dma-bufs of its memory,
/// such as the host provider, or NVIDIA's driver without its open kernel modules; out_of_memory
/// without descriptors; hip_error. Then nothing is exported.
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
/// How chunks, and ranges of addresses, are exported. Tests replace it.
struct dma_buf_source {
  export_kind kind;  ///< of a chunk's descriptor
  chunk_exporter export_since;
  std::function<shareable_handle(const void* address, std::size_t bytes, device_ref device)> range;
};
[[nodiscard]] std::vector<dma_buf> dma_bufs_of(const std::vector<chunk_view>& chunks,
                                               const void* start, std::size_t bytes,
                                               const dma_buf_source& from);
}  // namespace detail

/// The same for all elements of a vector.
template <typename T>
[[nodiscard]] std::vector<dma_buf> export_dma_bufs(growable_device_vector<T>& vector) {
  return detail::export_dma_bufs(
      vector.chunks(), vector.data(), vector.size() * sizeof(T),
      [&vector](std::uint64_t since) { return vector.export_chunks(since); });
}

}  // namespace hipvmm
