// SPDX-License-Identifier: MIT
// Collectives in rounds, as many ranks have them. Each case is run by all ranks of mpirun at the
// same time.
#include <hipvmm/compat/mpi.hpp>

#include <hipvmm/ipc/ranks/rank_error.hpp>
#include "contract/communicator_contract.hpp"
#include "mpi_world.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_profile.hpp"
#include "support/test.hpp"

namespace {

std::atomic<int> messages_sent{0};

}  // namespace

// In MPI's place.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int rank, int tag,
                         MPI_Comm ranks, MPI_Request* request) {
  ++messages_sent;
  return PMPI_Isend(data, count, type, rank, tag, ranks, request);
}

namespace hipvmm::test {
namespace {

/// Two ranks are many while it lives.
struct few_are_many {
  int before = detail::mpi_rounds_from.exchange(2);
  ~few_are_many() { detail::mpi_rounds_from = before; }
  few_are_many& operator=(few_are_many&&) = delete;
};

/// All ranks call this, and then begin together.
mpi_options with_limit(std::chrono::milliseconds limit) {
  MPI_Barrier(mpi_world());
  mpi_options result;
  result.limit = limit;
  return result;
}

constexpr std::chrono::milliseconds short_limit{600};
constexpr std::chrono::milliseconds long_limit{20000};

/// The error that `call` throws.
template <typename Call>
std::optional<rank_error> error_of(Call call) {
  try {
    call();
  } catch (const rank_error& error) {
    return error;
  }
  return {};
}

TEST_CASE_FIXTURE(few_are_many, "mpi_communicator: in rounds: the contract") {
  mpi_communicator ranks{mpi_world(), device_ref{0}, with_limit(long_limit)};
  contract::check_communicator(ranks);
}

TEST_CASE("mpi_communicator: in rounds: a collective has a message for each bit of the ranks") {
  const auto sent_by = [](mpi_communicator& ranks, std::size_t bytes) {
    const auto size = static_cast<std::size_t>(ranks.size());
    std::vector<unsigned char> mine(size * bytes);
    std::vector<unsigned char> all(size * bytes);
    for (std::size_t i = 0; i < mine.size(); ++i)
      mine[i] = static_cast<unsigned char>(static_cast<std::size_t>(ranks.rank()) * 31 + i * 7);
    std::vector<int> result;
    for (const bool is_gather : {true, false}) {
      std::fill(all.begin(), all.end(), static_cast<unsigned char>(0));
      MPI_Barrier(mpi_world());
      messages_sent = 0;
      if (is_gather)
        ranks.all_gather(mine.data(), all.data(), bytes);
      else
        ranks.all_to_all(mine.data(), all.data(), bytes);
      result.push_back(messages_sent);
      for (std::size_t from = 0; from < size; ++from)
        for (std::size_t i = 0; i < bytes; ++i) {
          const std::size_t at = is_gather ? i : static_cast<std::size_t>(ranks.rank()) * bytes + i;
          REQUIRE(all[from * bytes + i] == static_cast<unsigned char>(from * 31 + at * 7));
        }
    }
    return result;
  };
  mpi_communicator ranks{mpi_world(), device_ref{0}, with_limit(long_limit)};
  const int direct = ranks.size() - 1;
  int bits = 0;
  while (1 << bits < ranks.size()) ++bits;
  CHECK(sent_by(ranks, 64) == std::vector<int>{direct, direct});
  const few_are_many many;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64}})
    CHECK(sent_by(ranks, bytes) == std::vector<int>{bits, bits});
  // Large pieces go straight, once.
  CHECK(sent_by(ranks, 5000) == std::vector<int>{bits, direct});
}

TEST_CASE("mpi_communicator: in rounds: the rank that is late is named, on all others") {
  const few_are_many many;
  int size = 0;
  MPI_Comm_size(mpi_world(), &size);
  const int late = size / 2;
  {
    mpi_communicator ranks{mpi_world(), device_ref{0}, with_limit(short_limit)};
    if (ranks.rank() != late) {
      const int mine = 0;
      std::vector<int> all(static_cast<std::size_t>(size));
      const auto error = error_of([&] { ranks.all_gather(&mine, all.data(), sizeof(int)); });
      REQUIRE(error.has_value());
      CHECK(error->reason() == rank_failure::timeout);
      CHECK(error->rank() == late);
      CHECK(std::string{error->what()}.find("all_gather(): rank " + std::to_string(late) +
                                            " did not take part within 600 ms") !=
            std::string::npos);
    }
    MPI_Barrier(mpi_world());
  }
}

TEST_CASE("mpi_communicator: in rounds: a rank later than half of the limit is waited for") {
  const few_are_many many;
  mpi_communicator ranks{mpi_world(), device_ref{0}, with_limit(std::chrono::seconds{4})};
  const int mine = ranks.rank();
  std::vector<int> all(static_cast<std::size_t>(ranks.size()));
  if (ranks.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds{2100});
  // Questions and answers that are left over disturb nobody.
  for (int i = 0; i < 3; ++i) {
    ranks.all_gather(&mine, all.data(), sizeof(int));
    CHECK(all.back() == ranks.size() - 1);
    ranks.all_to_all(all.data(), all.data(), sizeof(int));
    CHECK(all == std::vector<int>(all.size(), mine));
  }
}

TEST_CASE("mpi_communicator: in rounds: another function, or other sizes, are found at once") {
  const few_are_many many;
  for (const bool is_size : {false, true}) {
    mpi_communicator ranks{mpi_world(), device_ref{0}, with_limit(long_limit)};
    const auto size = static_cast<std::size_t>(ranks.size());
    std::vector<double> mine(size);
    std::vector<double> all(size);
    const bool is_other = ranks.rank() == 0;
    const auto error = error_of([&] {
      if (is_other && !is_size)
        ranks.all_to_all(mine.data(), all.data(), sizeof(int));
      else
        ranks.all_gather(mine.data(), all.data(), is_other ? sizeof(double) : sizeof(int));
    });
    REQUIRE((error.has_value() || ranks.size() == 1));
    if (error) CHECK(error->reason() == rank_failure::refused);
    MPI_Barrier(mpi_world());
  }
}

TEST_CASE("mpi_communicator: in rounds: host memory that one rank lacks is told to all, at once") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it has no memory");
  const few_are_many many;
  for (int nth = 1, struck = 1; struck != 0; ++nth) {
    CAPTURE(nth);
    REQUIRE(nth < 100);
    mpi_communicator ranks{mpi_world(), device_ref{0}, with_limit(long_limit)};
    // A rank that is still in the constructor would fail there.
    MPI_Barrier(mpi_world());
    const auto size = static_cast<std::size_t>(ranks.size());
    std::vector<int> mine(size);
    std::vector<int> all(size);
    std::optional<allocation_failure> failure;
    if (ranks.rank() == 0) failure.emplace(static_cast<std::uint64_t>(nth));
    try {
      ranks.all_gather(mine.data(), all.data(), sizeof(int));
      ranks.all_to_all(mine.data(), all.data(), sizeof(int));
    } catch (const rank_error& error) {
      CHECK(error.reason() == rank_failure::lost);
      CHECK(error.rank() == 0);
    } catch (const std::exception&) {
      CHECK(ranks.rank() == 0);
    }
    struck = failure && failure->struck() ? 1 : 0;
    failure.reset();
    MPI_Bcast(&struck, 1, MPI_INT, 0, mpi_world());
  }
}

}  // namespace
}  // namespace hipvmm::test
