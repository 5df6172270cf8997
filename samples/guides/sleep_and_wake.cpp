// SPDX-License-Identifier: MIT
// A server and a trainer take turns on one device, as in a loop of reinforcement learning. While
// the trainer works, the server's weights wait on the host, its cache is dropped, and the addresses
// of both stay, so that graphs and stored pointers are valid when the server goes on.
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::size_t weight_count = 4'000'000;
constexpr std::size_t cache_bytes = 64 * hipvmm::MiB;
constexpr std::size_t training_bytes = 96 * hipvmm::MiB;

hipvmm::mr::pool_options tagged(const hipvmm::memory_tag& tag) {
  hipvmm::mr::pool_options options;
  options.maximum_bytes = 256 * hipvmm::MiB;
  options.tag = tag;
  return options;
}

class server {
 public:
  explicit server(hipvmm::device_ref device)
      : stream_{device},
        pool_{device, tagged(weights_)},
        cache_pool_{device, tagged(cache_)},
        weights_on_device_{weight_count, stream_, &pool_},
        keys_and_values_{cache_bytes, stream_, &cache_pool_} {
    load(0);
  }

  /// New weights, in place.
  void load(int version) {
    const std::vector<int> weights(weight_count, version);
    hipvmm::copy(stream_, weights_on_device_.data(), weights.data(), weight_count * sizeof(int));
  }
  /// Answers with the weights, and fills the cache anew.
  [[nodiscard]] int answer() {
    hipvmm::fill_async(stream_, keys_and_values_.data(), 0, cache_bytes);
    int weight = -1;
    hipvmm::copy(stream_, &weight, weights_on_device_.data() + weight_count - 1, sizeof weight);
    return weight;
  }
  [[nodiscard]] const int* address() const { return weights_on_device_.data(); }

  /// Returns the bytes that the device received.
  std::size_t sleep() {
    hipvmm::suspend(cache_, hipvmm::keep::nothing, stream_);
    // Pinned once, because the server will sleep again.
    hipvmm::suspend(weights_, hipvmm::keep::contents, stream_, hipvmm::sleep_storage::pinned_kept);
    return weights_.statistics().bytes_asleep + cache_.statistics().bytes_asleep;
  }
  void wake_weights() { hipvmm::resume(weights_); }
  void wake_cache() { hipvmm::resume(cache_); }

 private:
  hipvmm::memory_tag weights_{"weights"};
  hipvmm::memory_tag cache_{"cache"};
  hipvmm::stream stream_;
  hipvmm::mr::vmm_pool_resource pool_;
  hipvmm::mr::vmm_pool_resource cache_pool_;
  hipvmm::device_uvector<int> weights_on_device_;
  hipvmm::device_uvector<char> keys_and_values_;
};

/// Needs the memory that the server had; all of it goes back at the end.
void train(hipvmm::device_ref device) {
  const hipvmm::stream stream{device};
  hipvmm::mr::vmm_pool_resource pool{device};
  hipvmm::device_uvector<char> gradients{training_bytes, stream, &pool};
  hipvmm::fill_async(stream, gradients.data(), 1, gradients.size());
  stream.synchronize();
}

void run(hipvmm::device_ref device) {
  server serving{device};
  const int* const before = serving.address();
  for (int round = 1; round <= 3; ++round) {
    if (serving.sleep() < weight_count * sizeof(int) + cache_bytes)
      throw std::runtime_error{"not all of the server's memory returned"};
    train(device);
    // The cache is not there yet: the trainer may still hold its memory.
    serving.wake_weights();
    serving.load(round);
    serving.wake_cache();
    if (serving.answer() != round || serving.address() != before)
      throw std::runtime_error{"the weights are not those of the last round"};
  }
  std::printf("three rounds: the weights stayed at one address\n");
}

}  // namespace

int main() {
  try {
    const hipvmm::device_ref device = hipvmm::device_ref::current();
    try {
      run(device);
    } catch (const hipvmm::unsupported& error) {  // a device without virtual memory
      std::printf("nothing to see here: %s\n", error.what());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sleep_and_wake: %s\n", error.what());
    return 1;
  }
}
