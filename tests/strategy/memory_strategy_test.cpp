// SPDX-License-Identifier: MIT
#include "strategy/memory_strategy.hpp"

#include "capability/capability.hpp"
#include "support/test.hpp"

namespace hipvmm::detail {
namespace {

/// The record of a device without defects, but for those that `missing` names.
capability without(std::initializer_list<trait> missing, int descriptors = 0) {
  auto made = std::make_shared<capability::record>();
  for (std::size_t i = 0; i < trait_count; ++i)
    made->set(static_cast<trait>(i), finding::yes, "so it is", persistence::lasting);
  for (const trait each : missing)
    made->set(each, finding::no, "seen: no " + std::string{name_of(each)}, persistence::lasting);
  made->descriptors_per_chunk = descriptors;
  made->conclude();
  return capability{std::move(made)};
}

constexpr device_ref first{0};
constexpr device_ref second{1};

TEST_CASE("memory_strategy: devices without defects need nothing") {
  const memory_strategy all{{{first, without({})}, {second, without({})}}};
  CHECK(!all.pins_memory);
  CHECK(!all.pins(first));
  CHECK(all.returns_memory);
  CHECK(all.unmaps_runs(first));
  CHECK(!all.unmaps_runs(device_ref{2}));
  CHECK(all.rights.takes_any_mapping);
  CHECK(all.rights.takes_runs);
  CHECK(all.mapping_check == map_check::trusted);
  CHECK(all.visible_after.count() == 0);
  CHECK(all.second_address);
  CHECK(all.extends_in_place);
  for (const ability& each : {all.host_chunks, all.host_node_chunks, all.uncached_chunks,
                              all.retained_chunks, all.peer_copies})
    CHECK_NOTHROW(each.require("a test"));
  CHECK(all.descriptors_per_chunk == 0);
  CHECK(all.host_reads);
  CHECK(all.hip_pools_keep_order);
  CHECK(all.has(second));
  CHECK(!all.has(device_ref{2}));
}

TEST_CASE("memory_strategy: the strictest answer of the devices counts, in any order") {
  using enum trait;
  const capability strict =
      without({tail_access, reports_failed_map, visible_at_once, returns_memory, coherent_aliases,
               crosses_reservations, uncached_chunks, retains_chunks, host_access, peer_copies,
               pool_frees_return});
  for (const bool is_first : {false, true}) {
    memory_strategy::record_list owners{{first, is_first ? strict : without({})},
                                        {second, is_first ? without({}) : strict}};
    const device_ref lacking = is_first ? first : second;
    const memory_strategy all{std::move(owners)};
    CHECK(all.pins_memory);
    CHECK(all.pins(first) == is_first);
    CHECK(all.pins(second) != is_first);
    CHECK(all.returns_memory);
    CHECK(!all.rights.takes_any_mapping);
    CHECK(all.rights.takes_runs);
    CHECK(all.rights.refusing == lacking);
    CHECK(*all.rights.why == "seen: no tail_access");
    CHECK(all.mapping_check == map_check::verified);
    CHECK(all.visible_after > std::chrono::nanoseconds{0});
    CHECK(!all.second_address);
    CHECK(!all.extends_in_place);
    CHECK(!all.uncached_chunks);
    CHECK(!all.retained_chunks);
    CHECK(!all.host_reads);
    CHECK(!all.peer_copies);
    CHECK(!all.hip_pools_keep_order);
    const std::string message = "f: device " + std::to_string(lacking.ordinal()) +
                                " makes no uncached chunks: seen: no uncached_chunks; go";
    CHECK_THROWS_WITH_AS(all.uncached_chunks.require("f", "; go"), message.c_str(), unsupported);
  }
}

TEST_CASE(
    "memory_strategy: chunks of the host are those of the first device, unmaps those of each") {
  using enum trait;
  const capability strict = without({unmaps_many, host_chunks, host_node_chunks}, 1);
  const memory_strategy own{{{first, strict}, {second, without({})}}};
  const memory_strategy other{{{first, without({})}, {second, strict}}};
  CHECK(!own.unmaps_runs(first));
  CHECK(own.unmaps_runs(second));
  CHECK(!own.host_chunks);
  CHECK(!own.host_node_chunks);
  CHECK(own.descriptors_per_chunk == 1);
  CHECK(other.unmaps_runs(first));
  CHECK(other.host_chunks);
  CHECK(other.host_node_chunks);
  CHECK(other.descriptors_per_chunk == 0);
}

TEST_CASE("memory_strategy: a device that never returns memory pins none, and is named") {
  const memory_strategy all{
      {{first, without({trait::returns_memory, trait::returns_with_addresses})}}};
  CHECK(!all.pins_memory);
  CHECK_THROWS_AS(all.returns_memory.require("suspend"), unsupported);
}

TEST_CASE("memory_strategy: the dearest device sets the prices") {
  const auto priced = [](call_costs costs) {
    auto made = std::make_shared<capability::record>();
    made->costs = costs;
    return capability{std::move(made)};
  };
  const memory_strategy all{
      {{first, priced({0, 100, 20, 3, 9, 0, 0})}, {second, priced({0, 1, 1, 1, 10, 0, 0})}}};
  CHECK(all.prices.growth.count() == 123);
  CHECK(all.prices.unmap.count() == 10);
}
}  // namespace
}  // namespace hipvmm::detail
