// SPDX-License-Identifier: MIT
// The resources whose memory the host may use.
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/mr/resource/system_resource.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include <hipvmm/testing/resource_contract.hpp>
#include "support/device_bytes.hpp"
#include "support/resource/contract.hpp"
#include "support/test.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

template <typename Resource>
std::unique_ptr<Resource> make() {
  return std::make_unique<Resource>();
}

}  // namespace

TEST_CASE_TEMPLATE("host resource: keeps the contract of a resource", Resource, managed_resource,
                   new_delete_resource, pinned_host_resource) {
  const auto resource = make<Resource>();
  test::check_contract({*resource, first_device, 8 * MiB});
}

TEST_CASE_TEMPLATE("host resource: is of no device, and equal to all of its kind", Resource,
                   managed_resource, new_delete_resource, pinned_host_resource) {
  const auto one = make<Resource>();
  const auto same = make<Resource>();
  CHECK_FALSE(one->device().has_value());
  CHECK(one->is_host_accessible());
  CHECK(one->is_equal(*same));
  CHECK_FALSE(one->is_equal(hip_resource{first_device}));
  void* const block = one->allocate_sync(100);
  same->deallocate_sync(block, 100);
}

TEST_CASE_TEMPLATE("host resource: more than the host has is out of host memory", Resource,
                   new_delete_resource, pinned_host_resource) {
  const auto resource = make<Resource>();
  const auto error =
      test::thrown_by<out_of_memory>([&] { return resource->allocate_sync(PTRDIFF_MAX); });
  CHECK(error.resource() == exhausted::host_memory);
  CHECK(error.device() == -1);
  CHECK(error.bytes_requested() == PTRDIFF_MAX);
  CHECK(std::string{error.what()}.find("out of host memory") == 0);
}

TEST_CASE("pinned_host_resource: each kind of pinned memory is used by device and host") {
  const stream used{first_device};
  for (const pinned_options options :
       {pinned_options{true, false, false}, pinned_options{false, true, false},
        pinned_options{true, true, true}}) {
    pinned_host_resource resource{options};
    CHECK(resource.options().write_combined == options.write_combined);
    void* const block = resource.allocate(used, MiB);
    std::memset(block, 3, MiB);
    CHECK(test::read_bytes(used, block, MiB) == test::byte_vector(MiB, 3));
    resource.deallocate(used, block, MiB);
  }
}

TEST_CASE("managed_resource: its memory is moved, advised about and asked") {
  if (!first_device.supports_concurrent_managed_access()) {
    MESSAGE("skipped: managed memory does not move here");
    return;
  }
  const stream used{first_device};
  managed_resource resource{attachment::host};
  void* const block = resource.allocate_sync(MiB);
  std::memset(block, 3, MiB);
  attach_async(used, block, attachment::global);
  prefetch_async(used, block, MiB, first_device);
  CHECK(last_prefetch_location(block, MiB) == first_device);
  CHECK(test::read_bytes(used, block, MiB) == test::byte_vector(MiB, 3));
  resource.deallocate(used, block, MiB);
}

TEST_CASE("managed_resource: a device that does not exist and a single stream are refused") {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  CHECK_THROWS_AS(managed_resource{device_ref{-1}}, std::invalid_argument);
  CHECK_THROWS_WITH_AS(managed_resource(first_device, attachment::single),
                       doctest::Contains("call attach_async"), std::invalid_argument);
#pragma GCC diagnostic pop
  CHECK_THROWS_AS(managed_resource{attachment::single}, std::invalid_argument);
}

TEST_CASE("new_delete_resource: takes any alignment") {
  new_delete_resource resource;
  for (std::size_t alignment = 1; alignment <= MiB; alignment *= 2) {
    void* const block = resource.allocate_sync(10, alignment);
    CHECK(reinterpret_cast<std::size_t>(block) % alignment == 0);
    resource.deallocate_sync(block, 10, alignment);
  }
}

TEST_CASE(
    "system_resource: keeps the contract of a resource where devices reach the host's memory") {
  if (!first_device.supports_pageable_access()) {
    CHECK_THROWS_WITH_AS(system_resource{first_device}, doctest::Contains("HSA_XNACK=1"),
                         unsupported);
    CHECK_THROWS_AS(sam_headroom_resource(first_device, MiB), unsupported);
    MESSAGE("refused: device 0 reaches no ordinary memory of the host");
    return;
  }
  system_resource plain{first_device};
  sam_headroom_resource all_on_host{first_device, first_device.total_memory()};
  sam_headroom_resource all_on_device{first_device, 0};
  for (memory_resource* resource :
       std::initializer_list<memory_resource*>{&plain, &all_on_host, &all_on_device}) {
    const contract_subject subject{*resource, first_device, 8 * MiB};
    for (const contract_rule& rule : resource_contract()) {
      CAPTURE(rule.name);
      CHECK_NOTHROW(rule.verify(subject));
    }
  }
  CHECK(plain.is_equal(system_resource{first_device}));
  CHECK(plain.is_equal(new_delete_resource{}));
  CHECK(new_delete_resource{}.is_equal(plain));
  CHECK(plain.is_device_accessible());
  CHECK(all_on_device.is_equal(sam_headroom_resource{first_device, 0}));
  CHECK_FALSE(all_on_device.is_equal(all_on_host));
}

TEST_CASE("system_resource: a device that does not exist is refused") {
  CHECK_THROWS_AS(system_resource{device_ref{-1}}, std::invalid_argument);
}

}  // namespace hipvmm::mr
