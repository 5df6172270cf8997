// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <hipvmm/region/region.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm::detail {

/// Interface to the backing of a growable_storage: a region or one allocation. The functions behave
/// as region's. Offsets and sizes count from the first byte that is still backed.
class storage_memory {
 public:
  virtual ~storage_memory() = default;
  storage_memory& operator=(storage_memory&&) = delete;

  /// As sleep_participant::map_again().
  virtual void require_whole() {}
  /// Of the same kind and device, with nothing backed.
  [[nodiscard]] virtual std::unique_ptr<storage_memory> another(
      std::size_t max_bytes, const region_options& chosen) const = 0;
  virtual void commit(std::size_t offset, std::size_t bytes) = 0;
  /// As growable_storage::undo_growth().
  virtual void undo_commit(std::size_t) {}
  virtual bool extend(std::size_t max_bytes, std::size_t commit_bytes) = 0;
  virtual std::size_t trim(std::size_t bytes, stream_ref stream, tail_chunk tail) = 0;
  /// As growable_device_vector::erase_front(), in bytes. Pre: erased_bytes() + bytes <=
  /// committed_bytes(). Throws: as region::decommit(); then nothing has changed.
  virtual void erase_front(std::size_t bytes, stream_ref stream) = 0;
  /// Erases everything. A region releases all chunks, and base() is its first address again.
  virtual void erase_all(std::size_t bytes, stream_ref stream) = 0;
  virtual void retire() noexcept = 0;
  virtual void prepare(std::size_t, prefetch_level) {}
  virtual std::size_t cancel_or_wait() noexcept { return 0; }
  [[nodiscard]] virtual std::size_t prepared_bytes() const noexcept { return 0; }
  [[nodiscard]] virtual std::size_t failed_preparations() const noexcept { return 0; }
  virtual void grant(device_ref device, access_right right) = 0;
  virtual void set_access(const access_list& rights) = 0;
  [[nodiscard]] virtual const access_map& rights() const = 0;

  /// Throws: unsupported if there are no chunks.
  [[nodiscard]] virtual region& chunk_region() = 0;

  /// Whether base() stays when a commit() adds memory.
  [[nodiscard]] virtual bool is_address_stable() const noexcept { return false; }
  /// The first byte that was not erased; nullptr without addresses.
  [[nodiscard]] virtual void* base() const noexcept = 0;
  /// Bytes before base() that are backed still.
  [[nodiscard]] virtual std::size_t erased_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t granularity() const noexcept = 0;
  [[nodiscard]] virtual std::size_t max_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t committed_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t chunk_count() const noexcept = 0;
};

}  // namespace hipvmm::detail
