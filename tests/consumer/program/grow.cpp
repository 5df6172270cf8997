// SPDX-License-Identifier: MIT
// A stranger's program: C++17 and the public headers, nothing of HIP.
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <numeric>
#include <vector>

#if defined(HIP_VERSION) || __cplusplus >= 202002L
#error "The public headers ask for HIP's headers or for more than C++17"
#endif

namespace {

bool grows_in_place() {
  const hipvmm::stream stream;
  hipvmm::growable_device_vector<int> numbers;
  std::vector<int> block(100000);
  std::vector<int> expected;
  const int* base = nullptr;
  for (int round = 0; round < 50; ++round) {
    std::iota(block.begin(), block.end(), round);
    numbers.append(block, stream);
    stream.synchronize();
    expected.insert(expected.end(), block.begin(), block.end());
    if (base == nullptr) base = numbers.data();
  }
  return numbers.data() == base && numbers.copy_to_host(stream) == expected;
}

}  // namespace

int main() {
  try {
    if (grows_in_place()) return 0;
    std::fputs("grow: the vector moved or holds other numbers\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "grow: %s\n", error.what());
  }
  return 1;
}
