// SPDX-License-Identifier: MIT
// Missing memory of the host on one rank. The case is run by all ranks of mpirun at the same time.
#include <hipvmm/compat/mpi.hpp>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/ranks/communicator_parts.hpp>
#include <hipvmm/ipc/ranks/exchange.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include "mpi_world.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_profile.hpp"
#include "support/test.hpp"

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

TEST_CASE("mpi_communicator: host memory that one rank lacks in exchange() ends no wait late") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it has no memory");
  const device_ref device{0};
  mpi_options options;
  options.staging_bytes = 65536;
  options.limit = std::chrono::milliseconds{20000};
  growable_device_vector<int> source{device};
  growable_device_vector<int> out{device};
  for (int nth = 1, struck = 1; struck != 0; ++nth) {
    CAPTURE(nth);
    REQUIRE(nth < 1000);
    mpi_communicator ranks{mpi_world(), device, options};
    const stream stream{device};
    const std::vector<std::size_t> counts(static_cast<std::size_t>(ranks.size()), 1);
    source.resize(counts.size(), ranks.rank(), stream);
    out.clear();
    stream.synchronize();
    MPI_Barrier(mpi_world());
    std::optional<allocation_failure> failure;
    if (ranks.rank() == 0) failure.emplace(static_cast<std::uint64_t>(nth));
    try {
      static_cast<void>(exchange(source, counts, out, ranks, stream));
      CHECK(out.size() == counts.size());
    } catch (const rank_error& error) {
      INFO(error.what());
      CHECK(error.rank() == 0);
      CHECK((error.reason() == rank_failure::lost || error.reason() == rank_failure::remote));
      CHECK(out.empty());
    } catch (const std::exception&) {
      CHECK(ranks.rank() == 0);
      CHECK(out.empty());
    }
    struck = failure && failure->struck() ? 1 : 0;
    failure.reset();
    MPI_Bcast(&struck, 1, MPI_INT, 0, mpi_world());
  }
  // MPI may still use the memory of a transfer that has failed.
  detail::keep_until_exit(std::move(source));
  detail::keep_until_exit(std::move(out));
}

TEST_CASE("mpi_communicator: host memory that one rank lacks for its own fails all, at once") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it has no memory");
  mpi_options options;
  options.limit = std::chrono::milliseconds{20000};
  int own = 0;
  MPI_Comm_rank(mpi_world(), &own);
  int failed = 0;
  // The first is for MPI's handle, without which there is no way to tell.
  for (int nth = 2, struck = 1; struck != 0; ++nth) {
    CAPTURE(nth);
    REQUIRE(nth < 200);
    std::optional<allocation_failure> failure;
    if (own == 0) failure.emplace(static_cast<std::uint64_t>(nth));
    int threw = 0;
    try {
      const mpi_communicator ranks{mpi_world(), device_ref{0}, options};
    } catch (const rank_error& error) {
      threw = 1;
      INFO(error.what());
      CHECK(error.rank() == 0);
      CHECK(error.reason() == rank_failure::lost);
    } catch (const std::exception&) {
      threw = 1;
      CHECK(own == 0);
    }
    struck = failure && failure->struck() ? 1 : 0;
    failure.reset();
    MPI_Bcast(&struck, 1, MPI_INT, 0, mpi_world());
    int count = 0;
    MPI_Allreduce(&threw, &count, 1, MPI_INT, MPI_SUM, mpi_world());
    if (count != 0) ++failed;
  }
  CHECK(failed > 3);
}

/// Counts its ends.
struct ending {
  int* ends;
  explicit ending(int& count) : ends{&count} {}
  ending(ending&& other) noexcept : ends{std::exchange(other.ends, nullptr)} {}
  ending& operator=(ending&&) = delete;
  ~ending() {
    if (ends != nullptr) ++*ends;
  }
};

TEST_CASE("keep_until_exit: what messages may use stays, also where there is no memory for it") {
  static int ends = 0;
  for (std::uint64_t nth = 1, struck = 1; struck != 0; ++nth) {
    CAPTURE(nth);
    REQUIRE(nth < 20);
    {
      ending memory{ends};
      const allocation_failure failure{nth};
      detail::keep_until_exit(std::move(memory));
      struck = failure.struck() ? 1 : 0;
    }
    CHECK(ends == 0);
  }
}

}  // namespace
}  // namespace hipvmm::test
