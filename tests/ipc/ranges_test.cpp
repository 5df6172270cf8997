// SPDX-License-Identifier: MIT
// Each public function that takes the start and the length of a range refuses a range that is not
// all there, also if the sum of both is small again because it wraps. A new one has a row here.
#include <hipvmm/hipvmm.h>
#include <hipvmm/serving.h>
#include <hipvmm/compat/registration.hpp>
#include <hipvmm/container/device_span.hpp>
#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/ipc/dma_buf.hpp>
#include <hipvmm/mr/resource/legacy_ipc.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "ipc/ipc_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

constexpr std::size_t most = std::numeric_limits<std::size_t>::max();

struct range {
  std::size_t first;
  std::size_t count;
};

/// Ranges in whole units that are not within `room`, which is a multiple of `unit`; `size` is that
/// of one element, whose product with the count wraps too.
std::vector<range> ranges_beyond(std::size_t room, std::size_t unit, std::size_t size = 1) {
  const std::size_t last = most / unit * unit;  // the largest multiple
  std::vector<range> result{
      {0, room + unit}, {room, unit}, {room + unit, unit}, {last, unit},
      {last, 2 * unit}, {last, last}, {unit, last},        {room, last - room + 2 * unit},
      {0, last}};
  if (size > 1) {
    const std::size_t product_wraps = most / size + 1;
    result.push_back({0, product_wraps});
    result.push_back({0, product_wraps + 1});
    result.push_back({1, product_wraps});
    result.push_back({product_wraps, 1});
  }
  return result;
}

/// Text of a range that `call` takes, or refuses by another exception than `Error`.
template <typename Error>
std::string not_refused(const std::vector<range>& ranges,
                        const std::function<void(std::size_t, std::size_t)>& call) {
  for (const auto& [first, count] : ranges) {
    const std::string text = std::to_string(count) + " from " + std::to_string(first);
    try {
      call(first, count);
    } catch (const Error&) {
      continue;
    } catch (const std::exception& other) {
      return text + ": " + other.what();
    }
    return text + " is taken";
  }
  return {};
}

TEST_CASE("ranges: those of a region that are not all in it are refused") {
  const std::size_t unit = granule();
  region memory{first_device, 4 * unit};
  const std::size_t room = memory.max_bytes();
  memory.commit(0, room);
  const stream in{first_device};
  const temporary_folder folder;
  publication published{(folder.path() / "socket").string(), first_device, room};
  const std::vector<range> beyond = ranges_beyond(room, unit);
  using call = std::function<void(std::size_t, std::size_t)>;
  for (const auto& [name, function] : std::vector<std::pair<const char*, call>>{
           {"commit", [&](auto first, auto count) { memory.commit(first, count); }},
           {"decommit", [&](auto first, auto count) { memory.decommit(first, count); }},
           {"decommit, in a stream",
            [&](auto first, auto count) { memory.decommit(first, count, in); }},
           {"export_range",
            [&](auto first, auto count) { static_cast<void>(memory.export_range(first, count)); }},
           {"set_access", [&](auto first, auto count) { memory.set_access(first, count, {}); }},
           {"effective_access",
            [&](auto first,
                auto count) { static_cast<void>(memory.effective_access(first, count)); }},
           {"move_range",
            [&](auto first, auto count) { memory.move_range(first, count, first_device, in); }},
           {"export_dma_bufs", [&](auto first, auto count) {
              static_cast<void>(export_dma_bufs(memory, first, count));
            }}}) {
    CAPTURE(name);
    CHECK(not_refused<std::out_of_range>(beyond, function) == "");
  }
  CHECK(not_refused<std::invalid_argument>(beyond, [&](auto first, auto count) {
          published.announce(memory, first, count, in);
        }) == "");
  CHECK(memory.committed_bytes() == room);
}

TEST_CASE("ranges: those of a vector that are not all in it are refused") {
  const stream in{first_device};
  growable_device_vector<int> numbers{first_device};
  const auto move = [&](auto first, auto count) {
    numbers.move_range(first, count, first_device, in);
  };
  const std::vector<range> beyond_all = ranges_beyond(numbers.max_size() * sizeof(int), granule());
  CHECK(not_refused<std::out_of_range>(beyond_all, move) == "");
  numbers.append({1, 2, 3, 4}, in);
  const std::vector<range> beyond = ranges_beyond(4, 1, sizeof(int));
  CHECK(not_refused<std::out_of_range>(
            beyond, [&](auto first, auto count) { numbers.erase(first, count, in); }) == "");
  CHECK(not_refused<std::logic_error>(
            {{5, 1}, {most, 1}, {most, most}, {0, most}, {4, most / 4 + 1}},
            [&](auto first, auto count) { numbers.insert(first, count, 7, in); }) == "");
  CHECK(not_refused<std::out_of_range>(beyond_all, move) == "");
  CHECK(not_refused<std::out_of_range>(beyond, [&](auto first, auto count) {
          static_cast<void>(device_span<const int>{numbers}.subspan(first, count));
        }) == "");
  CHECK(not_refused<std::length_error>(
            {{sizeof(int), most / 4 + 1}, {8, most / 8 + 2}}, [&](auto bytes, auto count) {
              const std::uint64_t pattern = 1;
              fill_pattern_async(in, numbers.data(), &pattern, bytes, count);
            }) == "");
  CHECK(numbers.copy_to_host(in) == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("ranges: those of slots, blocks and registered memory are refused") {
  const stream in{first_device};
  slot_arena arena{first_device, {.slots = 2, .bytes_per_slot = 4 * granule()}};
  const std::size_t slot = arena.acquire(in);
  arena.commit(std::vector<std::size_t>{slot}, std::vector<std::size_t>{1000}, in);
  const std::vector<range> beyond = ranges_beyond(1000, 1);
  CHECK(not_refused<std::out_of_range>(beyond, [&](auto first, auto count) {
          arena.make_writable(slot, first, count, in);
        }) == "");
  const device_allocation block{first_device, 1000};
  CHECK(not_refused<std::invalid_argument>(beyond, [&](auto first, auto count) {
          static_cast<void>(mr::export_legacy_block(block, first, count));
        }) == "");
  const std::vector<registered_bytes> chunks{{0, 1000, 0}, {most - 999, 999, 1}};
  CHECK(not_refused<std::out_of_range>(beyond, [&](auto first, auto count) {
          static_cast<void>(cut_by_chunk(chunks, first, count));
        }) == "");
}

TEST_CASE("ranges: those that the C interface is given are refused") {
  hipvmm_buffer buffer{};
  REQUIRE(hipvmm_buffer_create(first_device.ordinal(), nullptr, &buffer) == HIPVMM_OK);
  std::vector<char> bytes(1000);
  REQUIRE(hipvmm_buffer_append(buffer, bytes.data(), 1000, nullptr) == HIPVMM_OK);
  for (const auto& [first, count] : ranges_beyond(1000, 1)) {
    CAPTURE(first);
    CAPTURE(count);
    CHECK(hipvmm_buffer_read(buffer, first, bytes.data(), count, nullptr) ==
          HIPVMM_ERROR_OUT_OF_RANGE);
    CHECK(hipvmm_buffer_write(buffer, first, bytes.data(), count, nullptr) ==
          HIPVMM_ERROR_OUT_OF_RANGE);
  }
  CHECK(hipvmm_buffer_erase_front(buffer, most, nullptr) == HIPVMM_ERROR_OUT_OF_RANGE);
  CHECK(hipvmm_buffer_destroy(buffer) == HIPVMM_OK);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
