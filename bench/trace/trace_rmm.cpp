// SPDX-License-Identifier: MIT
// RMM's pools as contenders of trace_bench, in builds with RMM_DIR. Written for RMM 26.08; the
// pools of much older releases are templates.
#include "trace_contenders.hpp"

#ifdef BENCH_RMM

#include <cstdint>
#include <rmm/aligned.hpp>
#include <rmm/cuda_stream_view.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

namespace bench {
namespace {

namespace tool = hipvmm::tool;

/// A resource of RMM's as one of ours: one virtual call, as each contender has it.
template <typename Resource>
class rmm_resource final : public hipvmm::mr::memory_resource {
 public:
  explicit rmm_resource(Resource& served) : served_{served} {}

 private:
  static rmm::cuda_stream_view view(hipvmm::stream_ref stream) {
    return rmm::cuda_stream_view{reinterpret_cast<cudaStream_t>(stream.get())};
  }

  void* do_allocate(hipvmm::stream_ref stream, std::size_t bytes, std::size_t) override {
    return served_.allocate(view(stream), bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
  }
  void do_deallocate(hipvmm::stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t) noexcept override {
    served_.deallocate(view(stream), pointer, bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t) override {
    return served_.allocate_sync(bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept override {
    served_.deallocate_sync(pointer, bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
  }

  Resource& served_;
};

/// `pool` keeps all memory of CUDA until it ends, so that its size is its peak.
template <typename Resource>
trace_epochs replay_on_rmm(Resource& served, const rmm::mr::pool_memory_resource& pool,
                           const tool::trace& recorded, const tool::replay_options& options) {
  rmm_resource<Resource> resource{served};
  trace_subject subject{resource, {[&] { return pool.pool_size(); }}};
  return replay_on(subject, recorded, options);
}

trace_epochs on_pool(const tool::trace& recorded, const tool::replay_options& options) {
  rmm::mr::pool_memory_resource pool{rmm::mr::cuda_memory_resource{}, 0};
  return replay_on_rmm(pool, pool, recorded, options);
}

trace_epochs on_bins(const tool::trace& recorded, const tool::replay_options& options) {
  // 256 KiB to 4 MiB, as in the example of RMM's documentation.
  constexpr std::int8_t smallest = 18;
  constexpr std::int8_t largest = 22;
  rmm::mr::pool_memory_resource pool{rmm::mr::cuda_memory_resource{}, 0};
  rmm::mr::binning_memory_resource bins{pool, smallest, largest};
  return replay_on_rmm(bins, pool, recorded, options);
}

}  // namespace

std::vector<trace_contender> rmm_contenders() {
  return {{"RMM pool", on_pool}, {"RMM binning", on_bins}};
}

}  // namespace bench

#else

namespace bench {

std::vector<trace_contender> rmm_contenders() { return {}; }

}  // namespace bench

#endif
