// SPDX-License-Identifier: MIT
// Each case is run by all ranks of mpirun at the same time.
#include <hipvmm/compat/mpi.hpp>

#include <hipvmm/provider/host_control.h>
#include "contract/communicator_contract.hpp"
#include "contract/rank_errors.hpp"
#include "mpi_world.hpp"
#include "support/blocked_stream.hpp"
#include "support/test.hpp"

using hipvmm::contract::check_rank_error;
using hipvmm::test::mpi_world;
using std::chrono::milliseconds;

namespace {

hipvmm::mpi_options options_of(hipvmm::mpi_device_memory memory, std::size_t staging_bytes = 65536,
                               milliseconds limit = milliseconds{20000}) {
  hipvmm::mpi_options result;
  result.device_memory = memory;
  result.staging_bytes = staging_bytes;
  result.limit = limit;
  return result;
}

// Long enough for four ranks on two busy cores to meet.
constexpr milliseconds short_limit{600};
/// All ranks call this, and then begin together.
hipvmm::mpi_options limited() {
  MPI_Barrier(mpi_world());
  return options_of(hipvmm::mpi_device_memory::ask, 65536, short_limit);
}

const hipvmm::device_ref device{0};

}  // namespace

TEST_CASE("mpi_communicator: the contract, as the device asks for it") {
  hipvmm::mpi_communicator ranks{mpi_world(), device};
  hipvmm::contract::check_communicator(ranks);
  const bool is_open = hipvmm::detail::is_host_memory(device);
  CHECK((ranks.describe().find("is host memory") != std::string::npos) == is_open);
  CHECK((ranks.describe().find("staged") != std::string::npos) == !is_open);
  CHECK(ranks.describe().find("MPI") != std::string::npos);
}

TEST_CASE("mpi_communicator: the contract, staged in pieces") {
  for (const std::size_t bytes : {std::size_t{1000}, std::size_t{65536}, hipvmm::MiB}) {
    hipvmm::mpi_communicator ranks{mpi_world(), device,
                                   options_of(hipvmm::mpi_device_memory::staged, bytes)};
    hipvmm::contract::check_communicator(ranks);
    CHECK(ranks.describe().find("staged through pinned memory in messages of at most " +
                                hipvmm::format_bytes(bytes)) != std::string::npos);
  }
}

TEST_CASE("mpi_communicator: what a buffer got is copied before it gets more") {
  hipvmm::mpi_communicator ranks{mpi_world(), device,
                                 options_of(hipvmm::mpi_device_memory::staged, 1000)};
  if (ranks.size() == 1) return;
  std::vector<unsigned char> sent(8000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<unsigned char>(i / 1000 + 1);
  hipvmm::growable_device_vector<unsigned char> bytes{device};
  if (ranks.rank() == 1) {
    bytes.resize_uninitialized(sent.size());
    hipvmm::test::blocked_stream late{device};
    // MPI's waits are no waits of the system.
    std::thread release{[&] {
      std::this_thread::sleep_for(milliseconds{30});
      late.release();
    }};
    ranks.transfer({}, {{0, bytes.data(), sent.size()}}, late);
    release.join();
    CHECK(hipvmm::contract::on_host(bytes, late) == sent);
  } else {
    const hipvmm::stream stream{device};
    bytes.append(sent, stream);
    if (ranks.rank() == 0)
      ranks.transfer({{1, bytes.data(), sent.size()}}, {}, stream);
    else
      ranks.transfer({}, {}, stream);
    stream.synchronize();
  }
}

TEST_CASE("mpi_communicator: ranks that stage and ranks that do not understand each other") {
  int rank = 0;
  MPI_Comm_rank(mpi_world(), &rank);
  if (!hipvmm::detail::is_host_memory(device)) return;
  hipvmm::mpi_communicator ranks{
      mpi_world(), device,
      options_of(rank % 2 == 0 ? hipvmm::mpi_device_memory::staged : hipvmm::mpi_device_memory::ask,
                 static_cast<std::size_t>(4096 * (rank + 1)))};
  hipvmm::contract::check_communicator(ranks);
}

TEST_CASE("mpi_communicator: two of one group do not disturb each other") {
  hipvmm::mpi_communicator first{mpi_world(), device};
  hipvmm::mpi_communicator second{mpi_world(), device};
  // Rank 0 uses them in another order than messages of one could bear.
  const int mine = first.rank();
  std::vector<int> all(static_cast<std::size_t>(first.size()));
  for (int i = 0; i < 3; ++i) {
    first.all_gather(&mine, all.data(), sizeof(int));
    CHECK(all.back() == first.size() - 1);
    second.all_to_all(all.data(), all.data(), sizeof(int));
  }
}

TEST_CASE("mpi_communicator: a rank that does not take part is named after the limit") {
  {
    hipvmm::mpi_communicator ranks{mpi_world(), device, limited()};
    hipvmm::contract::check_absent_rank(ranks, short_limit);
    const int mine = 0;
    std::vector<int> all(static_cast<std::size_t>(ranks.size()));
    if (ranks.rank() != 0) {
      const std::string told = check_rank_error(hipvmm::rank_failure::timeout, 0, [&] {
        ranks.all_gather(&mine, all.data(), sizeof(int));
      });
      CHECK(told.find("all_gather(): rank 0 did not take part within 600 ms") == 0);
    }
    MPI_Barrier(mpi_world());
  }
  hipvmm::mpi_communicator again{mpi_world(), device};
  hipvmm::contract::check_all_gather(again);
}

TEST_CASE("mpi_communicator: a rank that an exception ends is told to the others at once") {
  for (const bool is_in_a_call : {false, true}) {
    try {
      // One that ends while an exception is handled is not ended by it.
      hipvmm::mpi_communicator ranks{mpi_world(), device,
                                     options_of(hipvmm::mpi_device_memory::ask)};
      hipvmm::contract::check_all_gather(ranks);
      if (ranks.rank() == 0) throw std::length_error{"of the program"};
      const int mine = 1;
      std::vector<int> all(static_cast<std::size_t>(ranks.size()));
      if (is_in_a_call) {
        ranks.all_gather(&mine, all.data(), sizeof(int));
      } else {
        std::this_thread::sleep_for(milliseconds{20});
        ranks.all_to_all(all.data(), all.data(), sizeof(int));
      }
      FAIL_CHECK("no error");
    } catch (const hipvmm::rank_error& error) {
      CHECK(error.reason() == hipvmm::rank_failure::lost);
      CHECK(error.rank() == 0);
      CHECK(error.what() ==
            doctest::Contains("rank 0 has ended its communicator, by an exception; the ranks that "
                              "are left need one of their own"));
    } catch (const std::length_error&) {
      hipvmm::mpi_communicator after{MPI_COMM_SELF, device};
    }
    MPI_Barrier(mpi_world());
  }
}

TEST_CASE("mpi_communicator: a rank that calls another function is found at once") {
  hipvmm::mpi_communicator ranks{mpi_world(), device,
                                 options_of(hipvmm::mpi_device_memory::ask, 65536)};
  std::vector<int> mine(static_cast<std::size_t>(ranks.size()));
  std::vector<int> all(mine.size());
  const std::string message = check_rank_error(hipvmm::rank_failure::refused, {}, [&] {
    if (ranks.rank() == 0)
      ranks.all_to_all(mine.data(), all.data(), sizeof(int));
    else
      ranks.all_gather(mine.data(), all.data(), sizeof(int));
  });
  CHECK(message.find(" instead; all ranks call the same functions in the same order") !=
        std::string::npos);
  MPI_Barrier(mpi_world());
}

TEST_CASE("mpi_communicator: another function or a missing piece ends within the limit") {
  {
    hipvmm::mpi_communicator ranks{mpi_world(), device, limited()};
    hipvmm::contract::check_other_function(ranks, short_limit);
    MPI_Barrier(mpi_world());
  }
  for (const auto memory : {hipvmm::mpi_device_memory::ask, hipvmm::mpi_device_memory::staged}) {
    hipvmm::mpi_communicator ranks{mpi_world(), device, options_of(memory, 65536, short_limit)};
    hipvmm::contract::check_missing_piece(ranks, short_limit);
    MPI_Barrier(mpi_world());
  }
}

TEST_CASE("mpi_communicator: pieces of other sizes than expected are refused") {
  for (const bool more : {false, true}) {
    hipvmm::mpi_communicator ranks{mpi_world(), device, limited()};
    const int root = ranks.rank() == 0 ? 1 : 0;
    const std::size_t bytes = root == 1 ? (more ? 12U : 4U) : 8U;
    std::vector<unsigned char> mine(12);
    std::vector<unsigned char> all(12 * static_cast<std::size_t>(ranks.size()));
    const std::string told = check_rank_error(hipvmm::rank_failure::refused, {}, [&] {
      ranks.all_gather(mine.data(), all.data(), bytes);
    });
    CHECK(told.find("; all ranks give the same sizes") != std::string::npos);
    MPI_Barrier(mpi_world());
  }
}

TEST_CASE("mpi_communicator: no limit is too long, and none of zero") {
  const auto with = [](milliseconds limit) {
    return options_of(hipvmm::mpi_device_memory::ask, 65536, limit);
  };
  CHECK_THROWS_AS((hipvmm::mpi_communicator{mpi_world(), device, with(milliseconds{0})}),
                  std::invalid_argument);
  hipvmm::mpi_communicator ranks{mpi_world(), device, with(milliseconds::max())};
  hipvmm::contract::check_all_gather(ranks);
}

TEST_CASE("mpi_communicator: wrong pieces and options are refused, and end its use") {
  hipvmm::mpi_options nothing;
  nothing.staging_bytes = 0;
  CHECK_THROWS_AS((hipvmm::mpi_communicator{mpi_world(), device, nothing}), std::invalid_argument);
  CHECK_THROWS_AS((hipvmm::mpi_communicator{mpi_world(), hipvmm::device_ref{99}, limited()}),
                  std::invalid_argument);
  hipvmm::mpi_communicator ranks{mpi_world(), device, limited()};
  const hipvmm::stream stream{device};
  CHECK_THROWS_AS(ranks.transfer({{99, nullptr, 0}}, {}, stream), std::invalid_argument);
  check_rank_error(hipvmm::rank_failure::lost, {}, [&] { ranks.transfer({}, {}, stream); });
}

TEST_CASE("mpi_communicator: HIP calls of a transfer that fail on one rank end it on all") {
  for (const auto memory : {hipvmm::mpi_device_memory::ask, hipvmm::mpi_device_memory::staged}) {
    for (int nth = 1, struck = 1; struck != 0; ++nth) {
      hipvmm::mpi_communicator ranks{mpi_world(), device, options_of(memory, 2048)};
      REQUIRE(nth < 100 * ranks.size());
      const hipvmm::stream stream{device};
      hipvmm::growable_device_vector<unsigned char> source{device};
      hipvmm::growable_device_vector<unsigned char> target{device};
      const auto size = static_cast<std::size_t>(ranks.size());
      source.resize(size * 3000, 7, stream);
      target.resize(size * 3000, 0, stream);
      std::vector<hipvmm::outgoing> out;
      std::vector<hipvmm::incoming> in;
      for (int other = 0; other < ranks.size(); ++other) {
        const std::size_t at = static_cast<std::size_t>(other) * 3000;
        out.push_back({other, source.data() + at, 3000});
        in.push_back({other, target.data() + at, 3000});
      }
      stream.synchronize();
      MPI_Barrier(mpi_world());
      bool threw = false;
      if (ranks.rank() == 0)
        hipvmm_host_fail_call(nullptr, static_cast<std::uint64_t>(nth), hipErrorOperatingSystem);
      try {
        ranks.transfer(out, in, stream);
        stream.synchronize();
      } catch (const hipvmm::rank_error& error) {
        threw = true;
        CHECK(ranks.rank() != 0);
        CHECK(error.rank() == 0);
        CHECK(error.reason() == hipvmm::rank_failure::lost);
        CHECK(std::string{error.what()}.find("transfer(): rank 0 could not do its part: ") == 0);
      } catch (const std::exception&) {
        threw = true;
        CHECK(ranks.rank() == 0);
      }
      hipvmm_host_fail_call(nullptr, 0, 0);
      struck = ranks.rank() == 0 && hipvmm_host_fault_struck() != 0 ? 1 : 0;
      MPI_Bcast(&struck, 1, MPI_INT, 0, mpi_world());
      // A rank that has all it expects goes on.
      if (!threw)
        CHECK(hipvmm::contract::on_host(target, stream) ==
              std::vector<unsigned char>(size * 3000, 7));
      stream.synchronize();
      MPI_Barrier(mpi_world());
    }
  }
}

// Run alone, by its name: the process of one rank ends, and mpirun ends the others.
TEST_CASE("mpi_communicator: a rank dies" * doctest::skip()) {
  hipvmm::mpi_communicator ranks{mpi_world(), device, limited()};
  if (ranks.rank() == 1) std::_Exit(9);
  hipvmm::contract::check_all_gather(ranks);
}
