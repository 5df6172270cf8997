// SPDX-License-Identifier: MIT
// Missing memory of the host on one rank. The case is run by all ranks of mpirun at the same time.
#include <hipvmm/compat/mpi.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

#include <doctest/doctest.h>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include "mpi_world.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_profile.hpp"

namespace hipvmm::test {
namespace {

/// Calls each function while the nth allocation of rank 0 fails. Whether there were that many.
bool use_without_memory(mpi_device_memory memory, std::uint64_t nth) {
  CAPTURE(nth);
  mpi_options options;
  options.device_memory = memory;
  options.staging_bytes = 2048;
  options.limit = std::chrono::milliseconds{20000};
  mpi_communicator ranks{mpi_world(), device_ref{0}, options};
  const auto size = static_cast<std::size_t>(ranks.size());
  const stream stream{ranks.device()};
  growable_device_vector<unsigned char> source{ranks.device()};
  growable_device_vector<unsigned char> target{ranks.device()};
  source.resize(3000, 7, stream);
  target.resize(3000, 0, stream);
  stream.synchronize();
  const std::vector<int> mine(size, ranks.rank());
  std::vector<int> theirs(size, -1);
  const int next = (ranks.rank() + 1) % ranks.size();
  const int last = (ranks.rank() + ranks.size() - 1) % ranks.size();
  const std::vector<outgoing> out{{next, source.data(), 3000}};
  const std::vector<incoming> in{{last, target.data(), 3000}};
  int struck = 0;
  const auto use = [&] {
    if (memory == mpi_device_memory::ask) ranks.all_to_all(mine.data(), theirs.data(), sizeof(int));
    ranks.transfer(out, in, stream);
  };
  MPI_Barrier(mpi_world());
  bool threw = false;
  try {
    if (ranks.rank() != 0) {
      use();
    } else {
      const allocation_failure failure{nth};
      try {
        use();
      } catch (...) {
        struck = failure.struck() ? 1 : 0;
        throw;
      }
      struck = failure.struck() ? 1 : 0;
    }
  } catch (const rank_error& error) {
    threw = true;
    CHECK(error.reason() == rank_failure::lost);
  } catch (const std::exception&) {
    threw = true;
    CHECK(ranks.rank() == 0);
  }
  if (!threw && memory == mpi_device_memory::ask)
    for (std::size_t rank = 0; rank < size; ++rank) CHECK(theirs[rank] == static_cast<int>(rank));
  stream.synchronize();
  MPI_Bcast(&struck, 1, MPI_INT, 0, mpi_world());
  return struck != 0;
}

TEST_CASE("mpi_communicator: missing host memory of one rank is told to all, at once") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it has no memory");
  for (const auto memory : {mpi_device_memory::ask, mpi_device_memory::staged})
    for (std::uint64_t nth = 1; use_without_memory(memory, nth); ++nth) REQUIRE(nth < 300);
}

}  // namespace
}  // namespace hipvmm::test
