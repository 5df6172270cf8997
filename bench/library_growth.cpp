// SPDX-License-Identifier: MIT
#include "library_growth.hpp"

#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/region.hpp>
#include <hipvmm/vmm/retirement.hpp>

namespace bench {
namespace {

class grown_region final : public grower {
 public:
  grown_region(hipvmm::device_ref device, std::size_t max_bytes,
               std::optional<hipvmm::device_ref> peer)
      : region_{device, max_bytes, {hipvmm::handle_type::none, &nothing_kept_}} {
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

hipvmm::growth_options exact_steps() {
  hipvmm::growth_options options;
  options.step_limit = 0;
  return options;
}

hipvmm::growth_options ahead_options(std::size_t step_bytes) {
  hipvmm::growth_options options = exact_steps();
  options.grow_ahead.prepare = hipvmm::ahead::mapped;
  options.grow_ahead.budget_bytes = 16 * step_bytes;
  return options;
}

void wait_for_returned_memory(hipvmm::device_ref device) {
  hipvmm::drain_retired_memory();
  device.synchronize();
}

}  // namespace bench
