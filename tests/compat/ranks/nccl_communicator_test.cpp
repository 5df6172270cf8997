// SPDX-License-Identifier: MIT
#include <hipvmm/compat/nccl.hpp>

#include <hipvmm/runtime/device.hpp>
#include "contract/communicator_contract.hpp"
#include "run_nccl_ranks.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

#if HIPVMM_TEST_ON_CUDA || HIPVMM_TEST_ON_AMD
int most_ranks() { return device_count(); }
#else
int most_ranks() { return 4; }
#endif

TEST_CASE("nccl_communicator: the contract, blocking and nonblocking") {
  for (int size = 1; size <= most_ranks(); ++size)
    for (const bool is_blocking : {true, false})
      run_nccl_ranks({size, is_blocking}, [&](nccl_communicator& ranks, ncclComm_t) {
        CHECK(ranks.size() == size);
        contract::check_communicator(ranks);
        CHECK(ranks.describe().find("CCL 2.") != std::string::npos);
        CHECK(ranks.describe().find("does not wait for its stream") != std::string::npos);
      });
}

TEST_CASE("nccl_communicator: wait ends when a stream has ended") {
  run_nccl_ranks({most_ranks(), false}, [](nccl_communicator& ranks, ncclComm_t) {
    const stream stream{ranks.device()};
    contract::check_ring(ranks);
    growable_device_vector<unsigned char> bytes{ranks.device()};
    bytes.resize(100000, 3, stream);
    ranks.wait(stream);
    CHECK(stream.is_done());
  });
}

TEST_CASE("nccl_communicator: the lock is held in calls of NCCL and not beyond") {
  std::mutex mutex;
  int taken = 0;
  const auto lock = [&] {
    std::unique_lock held{mutex};
    ++taken;
    return held;
  };
  // One lock for all ranks: a rank that waited with it would stop the others.
  run_nccl_ranks({most_ranks(), false, std::chrono::seconds{20}, lock},
                 [](nccl_communicator& ranks, ncclComm_t) {
                   contract::check_all_to_all(ranks);
                   contract::check_transfer(ranks);
                 });
  CHECK(taken > 10);
}

TEST_CASE("nccl_communicator: versions are told as NCCL counts them") {
  CHECK(detail::nccl_version_text(2708) == "2.7.8");
  CHECK(detail::nccl_version_text(21304) == "2.13.4");
  CHECK(detail::nccl_version_text(22703) == "2.27.3");
}

TEST_CASE("nccl_communicator: no communicator of NCCL is refused") {
  CHECK_THROWS_AS(nccl_communicator{nullptr}, std::invalid_argument);
}

}  // namespace
}  // namespace hipvmm::test
