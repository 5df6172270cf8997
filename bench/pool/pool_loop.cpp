// SPDX-License-Identifier: MIT
// Measures a program that allocates, uses and frees its memory in a loop: with hipMalloc, with
// hipMallocAsync, with the pool.
//
// Beside hipMallocAsync the pool must not take longer; beside hipMalloc it shows the loss of such
// programs. The loops are those of lectures on HIP's memory pools; the stream is waited for at the
// end.
#include <utility>

#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "pool_contenders.hpp"

namespace bench {
namespace {

class loop_job final : public job {
 public:
  loop_job(resource_ptr resource, hipvmm::device_ref device, std::size_t bytes, std::size_t steps)
      : resource_{std::move(resource)}, stream_{device}, bytes_{bytes}, steps_{steps} {}

  std::vector<double> sample() override {
    const hipvmm::stream_ref stream = stream_;
    const stopwatch watch;
    for (std::size_t i = 0; i < steps_; ++i) {
      void* const memory = resource_->allocate(stream, bytes_);
      hipvmm::fill_async(stream, memory, 1, bytes_);
      resource_->deallocate(stream, memory, bytes_);
    }
    stream.synchronize();
    return {watch.seconds() / static_cast<double>(steps_)};
  }
  std::size_t steps() const override { return steps_; }

 private:
  resource_ptr resource_;
  hipvmm::stream stream_;
  std::size_t bytes_;
  std::size_t steps_;
};

}  // namespace

std::vector<measurement> measure_loop(const pool_settings& chosen) {
  const hipvmm::device_ref device = chosen.common.device;
  std::vector<contender> all = contenders(device);
  // As device pools are when nobody sets anything: all goes back when the stream is waited for.
  hipvmm::mr::hip_async_options as_default;
  as_default.release_threshold = 0;
  contender as_it_is = all[1];
  as_it_is.name += ", threshold 0";
  as_it_is.make = [=] {
    return std::make_unique<hipvmm::mr::hip_async_resource>(device, as_default);
  };
  all.push_back(as_it_is);
  return measure_each<loop_job>(row_for(scenario::loop, chosen.loop_bytes), all, chosen, device,
                                chosen.loop_bytes, chosen.loop_steps);
}

}  // namespace bench
