// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include "mr/pool/backend/device_backend.hpp"
#include "mr/pool/backend/slab_table.hpp"

namespace hipvmm::mr::pool {

struct upstream_deleter {
  memory_resource* upstream = nullptr;
  std::size_t bytes = 0;
  void operator()(void* memory) const noexcept;
};
using upstream_slab = std::unique_ptr<void, upstream_deleter>;

/// Thrown by create() if the request has no slab yet. The request ends, so that the upstream is
/// called without a lock, and restarts.
struct slab_needed {
  memory_resource* upstream;
  std::size_t bytes;
};

/// The slab that one request allocated from an upstream.
class slab_supply {
 public:
  /// Keeps a refusal (std::bad_alloc) for find(). Throws: other failures of the upstream.
  void bring(const slab_needed& wanted, device_ref device);
  void forget_refusal() noexcept { refused_.reset(); }

  /// The slab of `bytes` bytes, to be taken; nullptr if there is none. Throws: out_of_memory if the
  /// upstream refused that size or a smaller one.
  [[nodiscard]] upstream_slab* find(std::size_t bytes);

 private:
  upstream_slab slab_;
  std::optional<out_of_memory> refused_;
  std::size_t refused_bytes_ = 0;
};

/// Limits tables by offset: 8 bytes for each 256 MiB, and 4 MiB of addresses where blocks are.
inline constexpr std::size_t most_upstream_addresses = std::size_t{1} << 42;

/// Slabs of an upstream, which is called without the pool's locks, because it may call back.
class upstream_backend final : public addressed_backend {
 public:
  /// `least_slab`: the minimum of a slab in bytes; 0: the pool chooses.
  upstream_backend(memory_resource& upstream, std::size_t address_bytes, std::size_t least_slab);

  void use_supply(slab_supply* supply) noexcept override { supply_ = supply; }
  /// Pre: a supply is set. Throws: slab_needed.
  void create(std::size_t offset, std::size_t bytes, std::size_t chunk) override;
  [[nodiscard]] std::unique_ptr<pending_release> detach(std::size_t offset,
                                                        std::size_t bytes) override;

  [[nodiscard]] std::string explain() const override;
  [[nodiscard]] new_memory available() const override { return {traits.address_bytes}; }
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept override {
    return slabs_.address_of(offset);
  }
  [[nodiscard]] std::size_t offset_of(std::uintptr_t address) const noexcept override {
    return slabs_.offset_of(address, traits.address_bytes);
  }

 private:
  memory_resource& upstream_;
  slab_supply* supply_ = nullptr;
  slab_table<upstream_slab> slabs_;
};

}  // namespace hipvmm::mr::pool
