// SPDX-License-Identifier: MIT
// The contract that MPI and NCCL are held to, for ranks that are threads.
#include <hipvmm/ipc/ranks/thread_communicator.hpp>

#include <hipvmm/runtime/device.hpp>
#include "contract/communicator_contract.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

void run_threads(int size, std::chrono::milliseconds limit,
                 const std::function<void(communicator&)>& body) {
  thread_ranks group{size, communicator_options{limit}};
  std::vector<std::string> thrown(static_cast<std::size_t>(size));
  in_threads(size, [&](int rank) {
    try {
      thread_communicator ranks{group, rank, device_ref{0}};
      body(ranks);
    } catch (const std::exception& error) {
      thrown[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  for (const std::string& each : thrown) CHECK(each == "");
}

TEST_CASE("thread_communicator: the contract, one to four ranks") {
  for (int size = 1; size <= 4; ++size)
    run_threads(size, std::chrono::seconds{20}, contract::check_communicator);
}

TEST_CASE("thread_communicator: a rank that leaves, or calls another function") {
  constexpr std::chrono::milliseconds limit{100};
  run_threads(3, limit, [&](communicator& ranks) { contract::check_absent_rank(ranks, limit); });
  run_threads(3, limit, [&](communicator& ranks) { contract::check_other_function(ranks, limit); });
  run_threads(3, limit, [&](communicator& ranks) { contract::check_missing_piece(ranks, limit); });
}

}  // namespace
}  // namespace hipvmm::test
