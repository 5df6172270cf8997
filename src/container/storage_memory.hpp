// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <hipvmm/region/region.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm::detail {

/// Interface to the backing of a growable_storage: a region or one allocation, which the default
/// implementations suit. The functions behave as region's. Offsets and sizes count from the first
/// backed byte, which erase_front() and added memory change.
class storage_memory {
 public:
  virtual ~storage_memory() = default;
  storage_memory& operator=(storage_memory&&) = delete;

  /// Maps chunks again that a failed call left unmapped. Throws: out_of_memory, hip_error.
  virtual void require_whole() {}
  /// Makes memory of the same kind and device, with nothing backed. Throws: as the constructor.
  [[nodiscard]] virtual std::unique_ptr<storage_memory> another(
      std::size_t max_bytes, const region_options& chosen) const = 0;
  virtual void commit(std::size_t offset, std::size_t bytes) = 0;
  /// Decommits the unused memory behind the first `bytes`; does nothing if a commit copies.
  virtual void undo_commit(std::size_t) {}
  virtual bool extend(std::size_t max_bytes, std::size_t commit_bytes) = 0;
  virtual std::size_t trim(std::size_t bytes, stream_ref stream, tail_chunk tail) = 0;
  /// Moves base() on by `bytes`. Whole chunks before it, but not the last of all, are released
  /// after `stream` has passed this point. Pre: erased_bytes() + bytes <= committed_bytes().
  /// Throws: as region::decommit; then nothing has changed.
  virtual void erase_front(std::size_t bytes, stream_ref stream) = 0;
  /// Erases all elements and releases all chunks; base() is the first address again.
  virtual void erase_all(std::size_t bytes, stream_ref stream) = 0;
  virtual void retire() noexcept = 0;
  virtual void prepare(std::size_t, prefetch_level) {}
  virtual std::size_t cancel_or_wait() noexcept { return 0; }
  [[nodiscard]] virtual std::size_t prepared_bytes() const noexcept { return 0; }
  [[nodiscard]] virtual std::size_t failed_preparations() const noexcept { return 0; }
  virtual void grant(device_ref device, access_right right) = 0;
  virtual void set_access(const access_list& rights) = 0;
  [[nodiscard]] virtual const access_map& rights() const = 0;

  /// For calls about the chunks. Throws: unsupported if there are none.
  [[nodiscard]] virtual region& chunk_region() = 0;

  /// Whether base() stays when a commit() adds memory.
  [[nodiscard]] virtual bool is_address_stable() const noexcept { return false; }
  /// The first byte that was not erased; nullptr while there are neither addresses nor memory.
  [[nodiscard]] virtual void* base() const noexcept = 0;
  /// Bytes before base() that are backed still.
  [[nodiscard]] virtual std::size_t erased_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t granularity() const noexcept = 0;
  [[nodiscard]] virtual std::size_t max_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t committed_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::size_t chunk_count() const noexcept = 0;
};

}  // namespace hipvmm::detail
