// SPDX-License-Identifier: MIT
// Refusals of MPI, and objects that end before a window. All ranks of mpirun run a case at the
// same time.
#include <hipvmm/compat/mpi_window.hpp>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/region/retirement.hpp>
#include "compat/ranks/mpi_world.hpp"
#include "support/host/host_profile.hpp"
#include "support/process/forked_child.hpp"
#include "support/test.hpp"

namespace {

/// Counts and planned failures of the functions of MPI below; library threads call some.
struct mpi_calls {
  std::atomic<int> attached{0};  // now
  std::atomic<int> windows_freed{0};
  std::atomic<int> communicators{0};
  std::atomic<int> attach_fails{0};  // the nth from now on; 0: none
  std::atomic<int> detach_fails{0};
  std::atomic<int> making_fails{0};  // of MPI_Comm_dup and MPI_Win_create_dynamic
} calls;

bool strikes(std::atomic<int>& plan) {
  if (plan == 0) return false;
  return --plan == 0;
}

}  // namespace

// In MPI's place.
extern "C" {
int MPI_Win_attach(MPI_Win window, void* base, MPI_Aint bytes) {
  if (strikes(calls.attach_fails)) return MPI_ERR_RMA_ATTACH;
  ++calls.attached;
  return PMPI_Win_attach(window, base, bytes);
}
int MPI_Win_detach(MPI_Win window, const void* base) {
  --calls.attached;
  const int result = PMPI_Win_detach(window, base);
  return strikes(calls.detach_fails) ? MPI_ERR_OTHER : result;
}
int MPI_Win_create_dynamic(MPI_Info info, MPI_Comm ranks, MPI_Win* window) {
  return strikes(calls.making_fails) ? MPI_ERR_OTHER : PMPI_Win_create_dynamic(info, ranks, window);
}
int MPI_Win_free(MPI_Win* window) {
  ++calls.windows_freed;
  return PMPI_Win_free(window);
}
int MPI_Comm_dup(MPI_Comm ranks, MPI_Comm* made) {
  if (strikes(calls.making_fails)) return MPI_ERR_OTHER;
  ++calls.communicators;
  return PMPI_Comm_dup(ranks, made);
}
int MPI_Comm_free(MPI_Comm* ranks) {
  --calls.communicators;
  return PMPI_Comm_free(ranks);
}
}

namespace hipvmm::test {
namespace {

using window_ptr = std::shared_ptr<mpi_window>;

window_ptr window_of_all() {
  return std::make_shared<mpi_window>(mpi_world(MPI_THREAD_MULTIPLE), first_device);
}
growth_options of_granules(const window_ptr& window) {
  return growth_options{.max_bytes = 16 * granule(),
                        .step_limit = 0,
                        .granule_bytes = granule(),
                        .chunks = {.registrar = window}};
}

/// Made before MPI is initialized, and so ended behind MPI_Finalize. MPI ends a process that calls
/// it then.
struct window_beyond_mpi {
  window_ptr window;
  ~window_beyond_mpi() {
    if (!window) return;
    try {
      window->update(nullptr);
    } catch (const std::logic_error&) {
      return;
    }
    std::_Exit(8);
  }
} beyond_mpi;

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("mpi_window: an update behind MPI_Finalize is refused") {
  if (quirks::host_may_not_touch.holds()) return;
  beyond_mpi.window = window_of_all();
  CHECK_NOTHROW(beyond_mpi.window->update(nullptr));
}

TEST_CASE("mpi_window: what is no group of ranks is refused before MPI sees it") {
  const MPI_Comm world = mpi_world(MPI_THREAD_MULTIPLE);
  CHECK_THROWS_WITH_AS((mpi_window{MPI_COMM_NULL, first_device}),
                       doctest::Contains("mpi_window: MPI_COMM_NULL"), std::invalid_argument);
  int size = 0;
  MPI_Comm_size(world, &size);
  if (size == 1) return;
  const between_two_groups between;
  CHECK_THROWS_WITH_AS((mpi_window{between.get(), first_device}),
                       doctest::Contains("mpi_window: the communicator is between two groups"),
                       std::invalid_argument);
}

TEST_CASE("mpi_window: what MPI does not make leaves nothing") {
  if (quirks::host_may_not_touch.holds()) return;
  static_cast<void>(mpi_world(MPI_THREAD_MULTIPLE));
  for (const char* const call : {"MPI_Comm_dup: ", "MPI_Win_create_dynamic: "}) {
    const int before = calls.communicators;
    calls.making_fails = call == std::string{"MPI_Comm_dup: "} ? 1 : 2;
    CHECK_THROWS_WITH_AS(window_of_all(), doctest::Contains(call), std::runtime_error);
    CHECK(calls.making_fails == 0);
    CHECK(calls.communicators == before);
  }
}

TEST_CASE("mpi_window: a child of fork() does not free what the parent has") {
  if (quirks::host_may_not_touch.holds()) return;
  window_ptr window = window_of_all();
  const int before = calls.windows_freed;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    CHECK(succeeds_in_forked_child([&] {
      calls.windows_freed = before;
      window.reset();
      return calls.windows_freed == before;
    }));
  }
  window->update(nullptr);
  window.reset();
  CHECK(calls.windows_freed == before + 1);
}

TEST_CASE("mpi_window: an attach that fails in the middle of a commit undoes what came before") {
  if (quirks::host_may_not_touch.holds()) return;
  const window_ptr window = window_of_all();
  const int before = calls.attached;
  {
    const stream own{first_device};
    slot_arena arena{first_device,
                     {.slots = 2,
                      .bytes_per_slot = 4 * granule(),
                      .block_bytes = granule(),
                      .prefetch_blocks = 0,
                      .registrar = window}};
    const std::vector<std::size_t> slots{0, 1};
    int failed = 0;
    for (;; ++failed) {
      CAPTURE(failed);
      REQUIRE(failed < 20);
      calls.attach_fails = failed + 1;
      const std::string text = text_thrown_by<std::runtime_error>([&] {
        arena.commit(slots, std::vector<std::size_t>{3 * granule(), 2 * granule()}, own);
      });
      if (calls.attach_fails.exchange(0) != 0) break;
      CHECK(text.find("MPI_Win_attach: ") == 0);
      CHECK(arena.length(0) == 0);
      drain_retired_memory();
      CHECK(static_cast<int>(window->memory().size()) == calls.attached - before);
    }
    CHECK(failed == 5);
    CHECK(window->memory().size() == 5);
    // Recycled from slot to slot: at its new address before others get that.
    arena.release(0, own);
    arena.commit(std::vector<std::size_t>{1}, std::vector<std::size_t>{4 * granule()}, own);
    drain_retired_memory();
    window->update(arena.pointer(1));
    CHECK(window->locate(0, 0, 4 * granule()).size() == 4);
  }
  drain_retired_memory();
  CHECK(window->memory().empty());
  CHECK(calls.attached == before);
}

TEST_CASE("mpi_window: a detach that fails is reported, and the memory goes") {
  if (quirks::host_may_not_touch.holds()) return;
  const window_ptr window = window_of_all();
  const int before = calls.attached;
  error_recorder reported;
  {
    growable_device_vector<char> vector{first_device, of_granules(window)};
    for (std::size_t chunk = 1; chunk <= 3; ++chunk) vector.resize_uninitialized(chunk * granule());
    calls.detach_fails = 2;
  }
  drain_retired_memory();
  CHECK(calls.detach_fails == 0);
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors().front().message.find("MPI_Win_detach: ") != std::string::npos);
  CHECK(window->memory().empty());
  CHECK(calls.attached == before);
}

TEST_CASE("mpi_window: an offset does not reach around to memory in front of the base") {
  if (quirks::host_may_not_touch.holds()) return;
  const window_ptr window = window_of_all();
  {
    growable_device_vector<char> one{first_device, of_granules(window)};
    growable_device_vector<char> two{first_device, of_granules(window)};
    one.resize_uninitialized(granule());
    two.resize_uninitialized(granule());
    const char* const low = std::min(one.data(), two.data());
    const char* const high = std::max(one.data(), two.data());
    window->update(high);
    const std::size_t around = reinterpret_cast<std::uintptr_t>(low) -
                               reinterpret_cast<std::uintptr_t>(high);  // negative, so to speak
    CHECK(window->locate(0, 0, 1).size() == 1);
    CHECK_THROWS_WITH_AS(static_cast<void>(window->locate(0, around, 1)),
                         doctest::Contains("not attached at the last update()"), std::out_of_range);
    window->update(nullptr);  // all are here
  }
  drain_retired_memory();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
