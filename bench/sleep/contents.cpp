// SPDX-License-Identifier: MIT
// How much of the link's bandwidth do contents get on their way to the host and back?
//
// Below 0.95 of one copy of pinned memory, chunks would have to be made by a thread of their own
// while others are copied. The other method is that of libraries which let each allocation sleep by
// itself: a pinned buffer for each, kept for the next time, a copy that is waited for, unmap and
// release; then create, map, set access and the copy back.
#include <memory>

#include "raw_sleep.hpp"
#include "sleepers.hpp"

namespace bench {
namespace {

/// One copy of all of it; its chunks come and go outside the time.
struct plain_copy {
  plain_copy(const settings& chosen, const sleep_shape& shape)
      : stream{chosen.device},
        host{shape.bytes},
        device{chosen.device, shape.bytes, shape.chunk},
        bytes{shape.bytes} {
    device.wake();
    hipvmm::fill_async(stream, device.at(0), 1, bytes);
    stream.synchronize();
  }
  void to_host() { copy_now(host.get(), device.at(0), bytes, hipMemcpyDeviceToHost, stream); }
  void to_device() { copy_now(device.at(0), host.get(), bytes, hipMemcpyHostToDevice, stream); }

  hipvmm::stream stream;
  raw_pinned host;
  raw_sleep device;
  std::size_t bytes;
};

struct by_allocation {
  by_allocation(const settings& chosen, const sleep_shape& shape)
      : stream{chosen.device}, device{chosen.device, shape.bytes, shape.chunk}, chunk{shape.chunk} {
    device.wake();
    hipvmm::fill_async(stream, device.at(0), 1, shape.bytes);
    stream.synchronize();
    for (std::size_t i = 0; i < device.chunks(); ++i) host.emplace_back(chunk);
  }
  void sleep() {
    for (std::size_t i = 0; i < device.chunks(); ++i) {
      copy_now(host[i].get(), device.at(i), chunk, hipMemcpyDeviceToHost, stream);
      device.sleep_chunk(i);
    }
  }
  void wake() {
    for (std::size_t i = 0; i < device.chunks(); ++i) {
      device.wake_chunk(i);
      copy_now(device.at(i), host[i].get(), chunk, hipMemcpyHostToDevice, stream);
    }
  }

  hipvmm::stream stream;
  raw_sleep device;
  std::vector<raw_pinned> host;
  std::size_t chunk;
};

method copy_alone(const settings& chosen, const sleep_shape& shape, bool wakes) {
  auto subject = std::make_shared<std::unique_ptr<plain_copy>>();
  return {name::pinned_copy, chosen.runs, chosen.repeats, [=, &chosen, &shape](memory_probe*) {
            if (*subject)
              (*subject)->device.wake();
            else
              *subject = std::make_unique<plain_copy>(chosen, shape);
            plain_copy& copy = **subject;
            auto result = cycle(
                wakes, [&] { copy.to_device(); }, [&] { copy.to_host(); });
            copy.device.sleep();
            return result;
          }};
}

}  // namespace

std::vector<measurement> measure_contents(const settings& chosen, const sleep_shape& shape,
                                          bool wakes) {
  using hipvmm::sleep_storage;
  measurement row;
  row.scenario = wakes ? scenario::resume_contents : scenario::suspend_contents;
  row.steps = 1;
  row.bytes = shape.bytes;
  const auto wake = [](auto& subject) { hipvmm::resume(subject.tag); };
  const auto sleep_in = [](sleep_storage where) {
    return [where](auto& subject) {
      hipvmm::suspend(subject.tag, hipvmm::keep::contents, subject.stream, where);
    };
  };
  std::vector<measurement> rows =
      measure(row,
              {copy_alone(chosen, shape, wakes),
               cycling<tagged_region>(name::kept, chosen, shape, wakes, wake,
                                      sleep_in(sleep_storage::pinned_kept)),
               cycling<tagged_pool>(name::pool_kept, chosen, shape, wakes, wake,
                                    sleep_in(sleep_storage::pinned_kept)),
               cycling<tagged_region>(name::fresh, chosen, shape, wakes, wake,
                                      sleep_in(sleep_storage::pinned)),
               cycling<by_allocation>(
                   name::by_allocation, chosen, shape, wakes,
                   [](by_allocation& subject) { subject.wake(); },
                   [](by_allocation& subject) { subject.sleep(); })},
              chosen);
  for (measurement& each : rows) {
    if (each.seconds.empty()) continue;
    const summary time = summarize(each.seconds);
    each.gigabytes_per_second = static_cast<double>(shape.bytes) / 1e9 / time.median;
    each.best_gigabytes_per_second = static_cast<double>(shape.bytes) / 1e9 / time.min;
  }
  return rows;
}

}  // namespace bench
