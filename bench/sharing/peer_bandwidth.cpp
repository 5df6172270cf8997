// SPDX-License-Identifier: MIT
// Does a peer read grown memory as fast as one plain allocation?
//
// Below 0.98 of the bandwidth over hipMalloc with hipDeviceEnablePeerAccess, mapped chunks would be
// no memory for data that several devices share.
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <functional>
#include <memory>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "bench/growth/kernels.hpp"
#include "raw_memory.hpp"
#include "sharing_scenarios.hpp"

namespace bench {
namespace {

/// Memory of the owner that the peer may read, and its start.
struct shared_memory {
  virtual ~shared_memory() = default;
  [[nodiscard]] virtual void* data() = 0;
};

class enabled_allocation final : public shared_memory {
 public:
  enabled_allocation(hipvmm::device_ref owner, hipvmm::device_ref peer, std::size_t bytes)
      : memory_{owner, bytes} {
    const hipvmm::scoped_device scope{peer};
    const hipError_t result = hipDeviceEnablePeerAccess(owner.ordinal(), 0);
    if (result != hipErrorPeerAccessAlreadyEnabled) require(result, "hipDeviceEnablePeerAccess");
  }
  void* data() override { return memory_.get(); }

 private:
  hipvmm::device_allocation memory_;
};

class granted_vector final : public shared_memory {
 public:
  granted_vector(hipvmm::device_ref owner, hipvmm::device_ref peer, std::size_t bytes,
                 std::size_t step)
      : memory_{owner} {
    memory_.grant(peer, hipvmm::access_right::read);
    const hipvmm::stream stream{owner};
    for (std::size_t size = step; size <= bytes; size += step) memory_.reserve(size);
    stream.synchronize();
  }
  void* data() override { return memory_.data(); }

 private:
  hipvmm::growable_device_vector<unsigned char> memory_;
};

using pass = std::function<void(void* to, const void* from, std::size_t bytes, hipvmm::stream_ref)>;

/// Seconds of each pass on the peer, by its clock, after one that is not counted.
std::vector<double> time_passes(const pass& go, shared_memory& memory, std::size_t bytes,
                                hipvmm::device_ref owner, hipvmm::device_ref peer) {
  const hipvmm::stream filling{owner};
  hipvmm::fill_async(filling, memory.data(), 1, bytes);
  filling.synchronize();
  const hipvmm::scoped_device scope{peer};
  const hipvmm::device_allocation own{peer, bytes};
  const hipvmm::stream stream{peer};
  hipvmm::event start{peer, hipvmm::event_timing::enabled};
  hipvmm::event end{peer, hipvmm::event_timing::enabled};
  go(own.get(), memory.data(), bytes, stream);
  std::vector<double> seconds;
  for (int i = 0; i < passes; ++i) {
    start.record(stream);
    go(own.get(), memory.data(), bytes, stream);
    end.record(stream);
    end.synchronize();
    seconds.push_back(std::chrono::duration<double>(hipvmm::event::elapsed(start, end)).count());
  }
  return seconds;
}

}  // namespace

std::vector<measurement> measure_peer_bandwidth(const settings& chosen, const peers& others) {
  const hipvmm::device_ref owner = chosen.device;
  const bool found = !others.empty();
  const hipvmm::device_ref peer = found ? others.front() : owner;
  const std::size_t bytes = hipvmm::align_down(chosen.steps_bytes, chosen.step_bytes);
  const auto make_plain = [=]() -> std::unique_ptr<shared_memory> {
    return std::make_unique<enabled_allocation>(owner, peer, bytes);
  };
  const auto make_vector = [=]() -> std::unique_ptr<shared_memory> {
    return std::make_unique<granted_vector>(owner, peer, bytes, chosen.step_bytes);
  };
  const auto add = [&](std::vector<measurement>& rows, const char* called, const pass& go,
                       const std::string& unavailable) {
    std::vector<method> methods;
    for (const auto& [kind, make] :
         {std::pair<const char*, std::function<std::unique_ptr<shared_memory>()>>{name::plain,
                                                                                  make_plain},
          {name::vector, make_vector}})
      methods.push_back({kind, chosen.runs, std::min(chosen.repeats, 2),
                         [=, maker = make](memory_probe*) {
                           const auto memory = maker();
                           return time_passes(go, *memory, bytes, owner, peer);
                         },
                         unavailable});
    measurement row;
    row.scenario = called;
    row.steps = passes;
    row.bytes = bytes;
    for (measurement& each : measure(row, methods, chosen)) {
      if (!each.seconds.empty())
        each.gigabytes_per_second =
            static_cast<double>(bytes) * passes / 1e9 / summarize(each.seconds).median;
      rows.push_back(std::move(each));
    }
  };
  pass read_by_kernel;
  if constexpr (kernels_built)
    read_by_kernel = [](void*, const void* from, std::size_t all, hipvmm::stream_ref stream) {
      launch_read(from, all, stream.get());
    };
  const pass copy = [](void* to, const void* from, std::size_t all, hipvmm::stream_ref stream) {
    hipvmm::copy_async(stream, to, from, all);
  };
  std::vector<measurement> rows;
  const std::string without_peer = found ? "" : no_peer(owner);
  add(rows, scenario::peer_kernel, read_by_kernel,
      !found          ? without_peer
      : kernels_built ? ""
                      : no_kernels);
  add(rows, scenario::peer_copy, copy, without_peer);
  return rows;
}

}  // namespace bench
