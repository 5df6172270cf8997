// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include "mr/pool/device_backend.hpp"
#include "mr/pool/slab_table.hpp"

namespace hipvmm::mr::pool {

/// Gives memory that allocate_sync() gave back to where it came from.
struct upstream_deleter {
  memory_resource* upstream = nullptr;
  std::size_t bytes = 0;
  void operator()(void* memory) const noexcept;
};
using upstream_slab = std::unique_ptr<void, upstream_deleter>;

/// What upstream_backend::create() throws when it needs a slab that its thread has not brought: the
/// request ends, so that the upstream is called without a lock, and begins anew. No exception of
/// the library, for nobody but slab_supply's user catches it.
struct slab_wanted {
  memory_resource* upstream;
  std::size_t bytes;
};

/// What the calling thread brings from an upstream for the request that it serves. An upstream may
/// take long, and may call back into the very pool that asks it.
class slab_supply {
 public:
  slab_supply() noexcept : around_{current()} { current() = this; }
  ~slab_supply() { current() = around_; }
  slab_supply(const slab_supply&) = delete;
  slab_supply& operator=(const slab_supply&) = delete;

  /// Asks the upstream; what it refuses with std::bad_alloc is remembered, other exceptions go on.
  void bring(const slab_wanted& wanted, device_ref device);
  /// What was refused may be asked for again.
  void forget_refusal() noexcept { refused_.reset(); }

  /// The slab of `bytes` bytes that this thread has brought, to be taken; nullptr when it must be
  /// brought first. Throws: out_of_memory when the upstream refused so much.
  [[nodiscard]] static upstream_slab* find(std::size_t bytes);

 private:
  [[nodiscard]] static slab_supply*& current() noexcept;

  slab_supply* around_;  // of the request in whose call of an upstream this one is made
  upstream_slab slab_;
  std::optional<out_of_memory> refused_;
  std::size_t refused_bytes_ = 0;
};

/// Most addresses that a pool in memory of another resource names: what is known of them by offset
/// costs a few bytes of addresses for each 32 MiB.
inline constexpr std::size_t most_upstream_addresses = std::size_t{1} << 42;

/// A pool's memory from another resource: each chunk is a slab, an allocation of the upstream. The
/// upstream is never called under the pool's locks.
class upstream_backend final : public addressed_backend {
 public:
  /// Slabs of at least `least_slab` bytes; 0: as large as the pool chooses.
  upstream_backend(memory_resource& upstream, std::size_t address_bytes, std::size_t least_slab);

  [[nodiscard]] std::size_t address_bytes() const override { return address_bytes_; }
  /// All that is known of the upstream's addresses.
  [[nodiscard]] std::size_t granularity() const override {
    return memory_resource::default_alignment;
  }
  [[nodiscard]] bool moves_chunks() const override { return false; }
  [[nodiscard]] std::size_t least_slab() const override { return least_slab_; }
  [[nodiscard]] bool has_aliases() const override { return false; }
  /// Throws: slab_wanted.
  void create(std::size_t offset, std::size_t bytes) override;
  void set_aside(std::size_t offset, std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<detached> detach(std::size_t offset, std::size_t bytes) override;
  void alias(std::size_t from, std::size_t to, std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<detached> detach_old_address(std::size_t from) override;

  [[nodiscard]] std::string explain() const override;
  /// What an upstream has nobody can ask.
  [[nodiscard]] std::size_t available_bytes() const override { return address_bytes_; }
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept override {
    return slabs_.address_of(offset);
  }
  [[nodiscard]] std::size_t offset_of(std::uintptr_t address) const noexcept override {
    return slabs_.offset_of(address, address_bytes_);
  }

 private:
  memory_resource& upstream_;
  std::size_t address_bytes_;
  std::size_t least_slab_;
  slab_table<upstream_slab> slabs_;
};

}  // namespace hipvmm::mr::pool
