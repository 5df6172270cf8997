// SPDX-License-Identifier: MIT
#include <hipvmm/compat/std_pmr.hpp>

#include <doctest/doctest.h>

#include <memory_resource>
#include <numeric>
#include <stdexcept>

#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/runtime/copy.hpp>

namespace hipvmm::mr {

TEST_CASE("std_pmr_adaptor: a vector of the standard library lies in pinned memory") {
  constexpr device_ref device{0};
  const stream used{device};
  pinned_host_resource pinned;
  std_pmr_adaptor adapted{&pinned};
  CHECK(adapted.get_upstream_resource() == &pinned);
  std::pmr::vector<unsigned char> values{&adapted};
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<unsigned char>(i));
  // The device fills it where it lies, which HIP takes of pinned memory only.
  fill_async(used, values.data(), 9, values.size());
  used.synchronize();
  CHECK(std::accumulate(values.begin(), values.end(), 0) == 9000);
}

TEST_CASE("std_pmr_adaptor: no bytes have an address, as the standard's resources give one") {
  new_delete_resource host;
  std_pmr_adaptor adapted{&host};
  void* const nothing = adapted.allocate(0);
  CHECK(nothing != nullptr);
  adapted.deallocate(nothing, 0);
}

TEST_CASE("std_pmr_adaptor: two are equal when their upstreams are") {
  new_delete_resource host;
  new_delete_resource same;
  pinned_host_resource pinned;
  CHECK(std_pmr_adaptor{&host} == std_pmr_adaptor{&same});
  CHECK(std_pmr_adaptor{&host} != std_pmr_adaptor{&pinned});
  CHECK_FALSE(std_pmr_adaptor{&host}.is_equal(*std::pmr::new_delete_resource()));
}

TEST_CASE("std_pmr_adaptor: nullptr and memory that the host cannot use are refused") {
  CHECK_THROWS_AS(std_pmr_adaptor{nullptr}, std::invalid_argument);
  hip_resource device_memory{device_ref{0}};
  CHECK_THROWS_WITH_AS(std_pmr_adaptor{&device_memory},
                       doctest::Contains("host code cannot use the memory of upstream"),
                       std::invalid_argument);
}

}  // namespace hipvmm::mr
