// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <hipvmm/container/device_scalar.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "kernels/thrust_algorithms.hpp"

namespace hipvmm {

TEST_CASE("thrust: fills a device_uvector in a stream by par.on") {
  const stream used;
  device_uvector<int> numbers{100'000, used};
  fill_by_thrust(numbers, 7, used);
  std::vector<int> seen(numbers.size());
  copy_async(used, seen.data(), numbers.data(), numbers.size() * sizeof(int));
  used.synchronize();
  CHECK(seen == std::vector<int>(numbers.size(), 7));
}

TEST_CASE("thrust: takes temporary storage of a resource by exec_policy") {
  const stream used;
  mr::vmm_pool_resource pool{used.device()};
  mr::statistics_resource_adaptor counted{&pool};
  device_uvector<int> numbers{1'000'000, used, &pool};
  std::vector<int> expected(numbers.size());
  std::iota(expected.rbegin(), expected.rend(), 0);
  copy_async(used, numbers.data(), expected.data(), expected.size() * sizeof(int));
  sort_by_thrust(numbers, used, &counted);
  std::sort(expected.begin(), expected.end());
  std::vector<int> seen(numbers.size());
  copy_async(used, seen.data(), numbers.data(), numbers.size() * sizeof(int));
  used.synchronize();
  CHECK(seen == expected);
  CHECK(counted.get_allocations_counter().total > 0);
  CHECK(counted.get_bytes_counter().value == 0);
}

TEST_CASE("cub: takes temporary storage of a resource") {
  const stream used;
  mr::vmm_pool_resource pool{used.device()};
  device_uvector<int> numbers{100'000, used, &pool};
  device_scalar<int> sum{0, used, &pool};
  fill_by_thrust(numbers, 3, used);
  REQUIRE(sum_by_cub(numbers, sum, used, &pool) == 0);
  CHECK(sum.value(used) == 300'000);
}

}  // namespace hipvmm
