// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/per_device_resource.hpp>

#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include "support/resource/contract.hpp"
#include "support/resource/passing_adaptor.hpp"
#include "support/test.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

/// Sets the resource of a device while it lives.
class resource_set {
 public:
  resource_set(device_ref device, memory_resource* resource)
      : device_{device}, before_{set_per_device_resource(device, resource)} {}
  ~resource_set() { set_per_device_resource(device_, before_); }
  resource_set& operator=(resource_set&&) = delete;

  [[nodiscard]] memory_resource* before() const { return before_; }

 private:
  device_ref device_;
  memory_resource* before_;
};

std::optional<device_ref> second_device() {
  return device_count() > 1 ? std::optional{device_ref{1}} : std::nullopt;
}

TEST_CASE("per_device_resource: is hipMalloc of the same device at first") {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    memory_resource* const initial = get_per_device_resource(device_ref{ordinal});
    CHECK(initial->is_equal(hip_resource{device_ref{ordinal}}));
    CHECK(initial == get_per_device_resource(device_ref{ordinal}));
  }
}

TEST_CASE("per_device_resource: the first one keeps the contract of a resource") {
  test::check_contract({*get_per_device_resource(first_device), first_device, 64 * MiB});
}

TEST_CASE("per_device_resource: setting one returns the one before") {
  hip_resource one{first_device};
  hip_resource other{first_device};
  memory_resource* const initial = get_per_device_resource(first_device);
  const resource_set set{first_device, &one};
  CHECK(set.before() == initial);
  CHECK(get_per_device_resource(first_device) == &one);
  CHECK(set_per_device_resource(first_device, &other) == &one);
  CHECK(get_current_device_resource() == &other);
}

TEST_CASE("per_device_resource: nullptr sets the first one again") {
  hip_resource one{first_device};
  memory_resource* const initial = get_per_device_resource(first_device);
  set_per_device_resource(first_device, &one);
  CHECK(set_current_device_resource(nullptr) == &one);
  CHECK(get_current_device_resource() == initial);
}

TEST_CASE("per_device_resource: each device has its own, and the current one is asked for") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  hip_resource resource{second};
  const resource_set set{second, &resource};
  CHECK(get_current_device_resource() != &resource);
  const scoped_device scope{second};
  CHECK(get_current_device_resource() == &resource);
  CHECK(set_current_device_resource(nullptr) == &resource);
}

TEST_CASE("per_device_resource: a device that does not exist is refused") {
  for (const int unknown : {-1, device_count()}) {
    CHECK_THROWS_AS(static_cast<void>(get_per_device_resource(device_ref{unknown})),
                    std::invalid_argument);
    CHECK_THROWS_AS(set_per_device_resource(device_ref{unknown}, nullptr), std::invalid_argument);
  }
}

TEST_CASE("per_device_resource: one of another device is refused, with both ordinals") {
  HIPVMM_REQUIRE_DEVICE(second, second_device(), "second device");
  hip_resource resource{second};
  test::passing_adaptor adaptor{&resource};
  memory_resource* const before = get_per_device_resource(first_device);
  for (memory_resource* const foreign :
       {static_cast<memory_resource*>(&resource), static_cast<memory_resource*>(&adaptor)})
    CHECK_THROWS_WITH_AS(set_current_device_resource(foreign),
                         doctest::Contains("memory of device 1, not of device 0"),
                         std::invalid_argument);
  CHECK(get_per_device_resource(first_device) == before);
}

TEST_CASE("per_device_resource: the initial one takes the place of one that ends") {
  memory_resource* const initial = get_per_device_resource(first_device);
  {
    hip_resource mine{first_device};
    set_per_device_resource(first_device, &mine);
    const hip_resource copy{mine};
    CHECK(get_per_device_resource(first_device) == &mine);
  }
  CHECK(get_per_device_resource(first_device) == initial);
}

TEST_CASE("per_device_resource: threads that set it hand each resource on once") {
  constexpr std::size_t threads = 4;
  constexpr std::size_t turns = 1000;
  std::vector<hip_resource> resources(threads, hip_resource{first_device});
  const resource_set set{first_device, nullptr};
  memory_resource* const initial = get_per_device_resource(first_device);
  // Every pointer that was set comes out again, or is the one that is set in the end.
  std::atomic<std::size_t> put_in{0};
  std::atomic<std::size_t> came_out{0};
  test::in_a_thread_each(resources, [&](hip_resource& mine) {
    for (std::size_t i = 0; i < turns; ++i) {
      put_in += reinterpret_cast<std::size_t>(&mine);
      came_out += reinterpret_cast<std::size_t>(set_per_device_resource(first_device, &mine));
    }
  });
  const auto last = reinterpret_cast<std::size_t>(get_per_device_resource(first_device));
  CHECK(came_out + last == put_in + reinterpret_cast<std::size_t>(initial));
}

}  // namespace
}  // namespace hipvmm::mr
