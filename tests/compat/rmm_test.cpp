// SPDX-License-Identifier: MIT
#include <hipvmm/compat/cccl.hpp>
#include <hipvmm/compat/rmm.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/adaptor/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/testing/resource_contract.hpp>
#include "support/devices.hpp"
#include "support/error_recorder.hpp"
#include "support/resource/scripted_resource.hpp"
#include "support/resource/watched_resource.hpp"

// Compiled once with each pair of stand-ins for CCCL and RMM; RMM_STAND_IN names them.
#define RMM_CASE(claim) TEST_CASE("rmm, " RMM_STAND_IN ": " claim)

namespace hipvmm::test {
namespace {

using mr::cccl_resource;
using mr::from_cccl_resource;
using mr::from_rmm_resource;
using mr::rmm_resource;
using mr::rmm_resource_with;

using for_device = cuda::mr::device_accessible;
using for_host = cuda::mr::host_accessible;

#if HIPVMM_RMM_HAS_BASE_CLASS
template <typename Resource, typename... Properties>
constexpr bool satisfies = cuda::mr::async_resource_with<Resource, Properties...>;
static_assert(std::is_base_of_v<rmm::mr::device_memory_resource, rmm_resource>);
#else
template <typename Resource, typename... Properties>
constexpr bool satisfies = cuda::mr::resource_with<Resource, Properties...>;
static_assert(std::is_copy_constructible_v<rmm_resource>);  // cuda::mr::any_resource copies
#endif
static_assert(satisfies<rmm_resource, for_device>);
static_assert(!satisfies<rmm_resource, for_device, for_host>);
static_assert(satisfies<rmm_resource_with<for_device, for_host>, for_device, for_host>);
static_assert(satisfies<cccl_resource<for_device>, for_device>);
static_assert(satisfies<cccl_resource<for_host>, for_host>);
static_assert(!satisfies<cccl_resource<for_host>, for_device>);

CUstream_st* handle_of(const stream& stream) {
  return reinterpret_cast<CUstream_st*>(stream.get());
}

/// A resource of RMM, as a program has it, that follows its script and else is hipvmm's.
#if HIPVMM_RMM_HAS_BASE_CLASS
class foreign_resource final : public rmm::mr::device_memory_resource {
 public:
  using script = std::function<void()>;
  explicit foreign_resource(
      mr::memory_resource* memory, script before = [] {}, script after = [] {})
      : memory_{memory}, before_{std::move(before)}, after_{std::move(after)} {}

 private:
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override {
    before_();
    return memory_->allocate(stream.value(), bytes);
  }
  void do_deallocate(void* pointer, std::size_t bytes, rmm::cuda_stream_view stream) override {
    memory_->deallocate(stream.value(), pointer, bytes);
    after_();
  }

  mr::memory_resource* memory_;
  script before_;
  script after_;
};
#else
class foreign_resource final {
 public:
  using script = std::function<void()>;
  explicit foreign_resource(
      mr::memory_resource* memory, script before = [] {})
      : memory_{memory}, before_{std::move(before)} {}

  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment) {
    before_();
    return memory_->allocate(stream.get(), bytes, alignment);
  }
  void deallocate(cuda::stream_ref stream, void* pointer, std::size_t bytes,
                  std::size_t alignment) noexcept {
    memory_->deallocate(stream.get(), pointer, bytes, alignment);
  }
  void* allocate_sync(std::size_t bytes, std::size_t alignment) {
    return memory_->allocate_sync(bytes, alignment);
  }
  void deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) noexcept {
    memory_->deallocate_sync(pointer, bytes, alignment);
  }
  bool operator==(const foreign_resource& other) const noexcept { return this == &other; }
  [[maybe_unused]] friend void get_property(const foreign_resource&, for_device) noexcept {}

 private:
  mr::memory_resource* memory_;
  script before_;
};
#endif

/// Allocates as RMM's containers do.
void* allocate(rmm::device_async_resource_ref resource, std::size_t bytes, const stream& stream) {
#if HIPVMM_RMM_HAS_BASE_CLASS
  return resource.allocate_async(bytes, 256, handle_of(stream));
#else
  return resource.allocate(handle_of(stream), bytes, 256);
#endif
}
void deallocate(rmm::device_async_resource_ref resource, void* pointer, std::size_t bytes,
                const stream& stream) {
#if HIPVMM_RMM_HAS_BASE_CLASS
  resource.deallocate_async(pointer, bytes, 256, handle_of(stream));
#else
  resource.deallocate(handle_of(stream), pointer, bytes, 256);
#endif
}

RMM_CASE("rmm_resource allocates and deallocates in RMM's stream") {
  const stream used{first_device};
  watched_resource memory{first_device};
  rmm_resource resource{&memory};
  CHECK(resource.get_upstream_resource() == &memory);
  void* const pointer = allocate(resource, 1000, used);
  CHECK(reinterpret_cast<std::uintptr_t>(pointer) % 256 == 0);
  deallocate(resource, pointer, 1000, used);
  REQUIRE(memory.allocations.size() == 1);
  REQUIRE(memory.deallocations.size() == 1);
  CHECK(memory.allocations[0].bytes == 1000);
  CHECK(memory.allocations[0].stream == used.get());
  CHECK(memory.deallocations[0].stream == used.get());
}

RMM_CASE("what rmm_resource throws is of RMM's classes") {
  const stream used{first_device};
  mr::hip_resource memory{first_device};
  mr::memory_resource* upstream = &memory;
  const auto thrown_for = [&](auto error) {
    scripted_resource failing{upstream, [&](std::size_t, std::size_t) { throw error; }};
    rmm_resource resource{&failing};
    try {
      deallocate(resource, allocate(resource, 100, used), 100, used);
    } catch (const rmm::out_of_memory& caught) {
      return std::string{"out_of_memory: "} + caught.what();
    } catch (const rmm::bad_alloc& caught) {
      return std::string{"bad_alloc: "} + caught.what();
    }
    return std::string{};
  };
  CHECK(thrown_for(out_of_memory{"the limit"}) == "out_of_memory: the limit");
  CHECK(thrown_for(unsupported{"never"}) == "bad_alloc: never");
  CHECK(thrown_for(hip_error{719, "hipMalloc", "file", 1}).find("bad_alloc: hipMalloc") == 0);
  CHECK(thrown_for(rmm::out_of_memory{"below"}) == "out_of_memory: below");
  // All forms of a resource by CCCL's concepts.
  scripted_resource full{upstream, [](std::size_t, std::size_t) { throw out_of_memory{"full"}; }};
  rmm_resource_with<for_device> resource{&full};
  CHECK_THROWS_AS((void)resource.allocate(handle_of(used), 1), rmm::out_of_memory);
  CHECK_THROWS_AS((void)resource.allocate_async(1, handle_of(used)), rmm::out_of_memory);
  CHECK_THROWS_AS((void)resource.allocate_async(1, 256, handle_of(used)), rmm::out_of_memory);
  CHECK_THROWS_AS((void)resource.allocate_sync(1), rmm::out_of_memory);
  CHECK_THROWS_AS((void)resource.allocate(1), rmm::out_of_memory);
  cccl_resource<for_device> untranslated{&full};
  CHECK_THROWS_AS((void)untranslated.allocate(handle_of(used), 1), out_of_memory);
}

RMM_CASE("rmm_resource shares a resource that it is given by std::shared_ptr") {
  auto memory = std::make_shared<mr::hip_resource>(first_device);
  const std::weak_ptr<mr::hip_resource> watched = memory;
  {
    const rmm_resource resource{std::shared_ptr<mr::memory_resource>{std::move(memory)}};
    CHECK_FALSE(watched.expired());
  }
  CHECK(watched.expired());
}

RMM_CASE("rmm_resource is equal to those of an equal resource") {
  mr::hip_resource memory{first_device};
  mr::hip_resource same{first_device};
  watched_resource other{first_device};
  CHECK(rmm_resource{&memory} == rmm_resource{&same});
  CHECK_FALSE(rmm_resource{&memory} == rmm_resource{&other});
}

RMM_CASE("a resource without the property is refused, and so is nullptr") {
  mr::new_delete_resource host;
  mr::hip_resource device{first_device};
  mr::pinned_host_resource pinned;
  CHECK_THROWS_WITH_AS(rmm_resource{&host}, doctest::Contains("kernels cannot use the memory"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS((rmm_resource_with<for_device, for_host>{&device}),
                       doctest::Contains("host code cannot use the memory"), std::invalid_argument);
  CHECK_THROWS_AS(rmm_resource{static_cast<mr::memory_resource*>(nullptr)}, std::invalid_argument);
  const rmm_resource_with<for_device, for_host> both{&pinned};
  CHECK(both.get_upstream_resource() == &pinned);
  CHECK_THROWS_AS(from_rmm_resource{static_cast<foreign_resource*>(nullptr)},
                  std::invalid_argument);
}

RMM_CASE("from_rmm_resource keeps the contract of a resource") {
  mr::hip_resource memory{first_device};
  foreign_resource foreign{&memory};
  from_rmm_resource resource{&foreign, first_device};
  CHECK(resource.device() == first_device);
  CHECK(resource.is_device_accessible());
  CHECK_FALSE(resource.is_host_accessible());
  for (const mr::contract_rule& rule : mr::resource_contract()) {
    INFO(rule.name);
    CHECK_NOTHROW(rule.verify({resource, first_device, MiB}));
  }
}

RMM_CASE("from_rmm_resource calls RMM with its device current") {
  HIPVMM_REQUIRE_DEVICE(other, peer_of(first_device), "second device");
  const stream used{first_device};
  watched_resource memory{first_device};
  foreign_resource foreign{&memory};
  from_rmm_resource resource{&foreign, first_device};
  const scoped_device scope{other};
  resource.deallocate(used, resource.allocate(used, 100), 100);
  resource.deallocate_sync(resource.allocate_sync(200), 200);
  REQUIRE(memory.allocations.size() == 2);
  REQUIRE(memory.deallocations.size() == 2);
  for (const auto& calls : {memory.allocations, memory.deallocations})
    for (const auto& call : calls) CHECK(call.current == first_device);
  CHECK(device_ref::current() == other);
}

RMM_CASE(
    "from_rmm_resource throws hipvmm's out_of_memory, and RMM's other exceptions as they are") {
  const stream used{first_device};
  mr::hip_resource memory{first_device};
  foreign_resource full{&memory, [] { throw rmm::out_of_memory{"Maximum pool size exceeded"}; }};
  from_rmm_resource resource{&full, first_device};
  CHECK_THROWS_WITH_AS((void)resource.allocate(used, 100),
                       "from_rmm_resource: Maximum pool size exceeded", out_of_memory);
  CHECK_THROWS_AS((void)resource.allocate_sync(100), out_of_memory);
  foreign_resource failing{&memory, [] { throw rmm::bad_alloc{"CUDA error"}; }};
  from_rmm_resource other{&failing, first_device};
  CHECK_THROWS_AS((void)other.allocate(used, 100), rmm::bad_alloc);
}

RMM_CASE("from_rmm_resource refuses alignments above 256, which an adaptor over it has") {
  const stream used{first_device};
  mr::hip_resource memory{first_device};
  foreign_resource foreign{&memory};
  from_rmm_resource resource{&foreign, first_device};
  CHECK_THROWS_WITH_AS((void)resource.allocate(used, 100, 4096),
                       doctest::Contains("put an aligned_resource_adaptor"), unsupported);
  mr::aligned_resource_adaptor aligned{&resource, 4096};
  void* const pointer = aligned.allocate(used, 100, 4096);
  CHECK(reinterpret_cast<std::uintptr_t>(pointer) % 4096 == 0);
  aligned.deallocate(used, pointer, 100, 4096);
}

RMM_CASE("from_rmm_resource is equal to those of the same resource") {
  mr::hip_resource memory{first_device};
  foreign_resource foreign{&memory};
  foreign_resource other{&memory};
  const from_rmm_resource resource{&foreign, first_device};
  CHECK(resource.is_equal(from_rmm_resource{rmm::device_async_resource_ref{foreign}}));
  CHECK_FALSE(resource.is_equal(from_rmm_resource{&other}));
  CHECK_FALSE(resource.is_equal(memory));
}

RMM_CASE("a resource goes to RMM and comes back") {
  const stream used{first_device};
  watched_resource memory{first_device};
  rmm_resource there{&memory};
  from_rmm_resource back{&there, first_device};
  back.deallocate(used, back.allocate(used, 777), 777);
  REQUIRE(memory.deallocations.size() == 1);
  CHECK(memory.deallocations[0].bytes == 777);
  scripted_resource full{&memory, [](std::size_t, std::size_t) { throw out_of_memory{"full"}; }};
  rmm_resource full_there{&full};
  from_rmm_resource full_back{&full_there, first_device};
  CHECK_THROWS_AS((void)full_back.allocate(used, 1), out_of_memory);
}

RMM_CASE("from_cccl_resource takes a copy, and the properties say who may use the memory") {
  mr::pinned_host_resource pinned;
  from_cccl_resource both{cccl_resource<for_device, for_host>{&pinned}};
  CHECK(both.is_device_accessible());
  CHECK(both.is_host_accessible());
  CHECK(both.device() == device_ref::current());
  from_cccl_resource host{cccl_resource<for_host>{&pinned}};
  CHECK_FALSE(host.is_device_accessible());
  CHECK_FALSE(host.device());
  CHECK(both.foreign().get_upstream_resource() == &pinned);
  for (const mr::contract_rule& rule : mr::resource_contract()) {
    INFO(rule.name);
    CHECK_NOTHROW(rule.verify({both, first_device, MiB}));
  }
  CHECK_FALSE(both.is_equal(host));
  CHECK(both.is_equal(from_cccl_resource{cccl_resource<for_device, for_host>{&pinned}}));
}

#if HIPVMM_RMM_HAS_BASE_CLASS
RMM_CASE("what RMM throws at a deallocation is reported") {
  const stream used{first_device};
  mr::hip_resource memory{first_device};
  foreign_resource foreign{&memory, [] {}, [] { throw std::runtime_error{"refused"}; }};
  from_rmm_resource resource{&foreign, first_device};
  const error_recorder recorder;
  resource.deallocate(used, resource.allocate(used, 100), 100);
  REQUIRE(recorder.count() == 1);
  CHECK(recorder.errors()[0].message.find("refused") != std::string::npos);
}
#endif

}  // namespace
}  // namespace hipvmm::test
