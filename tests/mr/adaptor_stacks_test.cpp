// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/failure_callback_resource_adaptor.hpp>
#include <hipvmm/mr/hip_resource.hpp>
#include <hipvmm/mr/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/owning_wrapper.hpp>
#include <hipvmm/mr/resource_contract.hpp>
#include <hipvmm/mr/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/thread_safe_resource_adaptor.hpp>
#include <hipvmm/mr/vmm_pool_resource.hpp>
#include "support/error_recorder.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::mr {
namespace {

const device_ref device{0};

using owned_resource = std::unique_ptr<memory_resource>;

/// A kind of adaptor, with arguments that do not stand in the way of the contract.
struct adaptor_kind {
  const char* name;
  owned_resource (*over)(memory_resource* upstream);
};

// A new adaptor is a line here.
const std::array adaptor_kinds{
    adaptor_kind{"aligned",
                 [](memory_resource* upstream) -> owned_resource {
                   return std::make_unique<aligned_resource_adaptor>(upstream, 4 * KiB, 1000);
                 }},
    adaptor_kind{"failure_callback",
                 [](memory_resource* upstream) -> owned_resource {
                   return std::make_unique<failure_callback_resource_adaptor>(
                       upstream, [](std::size_t, void*) { return false; });
                 }},
    adaptor_kind{"limiting",
                 [](memory_resource* upstream) -> owned_resource {
                   return std::make_unique<limiting_resource_adaptor>(upstream, 64 * MiB);
                 }},
    adaptor_kind{"owning_wrapper",
                 [](memory_resource* upstream) -> owned_resource {
                   // Owns nothing here.
                   std::shared_ptr<memory_resource> shared{std::shared_ptr<void>{}, upstream};
                   using wrapper = owning_wrapper<thread_safe_resource_adaptor, memory_resource>;
                   return std::make_unique<wrapper>(std::make_tuple(std::move(shared)));
                 }},
    adaptor_kind{"statistics",
                 [](memory_resource* upstream) -> owned_resource {
                   return std::make_unique<statistics_resource_adaptor>(upstream);
                 }},
    adaptor_kind{"thread_safe",
                 [](memory_resource* upstream) -> owned_resource {
                   return std::make_unique<thread_safe_resource_adaptor>(upstream);
                 }},
};

// Whether adaptors, the first of them lowest, keep the contract over `base`, have nothing out there
// behind it, and told the error handler nothing.
void keep_contract(memory_resource& base, const std::vector<const adaptor_kind*>& kinds) {
  statistics_resource_adaptor below{&base};
  std::vector<owned_resource> layers;
  memory_resource* top = &below;
  std::string order;
  for (const adaptor_kind* kind : kinds) {
    layers.push_back(kind->over(top));
    top = layers.back().get();
    order += std::string{" "} + kind->name;
  }
  INFO("adaptors, from the lowest to the uppermost:" << order);
  const test::error_recorder told;
  const contract_subject subject{*top, device, 128 * KiB};
  for (const contract_rule& rule : resource_contract()) {
    INFO(rule.name);
    CHECK_NOTHROW(rule.verify(subject));
  }
  CHECK(top->device() == device);
  CHECK(top->is_device_accessible() == base.is_device_accessible());
  CHECK(top->is_host_accessible() == base.is_host_accessible());
  while (!layers.empty()) layers.pop_back();
  CHECK(below.get_bytes_counter().value == 0);
  CHECK(below.get_allocations_counter().value == 0);
  CHECK(told.count() == 0);
}

}  // namespace

TEST_CASE("adaptors: each keeps the contract of a resource") {
  hip_resource base{device};
  for (const adaptor_kind& kind : adaptor_kinds) {
    SUBCASE(kind.name) { keep_contract(base, {&kind}); }
  }
}

TEST_CASE("adaptors: ten random stacks of three to six keep the contract") {
  std::mt19937 generator = test::seeded_generator();
  pool_options options;
  options.maximum_bytes = 64 * MiB;
  vmm_pool_resource pool{device, options};
  hip_resource plain{device};
  for (int round = 0; round < 10; ++round) {
    std::vector<const adaptor_kind*> kinds(3 + test::below(generator, 4));
    for (const adaptor_kind*& kind : kinds)
      kind = &adaptor_kinds[test::below(generator, adaptor_kinds.size())];
    const bool on_pool = round % 2 == 0;
    INFO("over a " << (on_pool ? "vmm_pool_resource" : "hip_resource"));
    memory_resource& base =
        on_pool ? static_cast<memory_resource&>(pool) : static_cast<memory_resource&>(plain);
    keep_contract(base, kinds);
  }
}

}  // namespace hipvmm::mr
