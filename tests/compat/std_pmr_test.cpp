// SPDX-License-Identifier: MIT
#include <hipvmm/compat/std_pmr.hpp>

#include <memory_resource>

#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/testing/resource_contract.hpp>
#include "support/test.hpp"

namespace hipvmm::mr {

TEST_CASE("std_pmr_adaptor: a vector of the standard library lies in pinned memory") {
  constexpr device_ref device{0};
  const stream used{device};
  pinned_host_resource pinned;
  std_pmr_adaptor adapted{&pinned};
  CHECK(adapted.get_upstream_resource() == &pinned);
  std::pmr::vector<unsigned char> values{&adapted};
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<unsigned char>(i));
  // The device fills it in place, which HIP accepts for pinned memory only.
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

TEST_CASE("from_std_pmr_resource: keeps the contract of a resource") {
  from_std_pmr_resource resource{std::pmr::new_delete_resource()};
  CHECK(resource.get_upstream_resource() == std::pmr::new_delete_resource());
  CHECK(resource.is_host_accessible());
  CHECK_FALSE(resource.is_device_accessible());
  CHECK_FALSE(resource.device());
  for (const contract_rule& rule : resource_contract()) {
    INFO(rule.name);
    CHECK_NOTHROW(rule.verify({resource, device_ref{0}, 1 << 20}));
  }
}

TEST_CASE("from_std_pmr_resource: an arena takes its memory from a pool of the standard library") {
  std::pmr::synchronized_pool_resource standard;
  from_std_pmr_resource upstream{&standard};
  arena_resource arena{&upstream, 1 << 16};
  std_pmr_adaptor adapted{&arena};
  std::pmr::vector<int> values(1000, 7, &adapted);
  CHECK(std::accumulate(values.begin(), values.end(), 0) == 7000);
}

TEST_CASE("from_std_pmr_resource: what the upstream throws is thrown, or reported at the end") {
  struct failing final : std::pmr::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
      if (bytes > 100) throw std::bad_alloc{};
      return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    }
    void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override {
      std::pmr::new_delete_resource()->deallocate(pointer, bytes, alignment);
      throw std::runtime_error{"refused"};
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
      return this == &other;
    }
  } upstream;
  from_std_pmr_resource resource{&upstream};
  const stream used{device_ref{0}};
  CHECK_THROWS_AS((void)resource.allocate(used, 1000), std::bad_alloc);
  CHECK_THROWS_AS((void)resource.allocate_sync(1000), std::bad_alloc);
  const test::error_recorder recorder;
  resource.deallocate(used, resource.allocate(used, 10), 10);
  resource.deallocate_sync(resource.allocate_sync(10), 10);
  CHECK(recorder.count() == 2);
}

TEST_CASE("from_std_pmr_resource: two are equal when their upstreams are, and nullptr is refused") {
  std::pmr::unsynchronized_pool_resource other;
  const from_std_pmr_resource resource{std::pmr::new_delete_resource()};
  CHECK(resource.is_equal(from_std_pmr_resource{std::pmr::new_delete_resource()}));
  CHECK_FALSE(resource.is_equal(from_std_pmr_resource{&other}));
  CHECK_THROWS_AS(from_std_pmr_resource{nullptr}, std::invalid_argument);
}

}  // namespace hipvmm::mr
