// SPDX-License-Identifier: MIT
// Objects that end before a communicator, or are none. All ranks of mpirun run a case at the same
// time.
#include <hipvmm/compat/mpi.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <hipvmm/ipc/ranks/rank_error.hpp>
#include "mpi_world.hpp"
#include "support/test.hpp"

namespace {

int communicators_freed = 0;

}  // namespace

/// Counts, in MPI's place.
extern "C" int MPI_Comm_free(MPI_Comm* ranks) {
  ++communicators_freed;
  return PMPI_Comm_free(ranks);
}

namespace hipvmm::test {
namespace {

mpi_options soon() {
  mpi_options result;
  result.limit = std::chrono::milliseconds{20000};
  return result;
}

/// The message of the rank_error of lost that a call of `ranks` throws; "" if it does not.
std::string loss_of(mpi_communicator& ranks) {
  const int mine = ranks.rank();
  std::vector<int> all(static_cast<std::size_t>(ranks.size()));
  try {
    ranks.all_gather(&mine, all.data(), sizeof(int));
  } catch (const rank_error& error) {
    if (error.reason() == rank_failure::lost) return error.what();
  }
  return {};
}

/// Made before MPI is initialized, and so ended behind MPI_Finalize. MPI ends a process that calls
/// it then.
struct kept_beyond_mpi {
  std::unique_ptr<mpi_communicator> ranks;
  ~kept_beyond_mpi() {
    if (ranks && loss_of(*ranks).find("all_gather(): MPI is finalized") != 0) std::_Exit(8);
  }
} beyond_mpi;

TEST_CASE("mpi_communicator: a call behind MPI_Finalize is refused, and the object may end") {
  beyond_mpi.ranks = std::make_unique<mpi_communicator>(mpi_world(), device_ref{0}, soon());
  CHECK(loss_of(*beyond_mpi.ranks) == "");
}

TEST_CASE("mpi_communicator: what is no group of ranks is refused before MPI sees it") {
  const MPI_Comm world = mpi_world();
  CHECK_THROWS_WITH_AS((mpi_communicator{MPI_COMM_NULL, device_ref{0}, soon()}),
                       doctest::Contains("mpi_communicator: MPI_COMM_NULL"), std::invalid_argument);
  int size = 0;
  MPI_Comm_size(world, &size);
  if (size == 1) return;
  const between_two_groups between;
  CHECK_THROWS_WITH_AS((mpi_communicator{between.get(), device_ref{0}, soon()}),
                       doctest::Contains("MPI_Intercomm_merge"), std::invalid_argument);
}

TEST_CASE("mpi_communicator: a child of fork() neither calls MPI nor frees what the parent has") {
  auto ranks = std::make_unique<mpi_communicator>(mpi_world(), device_ref{0}, soon());
  if (ranks->rank() == 0) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      communicators_freed = 0;
      const bool is_refused = loss_of(*ranks).find("all_gather(): this is a child of fork()") == 0;
      ranks.reset();
      std::_Exit(is_refused && communicators_freed == 0 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(loss_of(*ranks) == "");
  communicators_freed = 0;
  ranks.reset();
  CHECK(communicators_freed == 1);
}

}  // namespace
}  // namespace hipvmm::test
