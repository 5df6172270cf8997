// SPDX-License-Identifier: MIT
#include "library_growth.hpp"

#include <functional>
#include <stdexcept>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>

namespace bench {
namespace {

class grown_region final : public grower {
 public:
  grown_region(hipvmm::device_ref device, std::size_t max_bytes,
               std::optional<hipvmm::device_ref> peer, hipvmm::chunk_cache* cache = nullptr)
      : region_{device,
                max_bytes,
                {hipvmm::handle_type::none, cache == nullptr ? &nothing_kept_ : cache}} {
    if (peer) region_.grant(*peer);
  }
  void grow(std::size_t bytes) override { region_.commit(0, bytes); }
  void* data() override { return region_.base(); }

 private:
  hipvmm::chunk_cache nothing_kept_;
  hipvmm::region region_;
};

class grown_vector final : public grower {
 public:
  grown_vector(hipvmm::device_ref device, const hipvmm::growth_options& options,
               std::optional<hipvmm::device_ref> peer)
      : vector_{device, options} {
    if (peer) vector_.grant(*peer);
  }
  void grow(std::size_t bytes) override { vector_.resize_uninitialized(bytes); }
  void* data() override { return vector_.data(); }

 private:
  hipvmm::growable_device_vector<unsigned char> vector_;
};

void grow_through(grower& growing, const std::vector<std::size_t>& sizes) {
  for (const std::size_t size : sizes) growing.grow(size);
}

/// Throws unless `cache` keeps the chunks of a growth to `bytes`, and perhaps slack.
void require_kept(const hipvmm::chunk_cache& cache, hipvmm::device_ref device, std::size_t bytes) {
  const std::size_t kept = cache.statistics(device).bytes;
  if (kept < bytes)
    throw std::runtime_error{"the chunk cache kept " + hipvmm::format_bytes(kept) + " of " +
                             hipvmm::format_bytes(bytes) +
                             ", so that growth would create chunks anew"};
}

using make_with_cache = std::function<std::unique_ptr<grower>(hipvmm::chunk_cache&)>;

/// Grows once before it is returned, so that all later chunks are in the cache.
class grown_again final : public grower {
 public:
  grown_again(hipvmm::device_ref device, const std::vector<std::size_t>& sizes,
              const make_with_cache& make)
      : cache_{sizes.back()} {
    grow_through(*make(cache_), sizes);
    hipvmm::drain_retired_memory();
    require_kept(cache_, device, sizes.back());
    growing_ = make(cache_);
  }
  void grow(std::size_t bytes) override { growing_->grow(bytes); }
  void* data() override { return growing_->data(); }

 private:
  hipvmm::chunk_cache cache_;
  std::unique_ptr<grower> growing_;
};

}  // namespace

std::unique_ptr<grower> make_region(hipvmm::device_ref device, std::size_t max_bytes,
                                    std::optional<hipvmm::device_ref> peer) {
  return std::make_unique<grown_region>(device, max_bytes, peer);
}

std::unique_ptr<grower> make_vector(hipvmm::device_ref device,
                                    const hipvmm::growth_options& options,
                                    std::optional<hipvmm::device_ref> peer) {
  return std::make_unique<grown_vector>(device, options, peer);
}

std::unique_ptr<grower> make_cached_region(hipvmm::device_ref device,
                                           const std::vector<std::size_t>& sizes) {
  return std::make_unique<grown_again>(device, sizes, [&](hipvmm::chunk_cache& cache) {
    return std::make_unique<grown_region>(device, sizes.back(), std::nullopt, &cache);
  });
}

std::unique_ptr<grower> make_cached_vector(hipvmm::device_ref device,
                                           const std::vector<std::size_t>& sizes) {
  return std::make_unique<grown_again>(device, sizes, [&](hipvmm::chunk_cache& cache) {
    hipvmm::growth_options options = exact_steps();
    options.chunks.cache = &cache;
    return make_vector(device, options);
  });
}

std::unique_ptr<grower> make_vector_again(hipvmm::device_ref device,
                                          const std::vector<std::size_t>& sizes) {
  grow_through(*make_vector(device), sizes);
  hipvmm::drain_retired_memory();
  require_kept(hipvmm::chunk_cache::shared(), device, sizes.back());
  return make_vector(device);
}

hipvmm::growth_options exact_steps() {
  hipvmm::growth_options options;
  options.step_limit = 0;
  return options;
}

hipvmm::growth_options ahead_options(std::size_t step_bytes) {
  hipvmm::growth_options options = exact_steps();
  options.grow_ahead.prepare = hipvmm::prefetch_level::mapped;
  options.grow_ahead.budget_bytes = 16 * step_bytes;
  return options;
}

}  // namespace bench
