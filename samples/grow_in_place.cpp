// SPDX-License-Identifier: MIT
// A vector in device memory grows while its pointer stays: nothing is copied. If a device has no
// virtual memory management it works all the same, and says that the pointer moved.
#include <cstdio>
#include <exception>
#include <vector>

#include <hipvmm/vector.hpp>

/// Whether data() stays the same while a vector grows from 3 elements to 50 million.
bool grows_in_place(hipvmm::growable_device_vector<int>& numbers, const hipvmm::stream& stream) {
  numbers.append({1, 2, 3}, stream);
  const int* const before = numbers.data();
  numbers.resize(50'000'000, 7, stream);  // 200 MB more, mapped behind the first three
  return numbers.data() == before;        // so kernels in flight and peers go on
}

namespace {

bool is_one_two_three_and_sevens(const std::vector<int>& host) {
  if (host.size() != 50'000'000 || host[0] != 1 || host[1] != 2 || host[2] != 3) return false;
  for (std::size_t i = 3; i < host.size(); ++i)
    if (host[i] != 7) return false;
  return true;
}

int run() {
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  const hipvmm::stream stream{device};
  hipvmm::growable_device_vector<int> numbers{device};
  const bool stayed = grows_in_place(numbers, stream);

  const hipvmm::growth_statistics growth = numbers.statistics();
  std::printf("%zu ints on device %d: %zu growth steps, %zu chunks, pointer %s\n", numbers.size(),
              device.ordinal(), growth.growth_steps, growth.chunks, stayed ? "stayed" : "moved");
  if (!stayed) std::fputs(numbers.explain().c_str(), stdout);
  if (stayed != numbers.is_address_stable() ||
      !is_one_two_three_and_sevens(numbers.copy_to_host(stream))) {
    std::fputs("grow_in_place: the vector is not what was put into it\n", stderr);
    return 1;
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "grow_in_place: %s\n", error.what());
    return 1;
  }
}
