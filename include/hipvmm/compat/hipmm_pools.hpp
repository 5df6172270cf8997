// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <hipvmm/compat/hipmm_resources.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>

// hipMM's pools, templates over their upstream, which may be any hipvmm resource.
namespace hipvmm::hipmm::mr {

template <typename Resource>
class adaptor_of : public resource_of<Resource> {
 public:
  template <typename... Args>
  explicit adaptor_of(hipvmm::mr::memory_resource* upstream, Args&&... args)
      : resource_of<Resource>{std::in_place, upstream, std::forward<Args>(args)...},
        upstream_{upstream} {}

  [[nodiscard]] device_async_resource_ref get_upstream_resource() const noexcept {
    return *upstream_;
  }

 private:
  hipvmm::mr::memory_resource* upstream_;
};

template <typename Resource, typename = void>
inline constexpr bool is_resource_adaptor = false;
template <typename Resource>
inline constexpr bool is_resource_adaptor<
    Resource, std::void_t<decltype(std::declval<Resource>().get_upstream_resource())>> = true;

/// Unlimited if none is given.
/// Throws: std::invalid_argument when that is less than `initial_pool_size`.
[[nodiscard]] std::size_t maximum_of_pool(std::size_t initial_pool_size,
                                          std::optional<std::size_t> maximum_pool_size);

/// An arena_resource over its upstream, which holds `initial_pool_size` bytes from the start.
template <typename Upstream>
class pool_memory_resource final : public adaptor_of<hipvmm::mr::arena_resource> {
 public:
  explicit pool_memory_resource(hipvmm::mr::memory_resource* upstream,
                                std::size_t initial_pool_size = 0,
                                std::optional<std::size_t> maximum_pool_size = std::nullopt)
      : adaptor_of{upstream, maximum_of_pool(initial_pool_size, maximum_pool_size)} {
    deallocate_sync(allocate_sync(initial_pool_size), initial_pool_size);
  }
  [[nodiscard]] std::size_t pool_size() const { return wrapped().statistics().reserved_current; }
};
template <typename Upstream, typename... Rest>
pool_memory_resource(Upstream*, Rest&&...) -> pool_memory_resource<Upstream>;

/// Differs from hipMM's: it maps memory of the upstream's device, and takes none from the upstream.
template <>
class pool_memory_resource<cuda_memory_resource> final
    : public resource_of<hipvmm::mr::vmm_pool_resource> {
 public:
  explicit pool_memory_resource(cuda_memory_resource* upstream, std::size_t initial_pool_size = 0,
                                std::optional<std::size_t> maximum_pool_size = std::nullopt);
  explicit pool_memory_resource(cuda_memory_resource& upstream, std::size_t initial_pool_size = 0,
                                std::optional<std::size_t> maximum_pool_size = std::nullopt)
      : pool_memory_resource{&upstream, initial_pool_size, maximum_pool_size} {}

  [[nodiscard]] device_async_resource_ref get_upstream_resource() const noexcept {
    return *upstream_;
  }
  [[nodiscard]] std::size_t pool_size() const { return wrapped().statistics().reserved_current; }

 private:
  cuda_memory_resource* upstream_;
};

template <typename Upstream>
class arena_memory_resource final : public adaptor_of<hipvmm::mr::arena_resource> {
 public:
  explicit arena_memory_resource(hipvmm::mr::memory_resource* upstream,
                                 std::optional<std::size_t> arena_size = std::nullopt,
                                 bool dump_log_on_failure = false)
      : adaptor_of{upstream, arena_size, dump_log_on_failure} {}
};
template <typename Upstream, typename... Rest>
arena_memory_resource(Upstream*, Rest&&...) -> arena_memory_resource<Upstream>;

template <typename Upstream>
class fixed_size_memory_resource final : public adaptor_of<hipvmm::mr::fixed_size_resource> {
 public:
  explicit fixed_size_memory_resource(
      hipvmm::mr::memory_resource* upstream,
      std::size_t block_size = hipvmm::mr::fixed_size_resource::default_block_size,
      std::size_t blocks_to_preallocate =
          hipvmm::mr::fixed_size_resource::default_blocks_to_preallocate)
      : adaptor_of{upstream, block_size, blocks_to_preallocate} {}
  [[nodiscard]] std::size_t get_block_size() const noexcept { return wrapped().get_block_size(); }
};
template <typename Upstream, typename... Rest>
fixed_size_memory_resource(Upstream*, Rest&&...) -> fixed_size_memory_resource<Upstream>;

template <typename Upstream>
class binning_memory_resource final : public adaptor_of<hipvmm::mr::binning_resource> {
 public:
  explicit binning_memory_resource(hipvmm::mr::memory_resource* upstream) : adaptor_of{upstream} {}
  binning_memory_resource(hipvmm::mr::memory_resource* upstream, std::int8_t min_size_exponent,
                          std::int8_t max_size_exponent)
      : adaptor_of{upstream, min_size_exponent, max_size_exponent} {}
  void add_bin(std::size_t allocation_size, hipvmm::mr::memory_resource* bin_resource = nullptr) {
    wrapped().add_bin(allocation_size, bin_resource);
  }
};
template <typename Upstream, typename... Rest>
binning_memory_resource(Upstream*, Rest&&...) -> binning_memory_resource<Upstream>;

using hipvmm::mr::allocate_callback_t;
using hipvmm::mr::deallocate_callback_t;
using hipvmm::mr::deallocate_sync_callback_t;

class callback_memory_resource final : public resource_of<hipvmm::mr::callback_resource> {
 public:
  callback_memory_resource(allocate_callback_t allocate, deallocate_callback_t deallocate,
                           void* allocate_args = nullptr, void* deallocate_args = nullptr,
                           deallocate_sync_callback_t deallocate_sync = {})
      : resource_of{std::in_place, std::move(allocate), std::move(deallocate),
                    allocate_args, deallocate_args,     std::move(deallocate_sync)} {}
};

}  // namespace hipvmm::hipmm::mr
