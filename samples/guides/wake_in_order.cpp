// SPDX-License-Identifier: MIT
// A model whose layers wake in the order of first use: the first work while others still come.
#include <cstdio>
#include <exception>
#include <future>
#include <hipvmm/hipvmm.hpp>
#include <list>
#include <stdexcept>
#include <vector>

namespace {

struct layer {
  hipvmm::memory_tag tag;
  hipvmm::growable_device_vector<int> weights;

  static hipvmm::growth_options tagged(const hipvmm::memory_tag& tag) {
    hipvmm::growth_options options;
    options.chunks.tag = tag;
    return options;
  }
  explicit layer(hipvmm::device_ref device) : weights{device, tagged(tag)} {}
};

/// Computes with a layer, which is there.
int use(const layer& one, hipvmm::stream_ref stream) {
  int last = 0;
  hipvmm::copy(stream, &last, one.weights.data() + one.weights.size() - 1, sizeof last);
  return last;
}

void run(hipvmm::device_ref device) {
  const hipvmm::stream stream{device};
  std::list<layer> model;
  for (int value = 0; value < 8; ++value)
    model.emplace_back(device).weights.append(std::vector<int>(1'000'000, value), stream);
  for (const layer& each : model) hipvmm::suspend(each.tag, hipvmm::keep::contents, stream);

  std::vector<std::packaged_task<std::size_t()>> wakes;
  for (const layer& each : model) wakes.emplace_back([&each] { return resume(each.tag); });
  auto in_order = std::async(std::launch::async, [&wakes] {
    for (auto& wake : wakes) wake();
  });
  int expected = 0;
  auto wake = wakes.begin();
  for (const layer& each : model) {
    wake++->get_future().get();  // or the exception of resume()
    if (use(each, stream) != expected++) throw std::runtime_error{"a layer lost its weights"};
  }
  in_order.get();
  std::printf("%d layers woke, each before its use\n", expected);
}

}  // namespace

int main() {
  try {
    const hipvmm::device_ref device = hipvmm::device_ref::current();
    if (hipvmm::capability_of(device).path() == hipvmm::memory_path::fallback)
      std::printf("nothing to see here: only chunks sleep, and this device has none\n");
    else
      run(device);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wake_in_order: %s\n", error.what());
    return 1;
  }
}
