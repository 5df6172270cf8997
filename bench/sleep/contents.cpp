// SPDX-License-Identifier: MIT
// How much of the link's bandwidth do contents get on their way to the host and back?
//
// Below 0.95 of one copy of pinned memory, chunks would have to be made by a thread of their own
// while others are copied. The other method is that of libraries which let each allocation sleep by
// itself: a pinned buffer for each, kept for the next time, a copy that is waited for, unmap and
// release; then create, map, set access and the copy back. Region and pool are measured one after
// the other, so that the host needs pinned memory for one of them at a time.
#include <algorithm>
#include <memory>
#include <optional>

#include <hipvmm/core/bytes.hpp>
#include "raw_sleep.hpp"
#include "sleepers.hpp"

namespace bench {
namespace {

// Pinned for copies beside those of the library, for any size that sleeps: to pin 64 GiB takes half
// a minute.
constexpr std::size_t most_pinned = 4 * hipvmm::GiB;

/// One copy of all of it, or one behind the other; its chunks come and go outside the time.
struct plain_copy {
  plain_copy(const settings& chosen, const sleep_shape& shape)
      : stream{chosen.device},
        part{std::min(shape.bytes, most_pinned)},
        host{part},
        device{chosen.device, shape.bytes, shape.chunk},
        bytes{shape.bytes} {
    device.wake();
    hipvmm::fill_async(stream, device.at(0), 1, bytes);
    stream.synchronize();
  }
  void copy(hipMemcpyKind kind) {
    for (std::size_t done = 0; done < bytes; done += part) {
      void* const here = static_cast<char*>(device.at(0)) + done;
      const bool wakes = kind == hipMemcpyHostToDevice;
      copy_async(wakes ? here : host.get(), wakes ? host.get() : here, std::min(part, bytes - done),
                 kind, stream);
    }
    stream.synchronize();
  }

  hipvmm::stream stream;
  std::size_t part;
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
    const std::size_t most = std::max<std::size_t>(most_pinned / chunk, 1);
    for (std::size_t i = 0; i < std::min(device.chunks(), most); ++i) host.emplace_back(chunk);
  }
  void sleep() {
    for (std::size_t i = 0; i < device.chunks(); ++i) {
      copy_now(host[i % host.size()].get(), device.at(i), chunk, hipMemcpyDeviceToHost, stream);
      device.sleep_chunk(i);
    }
  }
  void wake() {
    for (std::size_t i = 0; i < device.chunks(); ++i) {
      device.wake_chunk(i);
      copy_now(device.at(i), host[i % host.size()].get(), chunk, hipMemcpyHostToDevice, stream);
    }
  }

  hipvmm::stream stream;
  raw_sleep device;
  std::vector<raw_pinned> host;
  std::size_t chunk;
};

method copy_alone(const char* called, const settings& chosen, const sleep_shape& shape) {
  auto subject = std::make_shared<std::unique_ptr<plain_copy>>();
  return {called, chosen.runs, chosen.repeats, [=, &chosen, &shape](memory_probe*) {
            if (*subject)
              (*subject)->device.wake();
            else
              *subject = std::make_unique<plain_copy>(chosen, shape);
            plain_copy& copy = **subject;
            auto result = cycle([&] { copy.copy(hipMemcpyHostToDevice); },
                                [&] { copy.copy(hipMemcpyDeviceToHost); });
            copy.device.sleep();
            return result;
          }};
}

void wake(tagged_region& subject) { hipvmm::resume(subject.tag); }

void sleep(tagged_region& subject, hipvmm::sleep_storage where) {
  hipvmm::suspend(subject.tag, hipvmm::keep::contents, subject.stream, where);
}

measurement row_of_one(const char* scenario, std::size_t bytes, double seconds) {
  measurement row;
  row.scenario = scenario;
  row.method = name::fresh;
  row.steps = 1;
  row.bytes = bytes;
  row.seconds = {seconds};
  row.turns = {0};
  return row;
}

}  // namespace

std::vector<measurement> measure_region_contents(const settings& chosen, const sleep_shape& shape) {
  using hipvmm::sleep_storage;
  std::optional<tagged_region> region;
  double pinning_sleep = 0;
  std::vector<measurement> rows = measure_halves(
      scenario::suspend_contents, scenario::resume_contents, shape.bytes,
      {copy_alone(name::pinned_copy, chosen, shape),
       {name::kept, chosen.runs, chosen.repeats,
        [&](memory_probe*) {
          if (!region) {
            region.emplace(chosen, shape);
            const stopwatch watch;
            sleep(*region, sleep_storage::pinned_kept);
            pinning_sleep = watch.seconds();
          }
          return cycle([&] { wake(*region); }, [&] { sleep(*region, sleep_storage::pinned_kept); });
        }},
       cycling<by_allocation>(
           name::by_allocation, chosen, shape, [](by_allocation& subject) { subject.wake(); },
           [](by_allocation& subject) { subject.sleep(); })},
      chosen);
  if (region) {
    // The first suspend has pinned the memory that the last resume frees.
    wake(*region);
    sleep(*region, sleep_storage::pinned);
    const stopwatch watch;
    wake(*region);
    rows.push_back(row_of_one(scenario::resume_contents, shape.bytes, watch.seconds()));
    rows.push_back(row_of_one(scenario::suspend_contents, shape.bytes, pinning_sleep));
  }
  add_bandwidth(rows);
  return rows;
}

std::vector<measurement> measure_pool_contents(const settings& chosen, const sleep_shape& shape) {
  std::vector<measurement> rows =
      measure_halves(scenario::suspend_contents, scenario::resume_contents, shape.bytes,
                     {copy_alone(name::pool_pinned_copy, chosen, shape),
                      cycling<tagged_pool>(
                          name::pool_kept, chosen, shape,
                          [](tagged_pool& subject) { hipvmm::resume(subject.tag); },
                          [](tagged_pool& subject) {
                            hipvmm::suspend(subject.tag, hipvmm::keep::contents, subject.stream,
                                            hipvmm::sleep_storage::pinned_kept);
                          })},
                     chosen);
  add_bandwidth(rows);
  return rows;
}

}  // namespace bench
