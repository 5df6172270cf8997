// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/device_allocation.hpp>
#include <hipvmm/vmm/capability.hpp>
#include "vmm/region_state.hpp"

namespace hipvmm {

/// HIP's granularities as `found` knows them; on a device that has none, what its regions keep to.
[[nodiscard]] inline allocation_granularity unit_of(const capability& found) noexcept {
  const std::size_t minimum = found.minimum_granularity();
  if (minimum == 0) return {2 * MiB, 2 * MiB};
  return {minimum, found.recommended_granularity()};
}

/// One allocation of hipMalloc that holds [0, committed), for devices whose virtual memory cannot
/// be used. Growth takes a larger one and copies.
struct region::allocated final : region::state {
  /// Allocates nothing. Throws: unsupported for `chosen` that only chunks can meet.
  allocated(device_ref owner, std::size_t max_bytes, const region_options& chosen,
            const capability& found);
  ~allocated() override;

  void commit(std::size_t offset, std::size_t bytes) override;
  std::size_t decommit(std::size_t offset, std::size_t bytes) override;
  [[nodiscard]] bool can_move_chunks() const noexcept override { return false; }
  void move_chunk(std::size_t from, std::size_t to) override;
  void end_move(std::size_t from) override;
  void grant(device_ref to, access_right right) override;
  std::size_t trim(std::size_t bytes, stream_ref stream, straddling_chunk straddling) override;
  bool extend(std::size_t max_bytes, std::size_t commit_bytes) override;
  /// The memory behind the last byte cannot be made before the bytes are copied there.
  void prepare(std::size_t, ahead) override {}
  void settle() noexcept override {}
  [[nodiscard]] std::size_t prepared_bytes() const noexcept override { return 0; }
  [[nodiscard]] std::size_t failed_preparations() const noexcept override { return 0; }
  [[nodiscard]] bool retire_all() noexcept override;
  [[nodiscard]] bool is_address_stable() const noexcept override { return false; }
  [[nodiscard]] void* base() const noexcept override { return memory.get(); }
  [[nodiscard]] std::size_t max_bytes() const noexcept override { return limit; }
  [[nodiscard]] std::size_t committed_from(std::size_t offset) const noexcept override {
    return offset < committed ? committed - offset : 0;
  }
  [[nodiscard]] std::size_t chunk_count() const noexcept override { return memory.empty() ? 0 : 1; }

  /// Waits for retired memory where the device is full; out_of_memory tells what the region holds.
  [[nodiscard]] device_allocation allocate_or_explain(std::size_t bytes) const;
  /// Copies the first `bytes` bytes in the order of `stream` and waits for it.
  void carry_over(const device_allocation& to, std::size_t bytes, stream_ref stream) const;
  void give_all_back(stream_ref stream);
  /// Does nothing when there is no memory for the smaller allocation.
  void shorten_to(std::size_t kept, stream_ref stream);
  /// Puts `next` in place of the memory, which nothing uses any more.
  void replace(device_allocation next) noexcept;

  std::size_t limit;
  device_allocation memory;
};

}  // namespace hipvmm
