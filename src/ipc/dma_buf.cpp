// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/dma_buf.hpp>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "vmm/shareable_handle.hpp"

namespace hipvmm {
namespace detail {
namespace {

const char* at(const void* address) noexcept { return static_cast<const char*>(address); }

/// Throws: std::invalid_argument if some bytes are not backed.
std::vector<chunk_view> chunks_of(const std::vector<chunk_view>& all, const void* start,
                                  std::size_t bytes) {
  std::vector<chunk_view> result;
  const char* next = at(start);
  std::size_t left = bytes;
  for (const chunk_view& each : all) {
    if (left == 0 || at(each.address) > next) break;
    if (at(each.address) + each.bytes <= next) continue;
    result.push_back(each);
    const auto part = static_cast<std::size_t>(at(each.address) + each.bytes - next);
    next += std::min(left, part);
    left -= std::min(left, part);
  }
  if (bytes != 0 && left == 0) return result;
  throw std::invalid_argument{"export_dma_bufs: of the " + std::to_string(bytes) + " bytes at " +
                              address_text(start) + " only " + std::to_string(next - at(start)) +
                              " are backed by chunks: commit them, and name at least one byte"};
}

dma_buf part_of(const void* start, std::size_t bytes, const char* first, const char* end,
                std::size_t offset, shareable_handle handle) {
  const char* const from = std::max(first, at(start));
  const char* const to = std::min(end, at(start) + bytes);
  return {from, static_cast<std::size_t>(to - from),
          offset + static_cast<std::size_t>(from - first), std::move(handle)};
}

std::vector<dma_buf> whole_chunks(const std::vector<chunk_view>& chunks, const void* start,
                                  std::size_t bytes, const dma_buf_source& from) {
  const std::uint64_t oldest = std::ranges::min(chunks, {}, &chunk_view::serial).serial;
  std::map<std::uint64_t, shareable_handle> exported;
  for (exported_chunk& each : from.export_since(oldest - 1))
    exported.emplace(each.serial, std::move(each.handle));
  std::vector<dma_buf> result;
  for (const chunk_view& each : chunks)
    result.push_back(part_of(start, bytes, at(each.address), at(each.address) + each.bytes, 0,
                             std::move(exported.at(each.serial))));
  return result;
}

dma_buf range_of(const std::vector<chunk_view>& chunks, std::size_t first, std::size_t last,
                 const void* start, std::size_t bytes, const dma_buf_source& from) {
  const char* const low = at(chunks[first].address);
  const char* const high = at(chunks[last - 1].address) + chunks[last - 1].bytes;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Chunks are whole pages, and begin at one.
  dma_buf result = part_of(start, bytes, low, high, 0, {});
  const std::size_t before = result.offset % page;
  const std::size_t pages = (before + result.bytes + page - 1) / page;
  result.handle = from.range(at(result.address) - before, pages * page, chunks[first].device);
  result.offset = before;
  return result;
}

std::vector<dma_buf> ranges(const std::vector<chunk_view>& chunks, const void* start,
                            std::size_t bytes, const dma_buf_source& from) {
  std::vector<dma_buf> result;
  for (std::size_t first = 0; first < chunks.size();) {
    std::size_t last = first + 1;
    while (last < chunks.size() && chunks[last].location == chunks[first].location) ++last;
    const auto add = [&](std::size_t begin, std::size_t end) {
      result.push_back(range_of(chunks, begin, end, start, bytes, from));
    };
    bool is_refused = false;
    try {
      add(first, last);
    } catch (const hip_error&) {
      is_refused = true;
    } catch (const unsupported&) {
      is_refused = true;
    }
    // HIP may refuse a range of chunks that were made differently, such as adopted ones.
    for (std::size_t each = first; is_refused && each < last; ++each) add(each, each + 1);
    first = last;
  }
  return result;
}

}  // namespace

std::vector<dma_buf> dma_bufs_of(const std::vector<chunk_view>& chunks, const void* start,
                                 std::size_t bytes, const dma_buf_source& from) {
  const std::vector<chunk_view> wanted = chunks_of(chunks, start, bytes);
  switch (from.kind) {
    case export_kind::dma_buf:
      return whole_chunks(wanted, start, bytes, from);
    case export_kind::driver_file:
      return ranges(wanted, start, bytes, from);
    case export_kind::memory_file:
    case export_kind::unknown:
      break;
  }
  throw unsupported{"export_dma_bufs: chunks of device " +
                    std::to_string(wanted.front().device.ordinal()) + " are exported as " +
                    (from.kind == export_kind::memory_file
                         ? "memory files, not as dma-bufs: only GPUs have those"
                         : "descriptors of an unknown kind; is /proc mounted?")};
}

std::vector<dma_buf> export_dma_bufs(const std::vector<chunk_view>& chunks, const void* start,
                                     std::size_t bytes, const chunk_exporter& export_since) {
  const std::vector<chunk_view> wanted = chunks_of(chunks, start, bytes);
  return dma_bufs_of(wanted, start, bytes,
                     {export_kind_of(wanted.front().device), export_since, dma_buf_of_range});
}

}  // namespace detail

std::vector<dma_buf> export_dma_bufs(region& memory, std::size_t offset, std::size_t bytes) {
  if (offset > memory.max_bytes() || bytes > memory.max_bytes() - offset)
    throw std::out_of_range{"export_dma_bufs: the " + std::to_string(bytes) + " bytes at offset " +
                            std::to_string(offset) + " reach past the " +
                            std::to_string(memory.max_bytes()) + " bytes of the region"};
  return detail::export_dma_bufs(
      memory.chunks(), detail::at(memory.base()) + offset, bytes,
      [&](std::uint64_t) { return memory.export_range(offset, bytes).chunks; });
}

std::vector<dma_buf> export_dma_bufs(mr::vmm_pool_resource& pool, const void* pointer) {
  exported_range block = pool.export_block(pointer);
  return detail::export_dma_bufs(pool.chunks(), pointer, block.bytes,
                                 [&block](std::uint64_t) { return std::move(block.chunks); });
}

}  // namespace hipvmm
