// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm::detail {

/// Interface to the backing of a growable_storage: a region or, without virtual memory, one
/// allocation of hipMalloc. The functions do what region's functions of these names do. Offsets and
/// sizes are counted from the first byte backed, which erase_front() and what adds memory change.
class storage_memory {
 public:
  storage_memory() = default;
  virtual ~storage_memory() = default;
  storage_memory(const storage_memory&) = delete;
  storage_memory& operator=(const storage_memory&) = delete;

  virtual void commit(std::size_t offset, std::size_t bytes) = 0;
  /// Decommits what is behind the first `bytes`, which nothing has used; does nothing where a
  /// commit copies.
  virtual void undo_commit(std::size_t bytes) = 0;
  virtual bool extend(std::size_t max_bytes, std::size_t commit_bytes) = 0;
  virtual std::size_t trim(std::size_t bytes, stream_ref stream, tail_chunk tail) = 0;
  /// Moves base() on by `bytes`. Releases whole chunks before it, but the last chunk of all, once
  /// `stream` has passed this point. Pre: lead() + bytes <= committed_bytes(). Throws: as
  /// region::decommit; then nothing has changed.
  virtual void erase_front(std::size_t bytes, stream_ref stream) = 0;
  virtual void retire() noexcept = 0;
  virtual void prepare(std::size_t bytes, prefetch_level how) = 0;
  virtual std::size_t cancel_or_wait() noexcept = 0;
  [[nodiscard]] virtual std::size_t prepared_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t failed_preparations() const noexcept = 0;
  virtual void grant(device_ref device, access_right right) = 0;
  virtual void set_access(const access_list& rights) = 0;
  [[nodiscard]] virtual const access_map& rights() const = 0;

  /// Offsets are the region's. Throw: unsupported where there are no chunks.
  [[nodiscard]] virtual std::vector<chunk_view> chunks() const = 0;
  [[nodiscard]] virtual std::vector<exported_chunk> export_chunks(std::uint64_t since) = 0;
  [[nodiscard]] virtual std::vector<exported_fabric_chunk> export_fabric_chunks(
      std::uint64_t since) = 0;
  virtual std::size_t move_range(std::size_t offset, std::size_t bytes, memory_location to,
                                 stream_ref stream) = 0;
  [[nodiscard]] virtual std::vector<chunk_access> effective_access() const = 0;

  /// Whether base() stays when a commit() adds memory.
  [[nodiscard]] virtual bool is_address_stable() const noexcept = 0;
  /// The first byte that was not erased; nullptr while there are neither addresses nor memory.
  [[nodiscard]] virtual void* base() const noexcept = 0;
  /// Bytes before base() that are backed still.
  [[nodiscard]] virtual std::size_t lead() const noexcept = 0;
  [[nodiscard]] virtual std::size_t max_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t committed_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t chunk_count() const noexcept = 0;
};

}  // namespace hipvmm::detail
