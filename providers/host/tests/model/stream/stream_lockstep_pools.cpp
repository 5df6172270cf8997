// SPDX-License-Identifier: MIT
// Pools of HIP's own in lockstep.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "providers/host/tests/fixtures.hpp"
#include "stream_lockstep.hpp"

namespace hipvmm::test::model {

void stream_lockstep::create_pool() {
  const std::size_t slot = below(pool_slots);
  auto& pool = model_.pools[slot];
  if (model_.is_any_captured() || pool.handle != nullptr) return;
  hipMemPoolProps wanted{};
  wanted.allocType = hipMemAllocationTypePinned;
  wanted.location = {hipMemLocationTypeDevice, 0};
  const std::size_t fault = below(8);
  if (fault == 3 && model_.rules.follows_null_properties) return;
  if (fault == 1) wanted.allocType = not_an_enumerator<hipMemAllocationType>(77);
  says("pool[%zu] = hipMemPoolCreate(), fault %zu", slot, fault);
  hipMemPool_t made = nullptr;
  const bool is_good = fault == 0 || fault > 3;
  if (is(is_good ? hipSuccess : hipErrorInvalidValue,
         hipMemPoolCreate(fault == 2 ? nullptr : &made, fault == 3 ? nullptr : &wanted)))
    pool = {made};
}

void stream_lockstep::destroy_pool() {
  const std::size_t slot = below(pool_slots);
  auto& pool = model_.pools[slot];
  const bool has_blocks = std::any_of(model_.blocks.begin(), model_.blocks.end(),
                                      [](const auto& each) { return each.pointer != nullptr; });
  if (model_.is_any_captured() || has_blocks || !one_in(3)) return;
  says("hipMemPoolDestroy(pool[%zu])", slot);
  if (is(pool.handle != nullptr ? hipSuccess : hipErrorInvalidValue,
         hipMemPoolDestroy(pool.handle)))
    pool = {};
}

void stream_lockstep::set_attribute() {
  auto& pool = model_.pools[below(pool_slots)];
  if (model_.is_any_captured() || pool.handle == nullptr) return;
  const int which = one_of({1, 2, 3, 4, 4, 5, 6, 6, 99});
  const bool has_value = !one_in(8);
  std::uint64_t value = one_of<std::uint64_t>({0, 1, 4096});
  says("hipMemPoolSetAttribute(attribute %d, %s%zu)", which, has_value ? "" : "null ",
       static_cast<std::size_t>(value));
  const bool is_mark_reset = which == 6 && value == 0 && model_.rules.resets_reserved_mark;
  const bool is_good = has_value && (which <= 4 || is_mark_reset);
  if (!is(is_good ? hipSuccess : hipErrorInvalidValue,
          hipMemPoolSetAttribute(pool.handle, not_an_enumerator<hipMemPoolAttr>(which),
                                 has_value ? &value : nullptr)))
    return;
  if (which <= 3)
    pool.reuse[static_cast<std::size_t>(which - 1)] = model_.rules.switches_by_lowest_bit
                                                          ? static_cast<int>(value & 1)
                                                          : static_cast<int>(value != 0);
  if (which == 4) pool.threshold = value;
}

void stream_lockstep::get_attribute() {
  const auto& pool = model_.pools[below(pool_slots)];
  if (model_.is_any_captured() || pool.handle == nullptr) return;
  const int which = one_of({1, 2, 3, 4, 5, 6, 7, 8, 99});
  const bool has_value = !one_in(8);
  says("hipMemPoolGetAttribute(attribute %d%s)", which, has_value ? "" : ", null");
  std::uint64_t value = 0;
  if (!is(has_value && which <= 8 ? hipSuccess : hipErrorInvalidValue,
          hipMemPoolGetAttribute(pool.handle, not_an_enumerator<hipMemPoolAttr>(which),
                                 has_value ? &value : nullptr)))
    return;
  if (which <= 3) {
    const int expected = pool.reuse[static_cast<std::size_t>(which - 1)];
    holds(expected < 0 || static_cast<int>(value) == expected, "another reuse switch");
  }
  if (which == 4) holds(value == pool.threshold, "another threshold");
}

void stream_lockstep::trim() {
  const auto& pool = model_.pools[below(pool_slots)];
  if (model_.is_any_captured()) return;
  says("hipMemPoolTrimTo(%s)", pool.handle != nullptr ? "" : "null");
  is(pool.handle != nullptr ? hipSuccess : hipErrorInvalidValue,
     hipMemPoolTrimTo(pool.handle, one_of<std::size_t>({0, 4096, std::size_t{1} << 30U})));
}

void stream_lockstep::allocate() {
  auto& block = model_.blocks[below(block_slots)];
  const auto& pool = model_.pools[below(pool_slots)];
  const std::size_t in = below(2);
  if (model_.is_any_captured() || block.pointer != nullptr) return;
  const bool is_of_pool = pool.handle != nullptr && one_in(2);
  const bool has_result = !one_in(10);
  const auto bytes = one_of<std::size_t>({0, 1, 4096, 100'000, std::size_t{3} << 20U});
  says("%s(%s, %zu bytes, stream %zu)", is_of_pool ? "hipMallocFromPoolAsync" : "hipMallocAsync",
       has_result ? "" : "null", bytes, in);
  void* given = nullptr;
  void** const result = has_result ? &given : nullptr;
  if (!is(has_result ? hipSuccess : hipErrorInvalidValue,
          is_of_pool ? hipMallocFromPoolAsync(result, bytes, pool.handle, model_.streams[in])
                     : hipMallocAsync(result, bytes, model_.streams[in])))
    return;
  holds((given != nullptr) == (bytes != 0), "no address, or one for no bytes");
  if (given == nullptr) return;
  must(hipMemsetAsync(given, 3, bytes, model_.streams[in]));
  must(hipStreamSynchronize(model_.streams[in]));
  block = {given, in};
}

void stream_lockstep::deallocate() {
  auto& block = model_.blocks[below(block_slots)];
  if (model_.is_any_captured() || block.pointer == nullptr) return;
  const std::size_t in = one_in(3) ? 1 - block.stream : block.stream;
  says("hipFreeAsync(stream %zu of a block of stream %zu)", in, block.stream);
  if (is(hipSuccess, hipFreeAsync(block.pointer, model_.streams[in]))) block = {};
  must(hipStreamSynchronize(model_.streams[in]));
}

}  // namespace hipvmm::test::model
