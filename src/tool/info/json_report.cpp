// SPDX-License-Identifier: MIT
#include "tool/info/json_report.hpp"

#include <nlohmann/json.hpp>

#include "strategy/call_prices.hpp"

namespace hipvmm::tool {
namespace {

using json = nlohmann::ordered_json;

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json(nullptr);
}

json version(int number) { return {{"number", number}, {"text", version_text(number)}}; }

json costs(const call_costs& ns) {
  return {{"reserve", ns.reserve}, {"create", ns.create},
          {"map", ns.map},         {"set_access", ns.set_access},
          {"unmap", ns.unmap},     {"release", ns.release},
          {"free", ns.free}};
}

json prices(const capability& memory) {
  const detail::call_prices prices{memory.costs()};
  return {{"growth_ns", prices.growth.count()},
          {"unmap_ns", prices.unmap.count()},
          {"unmaps_in_requests", prices.unmaps_in_requests()},
          {"patience_ns", prices.patience().count()},
          {"chunks_of_trim", prices.chunks_of_trim()}};
}

json quirks(const capability& memory) {
  json result = json::array();
  for (const quirk each : memory.quirks()) result.push_back(name_of(each));
  return result;
}

json reasons(const capability& memory) {
  json result = json::object();
  for (std::size_t i = 0; i < trait_count; ++i) {
    const auto which = static_cast<trait>(i);
    result[std::string{name_of(which)}] = {{"finding", name_of(memory[which])},
                                           {"reason", memory.reason(which)}};
  }
  return result;
}

json peers(const device_facts& known) {
  json result = json::array();
  for (const peer_link& link : known.links)
    if (link.can_access) result.push_back(link.peer.ordinal());
  return result;
}

json links(const device_facts& known) {
  json result = json::array();
  for (const peer_link& link : known.links)
    result.push_back(
        {{"peer", link.peer.ordinal()},
         {"can_access", link.can_access},
         {"type", link.type == link_type::unknown ? json(nullptr) : json(name_of(link.type))},
         {"hops", or_null(link.hops)},
         {"performance_rank", or_null(link.performance_rank)},
         {"access_supported", or_null(link.access_supported)},
         {"native_atomics", or_null(link.native_atomics)},
         {"array_access", or_null(link.array_access)}});
  return result;
}

json device(const device_facts& known) {
  const capability& memory = known.memory;
  return {{"ordinal", known.device.ordinal()},
          {"name", known.name},
          {"uuid", known.uuid ? json(to_string(*known.uuid)) : json(nullptr)},
          {"lanes", known.lanes},
          {"memory", {{"total", known.total_bytes}, {"free", known.free_bytes}}},
          {"peers", peers(known)},
          {"links", links(known)},
          {"path", name_of(memory.path())},
          {"why_fallback", memory.why_fallback()},
          {"quirks", quirks(memory)},
          {"granularity",
           {{"minimum", memory.minimum_granularity()},
            {"recommended", memory.recommended_granularity()}}},
          {"descriptors_per_chunk", memory.descriptors_per_chunk()},
          {"visibility_delay_ns", memory.visibility_delay().count()},
          {"costs_ns", costs(memory.costs())},
          {"pools", prices(memory)},
          {"reasons", reasons(memory)},
          {"origin", memory.origin()},
          {"fingerprint", memory.fingerprint()}};
}

}  // namespace

std::string json_report(const facts& known) {
  const process_facts& process = known.process;
  json variables = json::object();
  for (const auto& [name, value] : process.environment) variables[name] = value;
  json result = {{"hipvmm", process.library},
                 {"provider", {{"name", process.provider}, {"built_with", process.built_with}}},
                 {"runtime", version(process.runtime_version)},
                 {"driver", version(process.driver_version)},
                 {"kernel", process.kernel},
                 {"limits",
                  {{"descriptors",
                    {{"open", process.open_descriptors},
                     {"soft", process.soft_descriptors},
                     {"hard", process.hard_descriptors}}},
                   {"max_map_count", or_null(process.mappings)},
                   {"largest_reservation", or_null(process.addresses)}}},
                 {"environment", std::move(variables)},
                 {"devices", json::array()}};
  for (const device_facts& each : known.devices) result["devices"].push_back(device(each));
  for (const failed_device& each : known.failed)
    result["failed"].push_back({{"ordinal", each.device.ordinal()}, {"error", each.why}});
  // Text from the environment need not be UTF-8.
  return result.dump(2, ' ', true, json::error_handler_t::replace) + '\n';
}

}  // namespace hipvmm::tool
