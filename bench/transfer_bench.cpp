// SPDX-License-Identifier: MIT
// Measures the time that pinned memory and prefetching save when data moves between host and
// device.
//
// The rules that the figures support (docs/guides/resources.md): buffers for copies from
// pinned_host_resource if a copy takes longer than a copy from pageable memory by half; a prefetch
// before managed memory changes sides if the first use without one takes twice as long.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "bench/support/measure.hpp"
#include "bench/support/results.hpp"

namespace {

using bench::measurement;
using bench::stopwatch;

struct options {
  bench::settings common;
  std::size_t bytes = 256 * hipvmm::MiB;
  int device = 0;
  std::string machine;
  std::string csv;
};

/// A block of a resource, whose pages the host has written.
class block {
 public:
  block(hipvmm::mr::memory_resource& resource, std::size_t bytes)
      : resource_{resource}, bytes_{bytes}, start_{resource.allocate_sync(bytes)} {
    write(1);
  }
  ~block() { resource_.deallocate_sync(start_, bytes_); }
  block(const block&) = delete;
  block& operator=(const block&) = delete;

  [[nodiscard]] void* get() const noexcept { return start_; }
  void write(int value) const noexcept { std::memset(start_, value, bytes_); }
  /// Reads a byte of each page.
  [[nodiscard]] unsigned read() const noexcept {
    const auto* const at = static_cast<const volatile unsigned char*>(start_);
    unsigned sum = 0;
    for (std::size_t i = 0; i < bytes_; i += 4096) sum += at[i];
    return sum;
  }

 private:
  hipvmm::mr::memory_resource& resource_;
  std::size_t bytes_;
  void* start_;
};

std::vector<measurement> measure(const char* scenario, std::vector<bench::method> methods,
                                 const options& chosen) {
  for (bench::method& each : methods) {
    each.runs = chosen.common.runs;
    each.repeats = chosen.common.repeats;
  }
  measurement row;
  row.scenario = scenario;
  row.steps = 1;
  row.bytes = chosen.bytes;
  std::vector<measurement> rows = bench::measure(row, methods, chosen.common);
  for (measurement& each : rows) {
    if (each.seconds.empty()) continue;
    const bench::summary time = bench::summarize(each.seconds);
    each.gigabytes_per_second = static_cast<double>(chosen.bytes) / 1e9 / time.median;
    each.best_gigabytes_per_second = static_cast<double>(chosen.bytes) / 1e9 / time.min;
  }
  return rows;
}

bench::method named(const char* name, std::function<double()> seconds) {
  bench::method result;
  result.name = name;
  result.run = [seconds = std::move(seconds)](bench::memory_probe*) {
    return std::vector<double>{seconds()};
  };
  return result;
}

std::vector<measurement> measure_copies(const char* scenario, bool to_device,
                                        const options& chosen) {
  const hipvmm::device_ref device{chosen.device};
  const hipvmm::stream stream{device};
  const hipvmm::device_allocation there{device, chosen.bytes};
  hipvmm::mr::pinned_host_resource pinned_resource;
  hipvmm::mr::new_delete_resource pageable_resource;
  const block pinned{pinned_resource, chosen.bytes};
  const block pageable{pageable_resource, chosen.bytes};
  hipvmm::fill_async(stream, there.get(), 2, chosen.bytes);
  stream.synchronize();
  const auto copy = [&](const block& here) {
    const stopwatch watch;
    if (to_device)
      hipvmm::copy_async(stream, there.get(), here.get(), chosen.bytes);
    else
      hipvmm::copy_async(stream, here.get(), there.get(), chosen.bytes);
    stream.synchronize();
    return watch.seconds();
  };
  return measure(scenario,
                 {named("pinned_host_resource", [&] { return copy(pinned); }),
                  named("new_delete_resource, pageable", [&] { return copy(pageable); })},
                 chosen);
}

/// Why managed memory cannot be measured; empty if it can.
std::string why_unmanaged(hipvmm::device_ref device) {
  if (!device.supports_managed_memory()) return "the device has no managed memory";
  if (!device.supports_concurrent_managed_access())
    return "managed memory moves as a whole there, and is not prefetched";
  return {};
}

// The device reads bytes that the host has written, or the reverse. The copies move the same bytes
// from and to memory that stays in place.
std::vector<measurement> measure_managed(const char* scenario, bool to_device,
                                         const options& chosen) {
  const hipvmm::device_ref device{chosen.device};
  const hipvmm::stream stream{device};
  const hipvmm::device_allocation there{device, chosen.bytes};
  const hipvmm::device_allocation beside{device, chosen.bytes};
  hipvmm::mr::pinned_host_resource pinned_resource;
  const block pinned{pinned_resource, chosen.bytes};
  hipvmm::mr::managed_resource managed_resource;
  std::unique_ptr<block> managed;
  const std::string missing = why_unmanaged(device);
  if (missing.empty()) managed = std::make_unique<block>(managed_resource, chosen.bytes);

  const auto by_copy = [&] {
    const stopwatch watch;
    if (to_device) {
      hipvmm::copy_async(stream, there.get(), pinned.get(), chosen.bytes);
      hipvmm::copy_async(stream, beside.get(), there.get(), chosen.bytes);
      stream.synchronize();
    } else {
      hipvmm::copy_async(stream, pinned.get(), there.get(), chosen.bytes);
      stream.synchronize();
      static_cast<void>(pinned.read());
    }
    return watch.seconds();
  };
  const auto by_use = [&](bool prefetched) {
    if (to_device) {
      managed->write(3);
    } else {
      hipvmm::fill_async(stream, managed->get(), 3, chosen.bytes);
      stream.synchronize();
    }
    const stopwatch watch;
    if (prefetched)
      hipvmm::prefetch_async(
          stream, managed->get(), chosen.bytes,
          to_device ? hipvmm::memory_location{device} : hipvmm::memory_location::host());
    if (to_device) hipvmm::copy_async(stream, beside.get(), managed->get(), chosen.bytes);
    stream.synchronize();
    if (!to_device) static_cast<void>(managed->read());
    return watch.seconds();
  };
  bench::method prefetched = named("managed_resource, prefetched", [&] { return by_use(true); });
  bench::method unprepared = named("managed_resource", [&] { return by_use(false); });
  prefetched.unavailable = unprepared.unavailable = missing;
  return measure(scenario, {named("copy of pinned memory", by_copy), prefetched, unprepared},
                 chosen);
}

// More managed memory than the device has: each part is moved there when it is filled.
std::vector<measurement> measure_oversubscription(const options& chosen) {
  const hipvmm::device_ref device{chosen.device};
  const hipvmm::stream stream{device};
  options wanted = chosen;
  wanted.bytes = device.total_memory() / 2 * 3;
  hipvmm::mr::managed_resource resource;
  bench::method beyond = named("managed_resource, 1.5 times the device's memory", [&] {
    const block all{resource, wanted.bytes};
    const stopwatch watch;
    for (std::size_t at = 0; at < wanted.bytes; at += chosen.bytes)
      hipvmm::fill_async(stream, static_cast<char*>(all.get()) + at, 4,
                         std::min(chosen.bytes, wanted.bytes - at));
    stream.synchronize();
    return watch.seconds();
  });
#ifndef HIPVMM_HOST_PROVIDER
  beyond.unavailable = "on the host provider only: on a GPU it may stop the machine for minutes";
#endif
  if (beyond.unavailable.empty()) beyond.unavailable = why_unmanaged(device);
  return measure("filling more managed memory than the device has", {beyond}, wanted);
}

int run(options& chosen, int argc, char** argv) {
  chosen.common.device = hipvmm::device_ref{chosen.device};
  hipvmm::require_device(chosen.common.device);
  const bench::origin origin =
      bench::print_origin(chosen.common.device, chosen.machine, argc, argv);
  bench::results all{"transfer_bench"};
  all.add("copies to the device",
          [&] { return measure_copies("copies to the device", true, chosen); });
  all.add("copies to the host",
          [&] { return measure_copies("copies to the host", false, chosen); });
  all.add("first use by the device",
          [&] { return measure_managed("first use by the device", true, chosen); });
  all.add("first use by the host",
          [&] { return measure_managed("first use by the host", false, chosen); });
  all.add("oversubscription", [&] { return measure_oversubscription(chosen); });
  bench::print_table(all.rows());
  if (!chosen.csv.empty()) bench::write_csv(chosen.csv, origin, all.rows());
  return all.failed() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures copies of pinned and pageable memory, and managed memory that is prefetched.",
      "transfer_bench"};
  options chosen;
  chosen.common.runs = 5;
  chosen.common.repeats = 3;
  app.add_option("--runs", chosen.common.runs, "Runs, in each of which the methods take turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--repeats", chosen.common.repeats, "Samples of each method in each run")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  // Much managed memory is slow on some machines.
  app.add_option("--bytes", chosen.bytes, "What is moved, at most 4 GiB (default: 256MiB)")
      ->transform(CLI::AsSizeValue{false})
      ->check(CLI::Range(std::size_t{4096}, 4 * hipvmm::GiB));
  app.add_option("--device", chosen.device, "Device to measure")->capture_default_str();
  app.add_option("--machine", chosen.machine,
                 "What else the file is to say of the machine, such as its driver");
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(chosen, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "transfer_bench: %s\n", error.what());
    return 1;
  }
}
