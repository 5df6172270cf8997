// SPDX-License-Identifier: MIT
#include <hipvmm/compat/memory_viz.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace hipvmm {
namespace {

/// JSON of numbers, and of strings that need no escapes.
class viz_json {
 public:
  [[nodiscard]] static viz_json object() { return viz_json{'{', '}'}; }
  [[nodiscard]] static viz_json list() { return viz_json{'[', ']'}; }

  viz_json& add(const std::string& value) {
    if (text_.size() > 1) text_ += ',';
    text_ += value;
    return *this;
  }
  viz_json& member(const char* name, const std::string& value) {
    return add('"' + std::string{name} + "\":" + value);
  }
  template <typename Number>
  viz_json& number(const char* name, Number value) {
    return member(name, std::to_string(value));
  }
  viz_json& string(const char* name, std::string_view value) {
    return member(name, '"' + std::string{value} + '"');
  }
  [[nodiscard]] std::string text() const { return text_ + close_; }

 private:
  viz_json(char open, char close) : text_{open}, close_{close} {}

  std::string text_;
  char close_;
};

using requested_sizes = std::map<std::uintptr_t, std::size_t>;

const char* viz_state(mr::block_use use) {
  return use == mr::block_use::allocated ? "active_allocated" : "inactive";
}

std::size_t requested_of(const mr::pool_snapshot::block& one, const requested_sizes& sizes) {
  const auto known = sizes.find(one.address);
  return known == sizes.end() ? one.bytes : std::min(known->second, one.bytes);
}

std::string viz_segment(const mr::pool_snapshot& pool, const mr::pool_snapshot::segment& one,
                        const requested_sizes& sizes) {
  viz_json blocks = viz_json::list();
  std::size_t allocated = 0;
  std::size_t requested = 0;
  for (const mr::pool_snapshot::block& each : one.blocks) {
    const bool is_allocated = each.use == mr::block_use::allocated;
    const std::size_t size = is_allocated ? requested_of(each, sizes) : each.bytes;
    if (is_allocated) {
      allocated += each.bytes;
      requested += size;
    }
    blocks.add(viz_json::object()
                   .number("address", each.address)
                   .number("size", each.bytes)
                   .number("requested_size", size)
                   .string("state", viz_state(each.use))
                   .member("frames", "[]")
                   .text());
  }
  // Blocks of all streams share a segment.
  return viz_json::object()
      .number("device", pool.device)
      .number("address", one.address)
      .number("total_size", one.bytes)
      .number("allocated_size", allocated)
      .number("active_size", allocated)
      .number("requested_size", requested)
      .number("stream", 0)
      .string("segment_type", "large")
      .member("segment_pool_id", "[0," + std::to_string(pool.pool) + "]")
      .member("is_expandable", pool.address != 0 ? "true" : "false")
      .member("frames", "[]")
      .member("blocks", blocks.text())
      .text();
}

bool is_in(const mr::pool_snapshot::segment& one, std::uintptr_t address) {
  return address - one.address < one.bytes;
}

bool belongs_to(const memory_event& event, const mr::pool_snapshot& pool) {
  if (event.time_ns > pool.time_ns || event.device != pool.device) return false;
  if (event.source == memory_event_source::mapping)
    return pool.address != 0 && event.address - pool.address < pool.address_bytes;
  if (event.source != memory_event_source::pool || event.object != pool.pool) return false;
  return pool.address != 0 || event.kind == memory_event_kind::out_of_memory ||
         std::ranges::any_of(pool.segments,
                             [&](const auto& one) { return is_in(one, event.address); });
}

std::string viz_entry(const char* action, const memory_event& event, std::uintptr_t stream) {
  viz_json entry = viz_json::object();
  entry.string("action", action)
      .number("addr", event.address)
      .number("size", event.bytes)
      .number("stream", stream)
      .number("time_us", event.time_ns / 1000)
      .member("frames", "[]");
  // The viewer requires the member; events do not have it.
  if (event.kind == memory_event_kind::out_of_memory) entry.number("device_free", 0);
  return entry.text();
}

void add_entries(viz_json& trace, const memory_event& event) {
  switch (event.kind) {
    case memory_event_kind::allocate:
      trace.add(viz_entry("alloc", event, event.stream));
      break;
    case memory_event_kind::deallocate:
      trace.add(viz_entry("free_requested", event, event.stream));
      trace.add(viz_entry("free_completed", event, event.stream));
      break;
    case memory_event_kind::map:
      trace.add(viz_entry("segment_map", event, 0));
      break;
    case memory_event_kind::unmap:
      trace.add(viz_entry("segment_unmap", event, 0));
      break;
    case memory_event_kind::out_of_memory:
      trace.add(viz_entry("oom", event, event.stream));
      break;
    case memory_event_kind::grow:
    case memory_event_kind::trim:
    case memory_event_kind::grant:
    case memory_event_kind::revoke:
      break;
  }
}

void note_size(requested_sizes& sizes, const memory_event& event) {
  if (event.kind == memory_event_kind::allocate) sizes[event.address] = event.bytes;
  if (event.kind == memory_event_kind::deallocate) sizes.erase(event.address);
}

}  // namespace

std::string memory_viz_json(const std::vector<mr::pool_snapshot>& pools,
                            const std::vector<memory_event>& events) {
  int devices = 0;
  for (const mr::pool_snapshot& each : pools) devices = std::max(devices, each.device + 1);
  std::vector<viz_json> traces(static_cast<std::size_t>(devices), viz_json::list());
  requested_sizes sizes;
  for (const memory_event& event : events) {
    const bool is_shown = std::ranges::any_of(
        pools, [&](const mr::pool_snapshot& one) { return belongs_to(event, one); });
    if (!is_shown) continue;
    note_size(sizes, event);
    add_entries(traces[static_cast<std::size_t>(event.device)], event);
  }

  viz_json segments = viz_json::list();
  for (const mr::pool_snapshot& pool : pools)
    for (const auto& one : pool.segments) segments.add(viz_segment(pool, one, sizes));
  viz_json device_traces = viz_json::list();
  for (const viz_json& each : traces) device_traces.add(each.text());
  return viz_json::object()
             .member("segments", segments.text())
             .member("device_traces", device_traces.text())
             .member("allocator_settings", "{}")
             .text() +
         "\n";
}

}  // namespace hipvmm
