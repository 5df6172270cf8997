// SPDX-License-Identifier: MIT
// Missing memory of the host on one rank. Each case is run by all ranks of mpirun at the same time.
#include <hipvmm/compat/mpi_window.hpp>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/region/retirement.hpp>
#include "compat/ranks/mpi_world.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_profile.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

/// How a collective call ended on all ranks, of which one lacked memory.
struct shared_end {
  bool struck = false;     ///< whether there were that many allocations
  bool all_threw = false;  ///< else none has
};

/// Calls `call` on all ranks while the nth allocation of `poor` fails.
shared_end call_without_memory(int poor, std::uint64_t nth, const std::function<void()>& call) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int struck = 0;
  int threw = 0;
  std::optional<allocation_failure> failure;
  if (rank == poor) failure.emplace(nth);
  try {
    call();
  } catch (const rank_error& error) {
    threw = 1;
    INFO(error.what());
    CHECK(rank != poor);
    CHECK(error.reason() == rank_failure::remote);
    CHECK(error.rank() == poor);
    CHECK(std::string{error.what()}.find("rank " + std::to_string(poor) + " could not") !=
          std::string::npos);
  } catch (const std::exception&) {  // std::bad_alloc, or the library's own
    threw = 1;
    CHECK(rank == poor);
  }
  struck = failure && failure->struck() ? 1 : 0;
  failure.reset();
  int count = 0;
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&threw, &count, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK((count == 0 || count == size));
  MPI_Bcast(&struck, 1, MPI_INT, poor, MPI_COMM_WORLD);
  return {struck != 0, count != 0};
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("mpi_window: host memory that one rank lacks for update() fails all, and all go on") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it has no memory");
  if (quirks::host_may_not_touch.holds()) return;
  int rank = 0;
  int size = 0;
  const auto window = std::make_shared<mpi_window>(mpi_world(MPI_THREAD_MULTIPLE), first_device);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  {
    growable_device_vector<char> vector{first_device,
                                        {.max_bytes = 16 * granule(),
                                         .step_limit = 0,
                                         .granule_bytes = granule(),
                                         .chunks = {.registrar = window}}};
    vector.resize_uninitialized(granule());
    window->update(vector.data());
    vector.resize_uninitialized(2 * granule());
    vector.resize_uninitialized(3 * granule());
    int failed = 0;
    for (std::uint64_t nth = 1, struck = 1; struck != 0; ++nth) {
      CAPTURE(nth);
      REQUIRE(nth < 200);
      const shared_end end =
          call_without_memory(size - 1, nth, [&] { window->update(vector.data()); });
      struck = end.struck ? 1 : 0;
      if (!end.all_threw) continue;
      ++failed;
      for (int other = 0; other < size; ++other) {
        CHECK(window->locate(other, 0, granule()).size() == 1);
        CHECK_THROWS_AS(static_cast<void>(window->locate(other, granule(), 1)), std::out_of_range);
      }
    }
    CHECK(failed > 4);
    for (int other = 0; other < size; ++other)
      CHECK(window->locate(other, 0, 3 * granule()).size() == 3);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  drain_retired_memory();
}

TEST_CASE("mpi_window: host memory that one rank lacks for its window fails all") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it has no memory");
  if (quirks::host_may_not_touch.holds()) return;
  int failed = 0;
  for (std::uint64_t nth = 1, struck = 1; struck != 0; ++nth) {
    CAPTURE(nth);
    REQUIRE(nth < 200);
    std::optional<mpi_window> window;
    const shared_end end = call_without_memory(
        0, nth, [&] { window.emplace(mpi_world(MPI_THREAD_MULTIPLE), first_device); });
    struck = end.struck ? 1 : 0;
    CHECK(window.has_value() == !end.all_threw);
    failed += end.all_threw ? 1 : 0;
  }
  CHECK(failed > 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
