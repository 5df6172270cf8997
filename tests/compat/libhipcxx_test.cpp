// SPDX-License-Identifier: MIT
// compat/cccl.hpp over the interface of libhipcxx, whose cuda::stream_ref has streams of HIP.
#include <hipvmm/compat/cccl.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <memory>
#include <utility>

#include <hipvmm/runtime/stream.hpp>
#include "support/devices.hpp"
#include "support/resource/watched_resource.hpp"

namespace hipvmm::test {
namespace {

using for_device = cuda::mr::device_accessible;
using for_host = cuda::mr::host_accessible;
using mr::cccl_resource;
using mr::from_cccl_resource;

static_assert(std::same_as<cuda::stream_ref::value_type, ihipStream_t*>);
static_assert(cuda::mr::resource_with<cccl_resource<for_device>, for_device>);
static_assert(!cuda::mr::resource_with<cccl_resource<for_device>, for_host>);
static_assert(cuda::mr::resource_with<cccl_resource<for_device, for_host>, for_device, for_host>);

TEST_CASE("cccl_resource: streams of HIP pass as they are") {
  const stream used{first_device};
  watched_resource memory{first_device};
  cccl_resource<for_device> resource{&memory};
  const cuda::stream_ref theirs{used.get()};
  resource.deallocate(theirs, resource.allocate(theirs, 100, 256), 100, 256);
  resource.deallocate_sync(resource.allocate_sync(200, 256), 200, 256);
  REQUIRE(memory.allocations.size() == 2);
  CHECK(memory.allocations[0].stream == used.get());
  CHECK(memory.deallocations[0].stream == used.get());
}

TEST_CASE("cccl_resource: an owner of any resource keeps it, and it comes back") {
  const stream used{first_device};
  auto memory = std::make_shared<watched_resource>(first_device);
  const std::weak_ptr<watched_resource> watched = memory;
  {
    const cuda::mr::any_device_resource held{cccl_resource<for_device>{std::move(memory)}};
    from_cccl_resource back{held, first_device};  // a copy
    back.deallocate(used, back.allocate(used, 777), 777);
    CHECK(back.device() == first_device);
    REQUIRE_FALSE(watched.expired());
    REQUIRE(watched.lock()->deallocations.size() == 1);
    CHECK(watched.lock()->deallocations[0].stream == used.get());
  }
  CHECK(watched.expired());
}

}  // namespace
}  // namespace hipvmm::test
