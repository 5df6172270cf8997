// SPDX-License-Identifier: MIT
// growth_options::resource.
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

using pooled_vector = growable_device_vector<element12>;

/// A pool that counts, and vectors on it.
struct counted_pool {
  mr::vmm_pool_resource pool{first_device};
  mr::statistics_resource_adaptor counted{&pool};
  hipvmm::stream stream;

  [[nodiscard]] growth_options options() { return growth_options{.resource = &counted}; }
  [[nodiscard]] auto bytes() const { return counted.get_bytes_counter().value; }
};

TEST_CASE_FIXTURE(counted_pool, "growable_device_vector on a resource: takes all memory from it") {
  {
    pooled_vector vector{first_device, options()};
    CHECK(vector.data() == nullptr);
    CHECK_FALSE(vector.is_address_stable());
    vector.append(series<element12>(0, 3), stream);
    CHECK(bytes() == 256);
    vector.append(series<element12>(3, 997), stream);
    CHECK(bytes() == static_cast<decltype(bytes())>(vector.capacity() * 12 / 256 * 256 + 256));
    CHECK(vector.copy_to_host(stream) == series<element12>(0, 1000));
    CHECK(vector.statistics().base_moves == 1);
    CHECK(vector.statistics().copied_bytes == 256);
    CHECK(vector.explain().find("a memory resource and copies") != std::string::npos);
  }
  CHECK(bytes() == 0);
}

TEST_CASE_FIXTURE(counted_pool, "growable_device_vector on a resource: copies few times") {
  pooled_vector vector{first_device, options()};
  for (std::size_t at = 0; at < 20'000; at += 100)
    vector.append(series<element12>(at, 100), stream);
  CHECK(vector.copy_to_host(stream) == series<element12>(0, 20'000));
  CHECK(vector.statistics().growth_steps < 25);
}

TEST_CASE("growable_device_vector on a resource: a queue of any length stays small") {
  counted_pool subject;
  pooled_vector vector{first_device, subject.options()};
  for (std::size_t at = 0; at < 50'000; at += 500) {
    vector.append(series<element12>(at, 500), subject.stream);
    if (vector.size() > 2000) vector.erase_front(500, subject.stream);
  }
  CHECK(vector.copy_to_host(subject.stream) == series<element12>(48'000, 2000));
  CHECK(subject.counted.get_bytes_counter().peak < 200'000);
}

TEST_CASE_FIXTURE(counted_pool, "growable_device_vector on a resource: bad options throw") {
  growth_options chosen = options();
  chosen.granule_bytes = 100;
  CHECK_THROWS_AS((pooled_vector{first_device, chosen}), std::invalid_argument);
  chosen = options();
  chosen.past_max = past_max_size::refuse;
  CHECK_THROWS_AS((pooled_vector{first_device, chosen}), unsupported);
  chosen.max_bytes = 1000 * 12;
  pooled_vector pinned{first_device, chosen};
  pinned.append(series<element12>(0, 1), stream);
  const element12* const data = pinned.data();
  pinned.resize(1000, stream);
  CHECK(pinned.data() == data);
  CHECK_THROWS_AS(pinned.resize(2000, stream), std::length_error);
  if (device_count() < 2) return;
  CHECK_THROWS_AS((pooled_vector{second_device, options()}), std::invalid_argument);
  pooled_vector vector{first_device, options()};
  CHECK_THROWS_AS(vector.grant(second_device), unsupported);
  CHECK_THROWS_AS(vector.set_access({{second_device, access_right::read_write}}), unsupported);
  CHECK(vector.access(second_device) == access_right::none);
  chosen = options();
  chosen.chunks.access = {{second_device, access_right::read_write}};
  CHECK_THROWS_AS((pooled_vector{first_device, chosen}), unsupported);
}

TEST_CASE("growable_device_vector on a resource: what the resource refuses changes nothing") {
  const stream stream;
  mr::hip_resource upstream{first_device};
  mr::limiting_resource_adaptor limited{&upstream, 20'000};
  pooled_vector vector{first_device, {.resource = &limited}};
  vector.append(series<element12>(0, 800), stream);
  const element12* const data = vector.data();
  CHECK_THROWS_WITH_AS(vector.append(series<element12>(800, 800), stream),
                       doctest::Contains("of a resource"), out_of_memory);
  CHECK(vector.data() == data);
  CHECK(vector.copy_to_host(stream) == series<element12>(0, 800));
}

}  // namespace
}  // namespace hipvmm::test
