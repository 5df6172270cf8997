// SPDX-License-Identifier: MIT
#include <hipvmm/compat/memory_viz.hpp>

#include <nlohmann/json.hpp>

#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/blocked_stream.hpp"
#include "support/test.hpp"

namespace hipvmm::mr {
namespace {

using nlohmann::json;
using test::first_device;

std::uintptr_t number_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// The block at an address; one of no bytes if none begins there.
pool_snapshot::block block_at(const pool_snapshot& seen, const void* pointer) {
  for (const auto& one : seen.segments)
    for (const auto& each : one.blocks)
      if (each.address == number_of(pointer)) return each;
  return {};
}

/// Whether blocks fill their segments without gaps, and segments are in order.
bool is_sound(const pool_snapshot& seen) {
  std::uintptr_t last = 0;
  for (const auto& one : seen.segments) {
    if (seen.address != 0 && one.address < last) return false;
    std::uintptr_t at = one.address;
    for (const auto& each : one.blocks) {
      if (each.address != at || each.bytes == 0) return false;
      at += each.bytes;
    }
    if (at != one.address + one.bytes) return false;
    last = at;
  }
  return true;
}

std::size_t bytes_of(const pool_snapshot& seen) {
  std::size_t sum = 0;
  for (const auto& one : seen.segments) sum += one.bytes;
  return sum;
}

/// Goes back through a trace from the segments, as the viewer does: each step must find the
/// memory that it takes away. Returns the addresses allocated before the first entry.
std::map<std::uintptr_t, std::size_t> go_back(const json& snapshot, int device) {
  std::map<std::uintptr_t, std::size_t> mapped;  // bytes by address, merged if they touch
  std::map<std::uintptr_t, std::size_t> allocated;
  const auto add = [&](std::uintptr_t from, std::size_t bytes) {
    auto at = mapped.emplace(from, bytes).first;
    if (const auto next = std::next(at); next != mapped.end() && from + bytes == next->first) {
      at->second += next->second;
      mapped.erase(next);
    }
    if (at != mapped.begin()) {
      const auto before = std::prev(at);
      if (before->first + before->second == from) {
        before->second += at->second;
        mapped.erase(at);
      }
    }
  };
  const auto around = [&](std::uintptr_t from, std::size_t bytes) {
    auto at = mapped.upper_bound(from);
    REQUIRE(at != mapped.begin());
    --at;
    REQUIRE(from + bytes <= at->first + at->second);
    return at;
  };
  for (const json& one : snapshot["segments"]) {
    if (one["device"] != device) continue;
    add(one["address"], one["total_size"]);
    std::uintptr_t at = one["address"];
    for (const json& each : one["blocks"]) {
      CHECK(each["address"] == at);
      if (each["state"] == "active_allocated") allocated[at] = each["requested_size"];
      at += each["size"].get<std::size_t>();
    }
  }
  const json& trace = snapshot["device_traces"][static_cast<std::size_t>(device)];
  for (auto each = trace.rbegin(); each != trace.rend(); ++each) {
    const std::string action = (*each)["action"];
    const std::uintptr_t at = (*each)["addr"];
    const std::size_t bytes = (*each)["size"];
    if (action == "alloc") {
      static_cast<void>(around(at, bytes));
      REQUIRE(allocated.count(at) == 1);
      CHECK(allocated[at] == bytes);
      allocated.erase(at);
    } else if (action == "free_completed") {
      static_cast<void>(around(at, bytes));
      CHECK(allocated.emplace(at, bytes).second);
    } else if (action == "segment_unmap") {
      add(at, bytes);
    } else if (action == "segment_map") {
      const auto found = around(at, bytes);
      const std::uintptr_t begin = found->first;
      const std::uintptr_t end = begin + found->second;
      mapped.erase(found);
      if (begin != at) mapped.emplace(begin, at - begin);
      if (at + bytes != end) mapped.emplace(at + bytes, end - at - bytes);
    }
  }
  return allocated;
}

}  // namespace

TEST_CASE("pool_snapshot: it lists what is allocated, cached, pending and idle") {
  vmm_pool_resource pool{first_device};
  const stream stream{first_device};
  void* const small = pool.allocate(stream, 1000);
  void* const large = pool.allocate(stream, 3 * MiB);
  void* const freed = pool.allocate(stream, 5 * MiB);
  void* const cached = pool.allocate(stream, 2000);
  pool.deallocate(stream, cached, 2000);
  {
    const pool_snapshot seen = pool.snapshot();
    CHECK(is_sound(seen));
    CHECK(seen.pool == pool.event_id());
    CHECK(seen.device == first_device.ordinal());
    CHECK(block_at(seen, small).use == block_use::allocated);
    CHECK(block_at(seen, small).bytes >= 1000);
    CHECK(block_at(seen, small).stream == number_of(stream.get()));
    CHECK(block_at(seen, large).bytes == 3 * MiB);
    CHECK(block_at(seen, cached).use == block_use::cached);
    CHECK(seen.bytes_of(block_use::allocated) == pool.statistics().used_current);
    CHECK(bytes_of(seen) == pool.statistics().mapped_bytes);
  }
  pool.deallocate_sync(freed, 5 * MiB);
  CHECK(block_at(pool.snapshot(), freed).bytes != 0);
  pool.deallocate(stream, large, 3 * MiB);
  pool.deallocate(stream, small, 1000);
  pool.set_release_threshold(std::size_t{1} << 40);  // empties the caches
  const pool_snapshot empty = pool.snapshot();
  CHECK(is_sound(empty));
  CHECK(empty.bytes_of(block_use::allocated) == 0);
  CHECK(empty.bytes_of(block_use::cached) == 0);
  stream.synchronize();
  static_cast<void>(pool.trim_to(0));
  CHECK(bytes_of(pool.snapshot()) == pool.statistics().mapped_bytes);
}

TEST_CASE("pool_snapshot: memory of work under way is pending") {
  vmm_pool_resource pool{first_device};
  test::blocked_stream stream{first_device};
  void* const used = pool.allocate(stream, 40 * MiB);
  pool.deallocate(stream, used, 40 * MiB);
  pool.set_release_threshold(std::size_t{1} << 40);  // empties the caches
  const pool_snapshot seen = pool.snapshot();
  CHECK(seen.bytes_of(block_use::pending) >= 40 * MiB);
  CHECK(seen.bytes_of(block_use::allocated) == 0);
}

TEST_CASE("memory_viz_json: segments and blocks are those of the pool") {
  vmm_pool_resource pool{first_device};
  arena_resource arena{&pool};
  const stream stream{first_device};
  void* const one = pool.allocate(stream, 3 * MiB);
  void* const two = arena.allocate(stream, MiB);
  const std::vector<pool_snapshot> seen{pool.snapshot(), arena.snapshot()};
  const json parsed = json::parse(memory_viz_json(seen));
  std::size_t segments = 0;
  for (const pool_snapshot& each : seen) segments += each.segments.size();
  REQUIRE(parsed["segments"].size() == segments);
  REQUIRE(parsed["device_traces"].size() == 1);
  CHECK(parsed["device_traces"][0].empty());
  std::size_t allocated = 0;
  std::size_t total = 0;
  std::map<std::uintptr_t, std::string> states;
  for (const json& segment : parsed["segments"]) {
    allocated += segment["allocated_size"].get<std::size_t>();
    total += segment["total_size"].get<std::size_t>();
    CHECK(segment["device"] == first_device.ordinal());
    for (const json& block : segment["blocks"]) states[block["address"]] = block["state"];
  }
  CHECK(total == bytes_of(seen[0]) + bytes_of(seen[1]));
  CHECK(allocated == seen[0].bytes_of(block_use::allocated) + MiB);
  CHECK(states[number_of(one)] == "active_allocated");
  CHECK(states[number_of(two)] == "active_allocated");
  arena.deallocate(stream, two, MiB);
  pool.deallocate(stream, one, 3 * MiB);
}

TEST_CASE("memory_viz_json: events go back from the snapshot to nothing allocated") {
  drain_retired_memory();  // the end of memory of earlier cases is an event too
  memory_event_subscription events;
  vmm_pool_resource pool{first_device};
  vmm_pool_resource other{first_device};
  const stream stream{first_device};
  std::vector<void*> blocks;
  for (std::size_t i = 1; i <= 12; ++i) blocks.push_back(pool.allocate(stream, i * 777'000));
  for (std::size_t i = 1; i <= 12; i += 2) pool.deallocate(stream, blocks[i - 1], i * 777'000);
  void* const elsewhere = other.allocate(stream, MiB);
  void* const moved_for = pool.allocate(stream, 20 * MiB);
  pool.deallocate(stream, moved_for, 20 * MiB);
  stream.synchronize();
  static_cast<void>(pool.trim_to(0));
  void* const last = pool.allocate(stream, 100);
  // A thread of the pool unmaps the old addresses of chunks, which is an event, too.
  const auto is_mapped_twice = [&] {
    const pool_statistics now = pool.statistics();
    return now.mapped_bytes != now.reserved_current;
  };
  REQUIRE(test::comes_true([&] { return !is_mapped_twice(); }));
  const pool_snapshot seen = pool.snapshot();
  const json parsed = json::parse(memory_viz_json({seen}, events.read()));

  std::map<std::uintptr_t, std::size_t> requested;
  for (const json& segment : parsed["segments"])
    for (const json& block : segment["blocks"])
      if (block["state"] == "active_allocated")
        requested[block["address"]] = block["requested_size"];
  CHECK(requested.size() == 7);
  CHECK(requested[number_of(last)] == 100);
  CHECK(requested[number_of(blocks[1])] == 2 * 777'000);
  CHECK(go_back(parsed, first_device.ordinal()).empty());

  other.deallocate(stream, elsewhere, MiB);
  pool.deallocate(stream, last, 100);
  for (std::size_t i = 2; i <= 12; i += 2) pool.deallocate(stream, blocks[i - 1], i * 777'000);
}

TEST_CASE("memory_viz_json: a request that was refused is an oom") {
  vmm_pool_resource pool{first_device, {.maximum_bytes = 64 * MiB}};
  memory_event_subscription events;
  CHECK_THROWS_AS(static_cast<void>(pool.allocate_sync(GiB)), std::bad_alloc);
  const json parsed = json::parse(memory_viz_json({pool.snapshot()}, events.read()));
  const json& trace = parsed["device_traces"][0];
  REQUIRE(trace.size() == 1);
  CHECK(trace[0]["action"] == "oom");
  CHECK(trace[0]["size"] == GiB);
  CHECK(trace[0].contains("device_free"));
}

TEST_CASE("memory_viz_json: no pools and no events are an empty snapshot") {
  const json parsed = json::parse(memory_viz_json({}));
  CHECK(parsed["segments"].empty());
  CHECK(parsed["device_traces"].empty());
  CHECK(parsed["allocator_settings"].is_object());
}

}  // namespace hipvmm::mr
