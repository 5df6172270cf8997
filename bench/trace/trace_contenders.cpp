// SPDX-License-Identifier: MIT
#include "trace_contenders.hpp"

#include <stdexcept>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "bench/pool/pool_contenders.hpp"

namespace bench {

namespace mr = hipvmm::mr;
namespace tool = hipvmm::tool;

trace_epochs replay_on(tool::replay_subject& subject, const tool::trace& recorded,
                       const tool::replay_options& options) {
  tool::replay_result result = tool::replay(recorded, subject, options);
  if (result.failures.count() != 0)
    throw std::runtime_error{
        std::to_string(result.failures.count()) +
        " requests failed, the first: " + result.failures.texts().front().text};
  return std::move(result.epochs);
}

std::vector<trace_contender> library_contenders(hipvmm::device_ref device) {
  const auto on_pool = [device](const tool::trace& recorded, const tool::replay_options& options) {
    // Chunks that an earlier pool left there would make the first epoch less cold.
    static_cast<void>(hipvmm::chunk_cache::shared().trim(device));
    mr::vmm_pool_resource pool{device};
    trace_subject subject{
        pool,
        {[&] { return pool.statistics().reserved_high; }, [&] { pool.reset_peaks(); },
         [&](hipvmm::stream_ref stream) { pool.forget_stream(stream); }}};
    return replay_on(subject, recorded, options);
  };
  const auto on_async = [device](const tool::trace& recorded, const tool::replay_options& options) {
    mr::hip_async_resource pool{device};
    trace_subject subject{
        pool, {[&] { return pool.statistics().reserved_high; }, [&] { pool.reset_peaks(); }}};
    return replay_on(subject, recorded, options);
  };
  return {{name::pool, on_pool},
          {name::async_pool, on_async,
           device.supports_memory_pools() ? "" : "the device has no stream-ordered pools"}};
}

}  // namespace bench
