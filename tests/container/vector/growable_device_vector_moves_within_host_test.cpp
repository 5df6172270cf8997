// SPDX-License-Identifier: MIT
// insert, erase and assign of own elements: the addresses, in captures and while memory
// is short, and how many HIP calls they make.
#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/vmm/chunk_placement.hpp>
#include "container/container_test.hpp"
#include "runtime/peer_copies.hpp"
#include "runtime/pointer_memory.hpp"
#include "support/device_use.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

using numbers = std::vector<std::uint32_t>;
using vector_of_numbers = growable_device_vector<std::uint32_t>;

numbers counting(std::size_t count, std::uint32_t first = 0) {
  numbers result(count);
  for (std::uint32_t *at = result.data(), *end = at + count; at != end; ++at) *at = first++;
  return result;
}

auto at(numbers& of, std::size_t index) { return of.begin() + static_cast<std::ptrdiff_t>(index); }

growth_options up_to(std::size_t max_bytes, past_max_size past = past_max_size::move) {
  return growth_options{.max_bytes = max_bytes, .past_max = past};
}

/// Calls `test` with the options of each kind of memory: chunks, hipMalloc and a resource. Retired
/// memory is drained before: its wait may cost a capture.
template <typename Test>
void with_each_memory(std::size_t max_bytes, Test test) {
  for (const past_max_size past : {past_max_size::move, past_max_size::refuse}) {
    growth_options options = up_to(max_bytes, past);
    mr::hip_resource resource{first_device};
    CAPTURE(past == past_max_size::refuse);
    for (const char* const kind : {"the device's own", "hipMalloc", "a resource"}) {
      CAPTURE(kind);
      if (kind == std::string_view{"hipMalloc"}) options.fallback = without_vmm::always;
      if (kind == std::string_view{"a resource"}) options.resource = &resource;
      drain_retired_memory();
      test(options);
    }
  }
}

/// A graph of the calls that `work` submits to `in`. Nothing of it may cost the capture.
class graph {
 public:
  template <typename Work>
  graph(stream_ref in, hipStreamCaptureMode mode, Work work) {
    hipGraph_t recorded = nullptr;
    REQUIRE(hipStreamBeginCapture(in.get(), mode) == hipSuccess);
    work();
    REQUIRE(hipStreamEndCapture(in.get(), &recorded) == hipSuccess);
    REQUIRE(hipGraphInstantiate(&launchable_, recorded, nullptr, nullptr, 0) == hipSuccess);
    CHECK(hipGraphDestroy(recorded) == hipSuccess);
  }
  ~graph() { CHECK(hipGraphExecDestroy(launchable_) == hipSuccess); }
  graph& operator=(graph&&) = delete;

  void launch(stream_ref in) const { REQUIRE(hipGraphLaunch(launchable_, in.get()) == hipSuccess); }

 private:
  hipGraphExec_t launchable_ = nullptr;
};

constexpr std::array both_modes{hipStreamCaptureModeGlobal, hipStreamCaptureModeRelaxed};

TEST_CASE(
    "growable_device_vector: insert, erase and assign keep data() as long as max_size() does") {
  const stream stream;
  with_each_memory(8 * MiB, [&](const growth_options& options) {
    vector_of_numbers vector{first_device, options};
    numbers model = counting(vector.max_size());
    vector.append(model, stream);
    const auto* const data = vector.data();
    const std::size_t capacity = vector.capacity();
    const growth_statistics before = vector.statistics();
    vector.erase(0, 1, stream);
    vector.insert(1, {7}, stream);
    vector.assign(vector.span().subspan(3, vector.size() - 3), stream);
    model.erase(model.begin());
    model.insert(at(model, 1), 7);
    model.erase(model.begin(), at(model, 3));
    CHECK(vector.copy_to_host(stream) == model);
    CHECK(vector.data() == data);
    CHECK(vector.capacity() == capacity);
    CHECK(vector.statistics().base_moves == before.base_moves);
    CHECK(vector.statistics().copied_bytes == before.copied_bytes);
  });
}

TEST_CASE(
    "growable_device_vector: elements move as std::vector's from all places over all distances") {
  const stream stream;
  const numbers all = counting(1'700'000);
  const numbers new_ones = counting(600'000, 1'000'000'000);
  with_each_memory(16 * MiB, [&](const growth_options& options) {
    for (const std::size_t size : {1UL, 2UL, 40UL, 3000UL, 70'000UL, 1'700'000UL}) {
      CAPTURE(size);
      for (const std::size_t count : {1UL, 2UL, 63UL, 1500UL, 69'000UL, 600'000UL}) {
        CAPTURE(count);
        for (const std::size_t place : {std::size_t{0}, std::size_t{1}, size / 2, size - 1}) {
          if (place + count > size) continue;
          CAPTURE(place);
          numbers model{all.data(), all.data() + size};
          vector_of_numbers vector{first_device, options};
          vector.append(model, stream);
          vector.erase(place, count, stream);
          model.erase(at(model, place), at(model, place + count));
          REQUIRE(vector.copy_to_host(stream) == model);
          const numbers added{new_ones.data(), new_ones.data() + count};
          vector.insert(place, added, stream);
          model.insert(at(model, place), added.data(), added.data() + count);
          REQUIRE(vector.copy_to_host(stream) == model);
          vector.assign(vector.span().subspan(place, size - place), stream);
          model.erase(model.begin(), at(model, place));
          REQUIRE(vector.copy_to_host(stream) == model);
        }
      }
    }
  });
}

TEST_CASE("growable_device_vector: the calls of a move over a short distance are bounded") {
  const stream stream;
  const numbers sevens(64 * MiB / sizeof(std::uint32_t) - 6, 7);
  with_each_memory(64 * MiB, [&](const growth_options& options) {
    vector_of_numbers vector{first_device, options};
    vector.resize(vector.max_size(), 7, stream);
    const calls_of copies{copying_functions};
    const calls_of waits{waiting_functions};
    const call_counter all{nullptr};
    vector.erase(0, 1, stream);
    CHECK(copies.count() <= 2 * 16);
    CHECK(waits.count() == 0);
    CHECK(all.count() < 80);
    // The next call uses the same scratch memory.
    const call_counter again{nullptr};
    vector.insert(0, {7}, stream);
    // If links are missing, the memory and the stream of a fill are looked up.
    CHECK(again.count() <= 2 * 16 + (detail::copies_need_links() ? 5 : 3));
    vector.erase(vector.size() - 1, 1, stream);
    const call_counter none{nullptr};
    vector.erase(vector.size() - 5, 5, stream);
    CHECK(none.count() == 0);
    CHECK(vector.copy_to_host(stream) == sevens);
  });
}

TEST_CASE("growable_device_vector: a long distance needs no scratch memory") {
  const stream stream;
  vector_of_numbers vector{first_device, up_to(64 * MiB)};
  vector.resize(16 * MiB, 7, stream);
  const calls_of copies{copying_functions};
  vector.erase(0, 512 * KiB, stream);
  CHECK(copies.count() == 31);
  CHECK(vector.statistics().scratch_bytes == 0);
}

TEST_CASE("growable_device_vector: a short distance takes bounded memory, until shrink_to_fit") {
  const stream stream;
  const numbers sevens(64 * MiB / sizeof(std::uint32_t) - 2, 7);
  with_each_memory(64 * MiB, [&](const growth_options& options) {
    const std::size_t free = free_memory_at_rest(first_device);
    {
      vector_of_numbers vector{first_device, options};
      vector.resize(vector.max_size(), 7, stream);
      const std::size_t peak = vector.statistics().peak_bytes;
      vector.erase(0, 1, stream);
      const std::size_t scratch = vector.statistics().scratch_bytes;
      CHECK(scratch == 4 * MiB);
      CHECK(vector.statistics().peak_bytes == std::max(peak, 64 * MiB + scratch));
      CHECK(vector.shrink_to_fit(stream) == scratch);
      CHECK(vector.statistics().scratch_bytes == 0);
      vector.erase(0, 1, stream);
      CHECK(vector.copy_to_host(stream) == sevens);
    }
    release_idle_memory();
    CHECK(first_device.free_memory() == free);
  });
}

TEST_CASE("growable_device_vector: elements move in captures, and with each launch") {
  const stream stream;
  for (const hipStreamCaptureMode mode : both_modes) {
    with_each_memory(8 * MiB, [&](const growth_options& options) {
      vector_of_numbers vector{first_device, options};
      numbers model = counting(vector.max_size());
      vector.append(model, stream);
      stream.synchronize();
      const auto* const data = vector.data();
      const graph shift{stream, mode, [&] {
                          vector.set_element_async(0, 9, stream);
                          vector.erase(1, 2, stream);
                          vector.insert(0, {3, 4}, stream);
                        }};
      CHECK(vector.data() == data);
      CHECK(vector.size() == vector.max_size());
      // Scratch memory that a graph uses stays.
      CHECK(vector.statistics().scratch_bytes != 0);
      vector.shrink_to_fit(stream);
      CHECK(vector.statistics().scratch_bytes != 0);
      for (int round = 0; round < 3; ++round) {
        shift.launch(stream);
        model[0] = 9;
        model.erase(at(model, 1), at(model, 3));
        model.insert(model.begin(), {3, 4});
        REQUIRE(vector.copy_to_host(stream) == model);
        // Beside the work of the graph.
        vector.erase(5, 1, stream);
        vector.insert(5, {11}, stream);
        model[5] = 11;
      }
    });
  }
}

TEST_CASE(
    "growable_device_vector: on a full device elements move or stay, in a bounded number of "
    "calls") {
  const stream stream;
  with_each_memory(20 * MiB, [&](const growth_options& options) {
    vector_of_numbers vector{first_device, options};
    numbers model = counting(vector.max_size());
    vector.append(model, stream);
    stream.synchronize();
    release_idle_memory();
    for (const std::size_t left : {std::size_t{0}, granule(), MiB}) {
      CAPTURE(left);
      const device_allocation rest{first_device, free_memory_at_rest(first_device) - left};
      for (const std::size_t count : {1UL, 6000UL, 200'000UL}) {
        CAPTURE(count);
        const calls_of copies{copying_functions};
        try {
          vector.erase(2, count, stream);
          model.erase(at(model, 2), at(model, 2 + count));
        } catch (const out_of_memory& error) {
          CHECK(count == 1);
          CHECK(std::string{error.what()}.find("scratch memory") != std::string::npos);
        }
        CHECK(copies.count() <= 2048);
        REQUIRE(vector.copy_to_host(stream) == model);
      }
    }
  });
}

TEST_CASE("growable_device_vector: a move that fails to get scratch memory changes nothing") {
  with_each_memory(2 * MiB, [&](const growth_options& options) {
    struct subject {
      explicit subject(const growth_options& options) : vector{first_device, options} {
        vector.append(model, stream);
        stream.synchronize();
      }
      hipvmm::stream stream;
      numbers model = counting(40'000);
      vector_of_numbers vector;
    };
    fault_sweep{"scratch memory", after_failure::capacity}.run(
        [&] { return std::make_unique<subject>(options); },
        [](auto& in) {
          in.vector.insert(0, {1}, in.stream);
          in.vector.erase(0, 1, in.stream);
        },
        [](auto& in) {
          const std::size_t size = in.vector.size();
          CHECK((size == in.model.size() || size == in.model.size() + 1));
        },
        [](auto& in) { CHECK(in.vector.copy_to_host(in.stream) == in.model); });
  });
}

TEST_CASE(
    "growable_device_vector: a vector that was moved keeps the scratch memory of its graphs") {
  const stream stream;
  with_each_memory(8 * MiB, [&](const growth_options& options) {
    vector_of_numbers vector{first_device, options};
    numbers model = counting(100'000);
    vector.append(model, stream);
    stream.synchronize();
    const graph shift{stream, hipStreamCaptureModeRelaxed, [&] { vector.erase(0, 1, stream); }};
    vector_of_numbers taken{std::move(vector)};
    CHECK(vector.statistics().scratch_bytes == 0);
    vector.append(counting(100'000), stream);
    vector.erase(0, 1, stream);
    taken.shrink_to_fit(stream);
    shift.launch(stream);
    model.erase(model.begin());
    CHECK(taken.copy_to_host(stream) == model);
    vector = std::move(taken);
    shift.launch(stream);
    model.erase(model.begin());
    model.push_back(99'999);
    CHECK(vector.copy_to_host(stream) == model);
  });
}

TEST_CASE("growable_device_vector: whoever may move elements may use the scratch memory") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "peer");
  const stream mine{first_device};
  const stream theirs{peer};
  vector_of_numbers vector{first_device, up_to(8 * MiB)};
  numbers model = counting(1'000'000);
  vector.append(model, mine);
  vector.erase(0, 1, mine);
  mine.synchronize();
  vector.grant(peer, access_right::read_write);
  vector.erase(0, 1, theirs);
  theirs.synchronize();
  model.erase(model.begin(), at(model, 2));
  CHECK(vector.copy_to_host(mine) == model);
}

TEST_CASE("growable_device_vector: a callback for a growth may append to the vector") {
  const stream stream;
  vector_of_numbers vector{first_device, up_to(16 * MiB)};
  bool is_first = true;
  const memory_event_subscription watched{[&](const memory_event& event) {
    if (event.source != memory_event_source::vector || event.kind != memory_event_kind::grow)
      return;
    if (std::exchange(is_first, false)) vector.append({42}, stream);
  }};
  numbers model = counting(2 * MiB / sizeof(std::uint32_t));
  vector.append(model, stream);
  model.insert(model.begin(), 42);
  CHECK(vector.copy_to_host(stream) == model);
}

TEST_CASE("growable_device_vector: a resize ends at its size whatever a callback appends") {
  const stream stream;
  vector_of_numbers vector{first_device, up_to(32 * MiB)};
  bool is_first = true;
  std::size_t nested = 1;
  const memory_event_subscription watched{[&](const memory_event& event) {
    if (event.source != memory_event_source::vector || event.kind != memory_event_kind::grow)
      return;
    if (std::exchange(is_first, false)) vector.append(numbers(nested, 42), stream);
  }};
  constexpr std::size_t count = 2 * MiB / sizeof(std::uint32_t);
  numbers model(count, 0);
  SUBCASE("zeros") {
    vector.resize(count, stream);
    model[0] = 42;
  }
  SUBCASE("copies") {
    vector.resize(count, 7, stream);
    model.assign(count, 7);
    model[0] = 42;
  }
  SUBCASE("more than the size") {
    nested = count + 5;
    vector.resize(count, stream);
    model.assign(count, 42);
  }
  SUBCASE("assign") {
    vector.assign(count, 7, stream);
    model.assign(count, 7);
  }
  SUBCASE("uninitialized") {
    vector.resize_uninitialized(count);
    vector.assign(model, stream);
  }
  CHECK(vector.size() == count);
  CHECK(vector.copy_to_host(stream) == model);
}

/// A vector of the second device with chunks on the host, which HIP puts down to the first.
HIPVMM_CHILD("moves among chunks on the host") {
  const device_ref owner{1};
  if (!capability_of(owner).has(trait::host_chunks)) return;
  growth_options options = up_to(16 * MiB);
  options.chunks.placement = chunk_placement::spill(2 * MiB);
  const stream stream{owner};
  vector_of_numbers vector{owner, options};
  numbers model = counting(2 * MiB);
  vector.append(numbers(model.begin(), at(model, MiB / 2)), stream);
  vector.append(numbers(at(model, MiB / 2), model.end()), stream);
  const auto moves = [&](std::size_t index, std::size_t count) {
    vector.erase(index, count, stream);
    model.erase(at(model, index), at(model, index + count));
    vector.insert(index, count, 7, stream);
    model.insert(at(model, index), count, 7);
  };
  const bool is_foreign =
      detail::device_of_memory(vector.data() + vector.size() - 1) == first_device;
  for (const std::size_t count : {std::size_t{20}, std::size_t{300'000}}) {
    if (is_foreign) {
      CHECK_THROWS_AS(vector.erase(0, count, stream), unsupported);
      CHECK_THROWS_AS(vector.insert(0, count, 7, stream), unsupported);
      CHECK_THROWS_AS(
          vector.assign(device_span<const std::uint32_t>{vector.data() + count, 1'000'000}, stream),
          unsupported);
    } else {
      moves(0, count);
    }
    CHECK(vector.copy_to_host(stream) == model);
  }
  if (!first_device.can_access_peer(owner)) return;
  vector.grant(first_device);
  moves(0, 300'000);
  moves(MiB, 20);
  CHECK(vector.copy_to_host(stream) == model);
}

TEST_CASE(
    "growable_device_vector: moves that HIP would have another device make are refused whole" *
    names_its_profiles) {
  for (const char* const profile : {"rocm-7.2", "rocm-7.14", "rocm-10", "cuda-13"}) {
    for (const char* const links : {"0-1", "0-2"}) {
      CAPTURE(profile);
      CAPTURE(links);
      check_child("moves among chunks on the host",
                  {std::string{"HIPVMM_HOST_PROFILE="} + profile, "HIPVMM_HOST_DEVICES=3",
                   std::string{"HIPVMM_HOST_PEERS="} + links});
    }
  }
}

TEST_CASE("growable_device_vector: scratch memory sleeps with the vector" * needs_virtual_memory) {
  const stream stream;
  memory_tag tag{"moves"};
  const std::size_t free = free_memory_at_rest(first_device);
  growth_options options = up_to(8 * MiB);
  options.chunks.tag = tag;
  vector_of_numbers vector{first_device, options};
  numbers model = counting(1'000'000);
  vector.append(model, stream);
  vector.erase(0, 1, stream);
  suspend(tag, keep::contents, stream);
  CHECK(first_device.free_memory() == free);
  CHECK_THROWS_AS(vector.erase(0, 1, stream), std::logic_error);
  resume(tag);
  vector.erase(0, 1, stream);
  model.erase(model.begin(), at(model, 2));
  CHECK(vector.copy_to_host(stream) == model);
}

}  // namespace
}  // namespace hipvmm::test
