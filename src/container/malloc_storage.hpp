// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "container/storage_memory.hpp"
#include "core/owner_process.hpp"
#include "region/device_work.hpp"
#include "region/malloc_rights.hpp"

namespace hipvmm::detail {

[[nodiscard]] std::string why_no_chunks(device_ref owner, const mr::memory_resource* resource);

/// Backing without chunks: one allocation of hipMalloc or the resource.
/// - commit() that adds makes a larger allocation, waits for the devices with access and copies the
///   bytes that were not erased: base() changes.
/// - trim(0) releases all memory; if `tail` is replace, trim() copies to a smaller allocation.
/// - With a resource, only the owner gets a right.
class malloc_storage final : public storage_memory {
 public:
  /// Allocates nothing. Throws: unsupported if `chosen` needs chunks.
  malloc_storage(device_ref owner, std::size_t max_bytes, const region_options& chosen = {},
                 mr::memory_resource* resource = nullptr);
  ~malloc_storage() override;

  [[nodiscard]] std::unique_ptr<storage_memory> another(
      std::size_t max_bytes, const region_options& chosen) const override {
    return std::make_unique<malloc_storage>(device(), max_bytes, chosen, resource_);
  }
  /// Throws (nothing has changed): out_of_memory; hip_error.
  void commit(std::size_t offset, std::size_t bytes) override;
  bool extend(std::size_t max_bytes, std::size_t commit_bytes) override;
  std::size_t trim(std::size_t bytes, stream_ref stream,
                   tail_chunk tail = tail_chunk::keep) override;
  /// Memory is released by the next commit() that adds, or trim() that replaces or releases all.
  void erase_front(std::size_t bytes, stream_ref) override { erased_bytes_ += bytes; }
  void erase_all(std::size_t, stream_ref stream) override {
    stream.synchronize();  // later elements, of any stream, are written to the same bytes
    erased_bytes_ = 0;
  }
  void retire() noexcept override;
  void grant(device_ref to, access_right right = access_right::read_write) override;
  void set_access(const access_list& wanted) override;
  [[nodiscard]] const access_map& rights() const override { return rights_.all(); }
  [[noreturn]] region& chunk_region() override;
  [[nodiscard]] void* base() const noexcept override {
    return memory_.empty() ? nullptr : static_cast<char*>(memory_.get()) + erased_bytes_;
  }
  [[nodiscard]] std::size_t erased_bytes() const noexcept override { return erased_bytes_; }
  [[nodiscard]] std::size_t granularity() const noexcept override { return granularity_; }
  [[nodiscard]] std::size_t max_bytes() const noexcept override { return limit_; }
  [[nodiscard]] std::size_t committed_bytes() const noexcept override { return memory_.bytes(); }
  [[nodiscard]] std::size_t chunk_count() const noexcept override {
    return memory_.empty() ? 0 : 1;
  }

 private:
  [[nodiscard]] device_ref device() const noexcept { return rights_.owner(); }
  void require_grantable(device_ref to, access_right right) const;
  /// Waits for retired memory if the device is full.
  [[nodiscard]] device_allocation allocate_or_explain(std::size_t bytes) const;
  /// Copies from base() in `stream`, and waits for it.
  void copy_to(const device_allocation& to, std::size_t bytes, stream_ref stream) const;
  void release_all(stream_ref stream);
  /// Does nothing if memory is short.
  void shorten_to(std::size_t kept, stream_ref stream);
  /// Replaces the memory by `next`, which begins with the byte at base(). Pre: nothing uses it.
  void replace(device_allocation next) noexcept;
  [[nodiscard]] device_allocation allocate(std::size_t bytes) const;
  /// Frees `unused` once work of `devices` is done, or deallocates it to the resource.
  void drop(device_allocation unused, device_list devices = {}) const noexcept;

  owner_process process_;
  malloc_rights rights_;
  mr::memory_resource* resource_;
  std::size_t granularity_;
  std::size_t limit_;
  std::size_t erased_bytes_ = 0;
  // Its destructor would free memory of the resource by hipFree: empty it by drop() or release().
  device_allocation memory_;
};

}  // namespace hipvmm::detail
