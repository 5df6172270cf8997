// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/owning_wrapper.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/testing/resource_contract.hpp>
#include "mr/adaptor/adaptor_kinds.hpp"
#include "mr/mr_test.hpp"
#include "support/random_seed.hpp"
#include "support/resource/paper_resource.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

bool managed_memory_moves() {
  return first_device.supports_managed_memory() &&
         first_device.supports_concurrent_managed_access();
}

// Whether adaptors, the first of them lowest, keep the contract over `base`, have nothing out there
// behind it, and told the error handler nothing.
void keep_contract(memory_resource& base, const std::vector<const test::adaptor_kind*>& kinds) {
  statistics_resource_adaptor below{&base};
  std::vector<test::owned_resource> layers;
  memory_resource* top = &below;
  std::string order;
  for (const test::adaptor_kind* kind : kinds) {
    layers.push_back(kind->over(top));
    top = layers.back().get();
    order += std::string{" "} + kind->name;
  }
  INFO("adaptors, from the lowest to the uppermost:" << order);
  const test::error_recorder told;
  const contract_subject subject{*top, first_device, 16 * KiB};
  for (const contract_rule& rule : resource_contract()) {
    INFO(rule.name);
    CHECK_NOTHROW(rule.verify(subject));
  }
  CHECK(top->device() == base.device());
  CHECK(top->is_device_accessible() == base.is_device_accessible());
  CHECK(top->is_host_accessible() == base.is_host_accessible());
  while (!layers.empty()) layers.pop_back();
  CHECK(below.get_bytes_counter().value == 0);
  CHECK(below.get_allocations_counter().value == 0);
  CHECK(told.count() == 0);
}

}  // namespace

TEST_CASE("adaptors: each keeps the contract of a resource") {
  hip_resource plain{first_device};
  managed_resource managed;
  for (const test::adaptor_kind& kind : test::adaptor_kinds) {
    if (kind.is_for_managed_memory && !managed_memory_moves()) {
      MESSAGE("skipped: managed memory does not move here: ", kind.name);
      continue;
    }
    memory_resource* const base =
        kind.is_for_managed_memory ? static_cast<memory_resource*>(&managed) : &plain;
    SUBCASE(kind.name) { keep_contract(*base, {&kind}); }
  }
}

TEST_CASE("adaptors: ten random stacks of three to six keep the contract") {
  std::mt19937 generator = test::seeded_generator();
  vmm_pool_resource pool{first_device, {.maximum_bytes = 64 * MiB}};
  hip_resource plain{first_device};
  managed_resource managed;
  new_delete_resource host;
  std::vector<memory_resource*> bases{&pool, &plain, &host};
  if (managed_memory_moves()) bases.push_back(&managed);
  for (std::size_t round = 0; round < 10; ++round) {
    memory_resource* const base = bases[round % bases.size()];
    INFO("base " << round % bases.size() << " of pool, hipMalloc, host and managed memory");
    std::vector<const test::adaptor_kind*> kinds;
    for (std::size_t layer = 3 + test::below(generator, 4); layer > 0; --layer) {
      const test::adaptor_kind* kind = nullptr;
      do kind = &test::adaptor_kinds[test::below(generator, test::adaptor_kinds.size())];
      while (kind->is_for_managed_memory && base != &managed);
      kinds.push_back(kind);
    }
    keep_contract(*base, kinds);
  }
}

TEST_CASE("aligned_resource_adaptor: gives every sub-allocator alignments up to 2 MiB") {
  vmm_pool_resource pool{first_device, {.maximum_bytes = 64 * MiB}};
  hip_resource plain{first_device};
  arena_resource arena{&plain, 64 * MiB};
  fixed_size_resource fixed{&plain, 6 * MiB, 2};
  binning_resource bins{&arena};
  bins.add_bin(16 * KiB);
  bins.add_bin(6 * MiB, &fixed);
  const stream used{first_device};
  const test::error_recorder told;
  for (memory_resource* const upstream :
       std::initializer_list<memory_resource*>{&pool, &arena, &fixed, &bins}) {
    statistics_resource_adaptor below{upstream};
    for (const std::size_t alignment : {4 * KiB, 64 * KiB, 2 * MiB}) {
      // By the adaptor for all requests, and by the request.
      aligned_resource_adaptor all{&below, alignment};
      aligned_resource_adaptor some{&below};
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, alignment + 1}) {
        CAPTURE(alignment);
        CAPTURE(bytes);
        void* const one = all.allocate(used, bytes);
        void* const other = some.allocate(used, bytes, alignment);
        CHECK(reinterpret_cast<std::uintptr_t>(one) % alignment == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(other) % alignment == 0);
        fill_async(used, one, 1, bytes);
        fill_async(used, other, 2, bytes);
        all.deallocate(used, one, bytes);
        some.deallocate(used, other, bytes, alignment);
      }
    }
    CHECK(below.get_bytes_counter().value == 0);
  }
  CHECK(told.count() == 0);
}

TEST_CASE("owning_wrapper: keeps its upstreams until what stands on them is gone") {
  struct upper final : resource_adaptor {
    upper(memory_resource* lower, test::paper_resource* other, std::size_t& seen)
        : resource_adaptor{"upper", lower}, other_{other}, seen_{seen} {}
    ~upper() override { seen_ = other_->bytes_out(); }
    test::paper_resource* other_;
    std::size_t& seen_;
  };
  auto lower = std::make_shared<test::paper_resource>();
  auto other = std::make_shared<test::paper_resource>();
  const std::weak_ptr<test::paper_resource> lower_life{lower};
  const std::weak_ptr<test::paper_resource> other_life{other};
  CHECK(other->allocate_sync(KiB) != nullptr);
  std::size_t seen = 0;
  auto wrapper = make_owning_wrapper<upper>(std::make_tuple(lower, other), seen);
  lower.reset();
  other.reset();
  wrapper->deallocate_sync(wrapper->allocate_sync(KiB), KiB);
  CHECK_FALSE(lower_life.expired());
  wrapper.reset();
  CHECK(seen == KiB);
  CHECK(lower_life.expired());
  CHECK(other_life.expired());
}

TEST_CASE("owning_wrapper: wraps wrappers, one upstream and none, and gives what it wraps") {
  const auto plain = make_owning_wrapper<hip_resource>(std::tuple<>{}, first_device);
  const auto limited = make_owning_wrapper<limiting_resource_adaptor>(plain, KiB);
  CHECK(limited->device() == first_device);
  CHECK(limited->wrapped().get_allocation_limit() == KiB);
  CHECK(limited->get_upstream_resource() == &limited->wrapped());
  void* const block = limited->allocate_sync(KiB);
  CHECK(limited->wrapped().get_allocated_bytes() == KiB);
  CHECK_THROWS_AS(limited->allocate_sync(1), out_of_memory);
  limited->deallocate_sync(block, KiB);
}

TEST_CASE("owning_wrapper: an upstream that is empty is refused by what would stand on it") {
  CHECK_THROWS_WITH_AS(
      make_owning_wrapper<limiting_resource_adaptor>(std::shared_ptr<hip_resource>{}, KiB),
      doctest::Contains("limiting_resource_adaptor"), std::invalid_argument);
}

}  // namespace hipvmm::mr
