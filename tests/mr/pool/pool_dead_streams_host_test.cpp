// SPDX-License-Identifier: MIT
// Streams that a program has from HIP, frees memory in and destroys without a word to the pool.
// CUDA's driver may crash for the handle of such a stream, but the host provider refuses and
// counts the call. AMD's runtime refuses it, and pools go by that there.
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include "mr/mr_test.hpp"
#include "support/host/foreign_stream.hpp"
#include "support/host/host_test.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

bool is_cuda() { return host_profile() == "cuda-13"; }

/// Events of a deallocation in a stream of the program, once another stream has asked how far it
/// has come.
std::uint64_t events_of_a_free() { return is_cuda() ? 1 : 0; }

/// Lets another stream ask how far `user` has come, which has freed memory.
void ask(mr::vmm_pool_resource& pool, stream_ref user) {
  pool.deallocate(user, pool.allocate(user, 2 * MiB), 2 * MiB);
  const stream other{first_device};
  pool.deallocate(other, pool.allocate(other, 4 * MiB), 4 * MiB);
  other.synchronize();
  pool.trim_to(0, std::chrono::steady_clock::now() + std::chrono::seconds{10});
}

/// A resource, and before it its parts.
struct subject {
  std::vector<std::unique_ptr<mr::memory_resource>> parts;

  subject() = default;
  subject(subject&&) = default;
  ~subject() {
    while (!parts.empty()) parts.pop_back();
  }
  template <typename Resource, typename... Arguments>
  void add(Arguments&&... arguments) {
    parts.push_back(std::make_unique<Resource>(std::forward<Arguments>(arguments)...));
  }
  [[nodiscard]] mr::memory_resource* top() const { return parts.back().get(); }
};

struct kind {
  std::string name;
  std::function<subject()> make;
};

subject pool_of_two(std::size_t bytes) {
  subject made;
  made.add<mr::vmm_pool_resource>(first_device, at_most(2 * bytes));
  return made;
}

std::vector<kind> kinds(std::size_t bytes) {
  return {
      {"vmm_pool_resource", [bytes] { return pool_of_two(std::max(bytes, 4 * MiB)); }},
      {"arena_resource",
       [bytes] {
         subject made;
         made.add<mr::hip_resource>(first_device);
         made.add<mr::arena_resource>(made.top(), std::max(2 * bytes, 16 * MiB));
         return made;
       }},
      {"fixed_size_resource",
       [bytes] {
         subject made;
         made.add<mr::hip_resource>(first_device);
         made.add<mr::fixed_size_resource>(made.top(), bytes, 2);
         return made;
       }},
      {"binning_resource",
       [bytes] {
         subject made = pool_of_two(std::max(2 * bytes, 16 * MiB));
         mr::memory_resource* const pool = made.top();
         made.add<mr::fixed_size_resource>(pool, bytes, 2);
         auto bins = std::make_unique<mr::binning_resource>(pool);
         bins->add_bin(bytes, made.top());
         made.parts.push_back(std::move(bins));
         return made;
       }},
      {"hip_async_resource",
       [] {
         subject made;
         made.add<mr::hip_async_resource>(first_device);
         return made;
       }},
  };
}

void check_order(mr::memory_resource& memory, std::size_t bytes) {
  const stale_stream_calls stale;
  const stream next{first_device};
  held_streams held;
  void* freed = nullptr;
  {
    const foreign_stream ended;
    freed = memory.allocate(ended, bytes);
    fill_async(ended, freed, 1, bytes);
    memory.deallocate(ended, freed, bytes);
  }
  for (int i = 0; i < 2; ++i) {
    void* const got = memory.allocate(next, bytes);
    CHECK((got != freed || !next.is_done()));
    memory.deallocate(next, got, bytes);
  }
  held.release();
  next.synchronize();
  memory.deallocate(next, memory.allocate(next, bytes), bytes);
  memory.deallocate_sync(memory.allocate_sync(bytes), bytes);
  if (is_cuda()) CHECK(stale.count() == 0);
}

TEST_CASE("pools: a stream that ends after a deallocation is never named again") {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  for (const std::size_t bytes : {std::size_t{1000}, 64 * KiB, 4 * MiB}) {
    for (const kind& each : kinds(bytes)) {
      CAPTURE(each.name);
      CAPTURE(bytes);
      const error_recorder reported;
      const stale_stream_calls stale;
      {
        const subject made = each.make();
        check_order(*made.top(), bytes);
        // The end of a resource that has nothing but the memory of a dead stream.
        const foreign_stream ended;
        made.top()->deallocate(ended, made.top()->allocate(ended, bytes), bytes);
      }
      if (is_cuda()) CHECK(stale.count() == 0);
      CHECK(reported.count() == 0);
    }
  }
}

TEST_CASE("vmm_pool_resource: what a dead stream freed is trimmed, listed and given to all") {
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const stale_stream_calls stale;
  const stream next{first_device};
  const auto use_once = [&](std::size_t bytes) {
    const foreign_stream ended;
    void* const memory = pool.allocate(ended, bytes);
    fill_async(ended, memory, 1, bytes);
    pool.deallocate(ended, memory, bytes);
    if (!is_cuda()) stream_ref{ended}.synchronize();
  };
  use_once(8 * MiB);
  pool.note_stream_wait(next, [] { return foreign_stream{}.get(); }());
  CHECK(pool.statistics().used_current == 0);
  CHECK_FALSE(pool.snapshot().segments.empty());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  if (returns_chunks()) CHECK(pool.trim_to(0, deadline) == 8 * MiB);
  use_once(8 * MiB);
  const foreign_stream other_handle;
  use_once(48 * MiB);
  void* const all = pool.allocate(next, 64 * MiB);
  pool.deallocate(next, all, 64 * MiB);
  if (is_cuda()) CHECK(stale.count() == 0);
  CHECK(reported.count() == 0);
}

TEST_CASE("vmm_pool_resource: chunks that moved for a dead stream leave their old addresses" *
          needs_virtual_memory) {
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, at_most(24 * MiB)};
  const stale_stream_calls stale;
  const stream first{first_device};
  const stream next{first_device};
  std::array<void*, 6> parts{};
  for (void*& each : parts) each = pool.allocate(first, 4 * MiB);
  for (const std::size_t i : {0, 2, 4}) pool.deallocate(first, parts[i], 4 * MiB);
  {
    const foreign_stream ended;
    void* const moved = pool.allocate(ended, 12 * MiB);
    fill_async(ended, moved, 1, 12 * MiB);
    pool.deallocate(ended, moved, 12 * MiB);
    if (!is_cuda()) stream_ref{ended}.synchronize();
  }
  pool.deallocate(next, pool.allocate(next, 12 * MiB), 12 * MiB);
  pool.trim_to(0, std::chrono::steady_clock::now() + std::chrono::seconds{10});
  for (const std::size_t i : {1, 3, 5}) pool.deallocate(first, parts[i], 4 * MiB);
  if (is_cuda()) CHECK(stale.count() == 0);
  CHECK(reported.count() == 0);
}

TEST_CASE("vmm_pool_resource: deallocations in one stream alone make no call of HIP") {
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, at_most(64 * MiB)};
  const foreign_stream only;
  for (const std::size_t bytes : {std::size_t{1000}, 64 * KiB, 4 * MiB}) {
    CAPTURE(bytes);
    pool.deallocate(only, pool.allocate(only, bytes), bytes);
    for (int i = 0; i < 10; ++i) {
      void* const memory = pool.allocate(only, bytes);
      const call_counter all{nullptr};
      pool.deallocate(only, memory, bytes);
      CHECK(all.count() == 0);
    }
  }
  pool.forget_stream(only);
  CHECK(reported.count() == 0);
}

TEST_CASE("vmm_pool_resource: a stream that others ask for is waited for in stream order") {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, at_most(8 * MiB)};
  const foreign_stream user;
  ask(pool, user);
  void* const freed = pool.allocate(user, 8 * MiB);
  const held_streams held;
  fill_async(user, freed, 1, 8 * MiB);
  pool.deallocate(user, freed, 8 * MiB);
  const stream next{first_device};
  void* const got = pool.allocate(next, 8 * MiB);
  CHECK(got == freed);
  CHECK_FALSE(next.is_done());
  pool.deallocate(next, got, 8 * MiB);
  CHECK(reported.count() == 0);
}

TEST_CASE("vmm_pool_resource: small blocks of a stream that others ask for stay in stream order") {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, at_most(10 * MiB)};
  const foreign_stream user;
  ask(pool, user);
  void* const freed = pool.allocate(user, 8 * MiB);
  held_streams held;
  fill_async(user, freed, 1, 8 * MiB);
  pool.deallocate(user, freed, 8 * MiB);
  void* const small = pool.allocate(user, 1000);
  std::atomic<bool> is_served{false};
  std::atomic<bool> has_waited{false};
  std::thread releasing{[&] {
    has_waited = !comes_true([&] { return is_served.load(); });
    held.release();
  }};
  const stream next{first_device};
  void* const got = pool.allocate(next, 8 * MiB);
  is_served = true;
  releasing.join();
  CHECK_FALSE(has_waited);
  pool.deallocate(next, got, 8 * MiB);
  pool.deallocate(user, small, 1000);
  CHECK(reported.count() == 0);
}

TEST_CASE("vmm_pool_resource: a deallocation records an event only if its stream may vanish") {
  for (const bool forgets : {false, true}) {
    CAPTURE(forgets);
    mr::pool_options options = at_most(64 * MiB);
    options.forgets_streams = forgets;
    mr::vmm_pool_resource pool{first_device, options};
    const stream own{first_device};
    const foreign_stream foreign;
    ask(pool, foreign);
    const auto events_in = [&](stream_ref used, std::size_t bytes) {
      void* const memory = pool.allocate(used, bytes);
      const call_counter records{"hipEventRecord"};
      pool.deallocate(used, memory, bytes);
      return records.count();
    };
    for (const std::size_t bytes : {std::size_t{1000}, 64 * KiB, 4 * MiB}) {
      CAPTURE(bytes);
      CHECK(events_in(own, bytes) == 0);
      CHECK(events_in(stream_ref::legacy_default(), bytes) == 0);
      CHECK(events_in(foreign, bytes) == (forgets ? 0 : events_of_a_free()));
    }
    pool.forget_stream(foreign);
  }
}

TEST_CASE("vmm_pool_resource: a stream that hipvmm released is the program's from then on") {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  const stale_stream_calls stale;
  const stream next{first_device};
  held_streams held;
  void* freed = nullptr;
  {
    stream made{first_device};
    void* const earlier = pool.allocate(made, 8 * MiB);
    freed = pool.allocate(made, 8 * MiB);
    fill_async(made, earlier, 1, 8 * MiB);
    pool.deallocate(made, earlier, 8 * MiB);
    const foreign_stream released{made.release()};
    CHECK(made.release() == nullptr);
    fill_async(released, freed, 1, 8 * MiB);
    pool.deallocate(released, freed, 8 * MiB);
  }
  held.release();  // the host waits
  void* const got = pool.allocate(next, 16 * MiB);
  pool.deallocate(next, got, 16 * MiB);
  if (is_cuda()) CHECK(stale.count() == 0);
  CHECK(reported.count() == 0);
}

TEST_CASE("vmm_pool_resource: by address alone a dead stream's memory waits for all work") {
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, at_most(8 * MiB)};
  const stale_stream_calls stale;
  const stream next{first_device};
  void* memory = nullptr;
  {
    const foreign_stream ended;
    memory = pool.allocate(ended, 8 * MiB);
    if (!is_cuda()) stream_ref{ended}.synchronize();
  }
  pool.deallocate(memory);
  pool.deallocate(next, pool.allocate(next, 8 * MiB), 8 * MiB);
  if (is_cuda()) CHECK(stale.count() == 0);
  CHECK(reported.count() == 0);
}

TEST_CASE("vmm_pool_resource: a stream of another device frees memory and ends") {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, at_most(8 * MiB)};
  const stale_stream_calls stale;
  const stream next{first_device};
  void* const memory = pool.allocate(next, 8 * MiB);
  held_streams held;
  fill_async(next, memory, 1, 8 * MiB);
  {
    const scoped_device other{device_ref{2}};
    const foreign_stream ended;
    event allocated{first_device};
    allocated.record(next);
    stream_ref{ended}.wait(allocated);
    pool.deallocate(ended, memory, 8 * MiB);
  }
  held.release();  // the host waits
  void* const got = pool.allocate(next, 8 * MiB);
  CHECK(got == memory);
  pool.deallocate(next, got, 8 * MiB);
  if (is_cuda()) CHECK(stale.count() == 0);
  CHECK(reported.count() == 0);
}

TEST_CASE("vmm_pool_resource: a dead stream's device without access is waited for") {
  HIPVMM_SKIP_UNDER(ending_streams_overlooked);
  mr::vmm_pool_resource pool{first_device, at_most(8 * MiB)};
  const stream next{first_device};
  void* const memory = pool.allocate(next, 8 * MiB);
  event allocated{first_device};
  allocated.record(next);
  const device_ref stranger{2};
  mr::hip_resource beside{stranger};
  void* const its_own = beside.allocate_sync(1 * MiB);
  held_streams held;
  {
    const scoped_device other{stranger};
    const foreign_stream ended;
    stream_ref{ended}.wait(allocated);
    fill_async(ended, its_own, 1, 1 * MiB);
    pool.deallocate(ended, memory, 8 * MiB);
  }
  opened_by_wait opener{[&] { held.release(); }};
  void* const got = pool.allocate(next, 8 * MiB);
  CHECK(opener.was_waited_for());
  pool.deallocate(next, got, 8 * MiB);
  beside.deallocate_sync(its_own, 1 * MiB);
}

TEST_CASE("vmm_pool_resource: a captured stream of the program's keeps what is freed in it") {
  mr::vmm_pool_resource pool{first_device, at_most(8 * MiB)};
  const foreign_stream captured;
  ask(pool, captured);
  void* const memory = pool.allocate(captured, 8 * MiB);
  const error_recorder reported;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  pool.deallocate(captured, memory, 8 * MiB);
  CHECK(reported.count() == (is_cuda() ? 1 : 0));
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(captured.get(), &graph) == hipSuccess);
  std::size_t nodes = 1;
  CHECK(hipGraphGetNodes(graph, nullptr, &nodes) == hipSuccess);
  CHECK(nodes == 0);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
  if (is_cuda()) {
    CHECK(pool.statistics().used_current == 8 * MiB);
    pool.deallocate(captured, memory, 8 * MiB);
  }
  CHECK(pool.statistics().used_current == 0);
  pool.forget_stream(captured);
}

/// A pool whose memory was allocated in a stream of the program's.
struct used_pool {
  mr::vmm_pool_resource pool{first_device, at_most(16 * MiB)};
  stream next{first_device};
  foreign_stream own;
  void* large = nullptr;
  void* small = nullptr;

  /// `asked`: others have asked how far its stream has come.
  explicit used_pool(bool asked) {
    if (asked) ask(pool, own);
    large = pool.allocate(own, 8 * MiB);
    small = pool.allocate(own, 1000);
  }

  void deallocate() {
    pool.deallocate(own, large, 8 * MiB);
    pool.deallocate(own, small, 1000);
  }
  void use() { pool.deallocate(next, pool.allocate(next, 12 * MiB), 12 * MiB); }
  void verify() {
    own.end();
    const stale_stream_calls stale;
    use();
    CHECK(pool.statistics().used_current == 0);
    if (is_cuda()) CHECK(stale.count() == 0);
  }
};

TEST_CASE("vmm_pool_resource: calls that fail for a stream of the program's lose no memory") {
  const auto verify = [](auto& used) { used.verify(); };
  if (is_cuda())
    fault_sweep{"deallocate", after_failure::capacity}.run(
        [] { return std::make_unique<used_pool>(true); }, [](auto& used) { used.deallocate(); },
        verify, verify);
  for (const bool asked : {true, false})
    fault_sweep{"allocate", after_failure::capacity}.run(
        [asked] {
          auto used = std::make_unique<used_pool>(asked);
          used->deallocate();
          used->own.end();
          return used;
        },
        [](auto& used) { used.use(); }, verify, verify);
}

TEST_CASE("vmm_pool_resource: chunks that moved stay at old addresses until their users are done" *
          needs_virtual_memory) {
  if (!is_cuda()) return;  // there a stream's newest fence could be too old
  const error_recorder reported;
  mr::vmm_pool_resource pool{first_device, at_most(24 * MiB)};
  const stream first{first_device};
  std::array<void*, 6> parts{};
  for (void*& each : parts) each = pool.allocate(first, 4 * MiB);
  const foreign_stream mover;
  held_streams held;
  for (const std::size_t i : {0, 2, 4}) {
    fill_async(first, parts[i], 1, 4 * MiB);
    pool.deallocate(first, parts[i], 4 * MiB);
  }
  void* const moved = pool.allocate(mover, 12 * MiB);
  pool.deallocate(mover, moved, 12 * MiB);
  pool.trim_to(0);
  static_cast<void>(happens([] { return false; }));
  held.release();
  CHECK_NOTHROW(first.synchronize());
  for (const std::size_t i : {1, 3, 5}) pool.deallocate(first, parts[i], 4 * MiB);
  CHECK(reported.count() == 0);
}

}  // namespace
}  // namespace hipvmm::test
