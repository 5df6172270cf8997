// SPDX-License-Identifier: MIT
// Faults of the stand-in.
#include <hipvmm/compat/nccl.hpp>

#include <hipvmm/provider/host_control.h>
#include "contract/communicator_contract.hpp"
#include "run_nccl_ranks.hpp"
#include "support/host/host_provider.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

constexpr std::chrono::milliseconds short_limit{400};
const nccl_group limited{3, false, short_limit};

template <typename Call>
std::string message_of(Call call, rank_failure reason) {
  try {
    call();
  } catch (const rank_error& error) {
    CHECK(error.reason() == reason);
    return error.what();
  }
  FAIL_CHECK("no rank_error");
  return {};
}

TEST_CASE("nccl_communicator: a rank that does not take part, or calls another function") {
  run_nccl_ranks(
      limited,
      [](nccl_communicator& ranks, ncclComm_t) {
        contract::check_absent_rank(ranks, short_limit);
        if (ranks.rank() == 0) return;
        CHECK(message_of([&] { ranks.wait(stream{}); }, rank_failure::timeout)
                  .find("all_gather(): not all ranks took part within 400 ms") == 0);
      },
      true);
  run_nccl_ranks(
      limited,
      [](nccl_communicator& ranks, ncclComm_t) {
        contract::check_other_function(ranks, short_limit);
      },
      true);
  run_nccl_ranks(
      limited,
      [](nccl_communicator& ranks, ncclComm_t) {
        if (ranks.rank() == 0) return;
        contract::check_missing_piece(ranks, short_limit);
      },
      true);
}

TEST_CASE("nccl_communicator: what waits in a stream ends a wait by the limit") {
  std::atomic<int> ended{0};
  run_nccl_ranks(
      limited,
      [&](nccl_communicator& ranks, ncclComm_t& comm) {
        const stream used{ranks.device()};
        growable_device_vector<unsigned char> bytes{ranks.device()};
        bytes.resize(2000, 1, used);
        used.synchronize();
        nccl_stand_in_stall(comm);
        const int next = (ranks.rank() + 1) % ranks.size();
        const int last = (ranks.rank() + ranks.size() - 1) % ranks.size();
        ranks.transfer({{next, bytes.data(), 1000}}, {{last, bytes.data() + 1000, 1000}}, used);
        CHECK(message_of([&] { ranks.wait(used); }, rank_failure::timeout).find("wait(): ") == 0);
        // Others' streams wait for this one too.
        ++ended;
        while (ended < 3) std::this_thread::yield();
        CHECK(ncclCommAbort(std::exchange(comm, nullptr)) == ncclSuccess);
        used.synchronize();
      },
      true);
}

TEST_CASE("nccl_communicator: an error that NCCL reports ends a call and those after it") {
  run_nccl_ranks(
      {3, false, std::chrono::seconds{20}},
      [](nccl_communicator& ranks, ncclComm_t comm) {
        nccl_stand_in_set_error(comm, ncclRemoteError);
        const int mine = 1;
        std::vector<int> all(3);
        const auto call = [&] { ranks.all_gather(&mine, all.data(), sizeof(int)); };
        CHECK(message_of(call, rank_failure::lost)
                  .find("remote process exited or there was a network error (of the stand-in); "
                        "call ncclCommAbort on all ranks") != std::string::npos);
        static_cast<void>(message_of(call, rank_failure::lost));
      },
      true);
}

// CUDA waits for devices in such calls, with a lock that a launch of another rank needs: seen not
// to end on two H200.
TEST_CASE("nccl_communicator: calls with long messages neither allocate nor free") {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  {
    nccl_communicator ranks{comm};
    const std::vector<int> mine(30000, 4);
    std::vector<int> all(30000);
    const calls_of memory{std::array{"hipMalloc", "hipFree", "hipHostMalloc", "hipHostFree"}};
    ranks.all_gather(mine.data(), all.data(), all.size() * sizeof(int));
    ranks.all_to_all(mine.data(), all.data(), all.size() * sizeof(int));
    CHECK(memory.count() == 0);
  }
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("nccl_communicator: NCCL before 2.7 is refused") {
  nccl_stand_in_set_version(2604);
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  const std::string message =
      text_thrown_by<unsupported>([&] { const nccl_communicator ranks{comm}; });
  nccl_stand_in_set_version(2700);
  CHECK_NOTHROW(nccl_communicator{comm});
  nccl_stand_in_set_version(0);
  CHECK(message.find("the library is NCCL 2.6.4, and ncclSend came with 2.7") != std::string::npos);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

/// Makes a communicator of one rank and calls all of its functions, with faults from `arm` on.
/// `thrown` is the message of their exception, or "".
template <typename Arm>
void use_alone(Arm arm, std::string& thrown) {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  const stream stream{device_ref{0}};
  growable_device_vector<unsigned char> bytes{device_ref{0}};
  bytes.resize(2000, 1, stream);
  stream.synchronize();
  thrown.clear();
  try {
    arm();
    nccl_options options;
    options.limit = std::chrono::seconds{5};
    nccl_communicator ranks{comm, options};
    bool has_called = false;
    const auto use = [&] {
      const std::vector<int> mine(30000, 4);
      std::vector<int> all(30000);
      ranks.all_gather(mine.data(), all.data(), all.size() * sizeof(int));
      CHECK(all == mine);
      ranks.all_to_all(mine.data(), all.data(), all.size() * sizeof(int));
      CHECK(all == mine);
      ranks.transfer({{0, bytes.data(), 1000}}, {{0, bytes.data() + 1000, 1000}}, stream);
      has_called = true;
      ranks.wait(stream);
    };
    try {
      use();
    } catch (const std::exception& error) {
      thrown = error.what();
      // A communicator whose call failed halfway is not used again; a wait does not count.
      nccl_stand_in_fail(0, ncclSuccess);
      hipvmm_host_fail_call(nullptr, 0, 0);
      if (!has_called) CHECK_THROWS_AS(ranks.transfer({}, {}, stream), rank_error);
    }
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  nccl_stand_in_fail(0, ncclSuccess);
  hipvmm_host_fail_call(nullptr, 0, 0);
  stream.synchronize();
  CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("nccl_communicator: calls of NCCL that fail are told, each in turn") {
  for (int nth = 1;; ++nth) {
    CAPTURE(nth);
    REQUIRE(nth < 100);
    std::string thrown;
    use_alone([&] { nccl_stand_in_fail(nth, ncclSystemError); }, thrown);
    CHECK(thrown.empty() == (nccl_stand_in_struck() == 0));
    if (nccl_stand_in_struck() == 0) break;
  }
}

TEST_CASE("nccl_communicator: a call that fails in a group is told by its own name") {
  int nth = 0;
  for (const char* const call : {"ncclGroupStart", "ncclSend", "ncclRecv", "ncclGroupEnd"}) {
    ncclComm_t comm = nullptr;
    REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
    {
      nccl_communicator ranks{comm};
      const int mine = 1;
      int theirs = 0;
      nccl_stand_in_fail(++nth, ncclSystemError);
      const std::string told =
          message_of([&] { ranks.all_to_all(&mine, &theirs, sizeof(int)); }, rank_failure::lost);
      CAPTURE(told);
      CHECK(told.find(std::string{"all_to_all(): "} + call + " failed: ") == 0);
      nccl_stand_in_fail(0, ncclSuccess);
    }
    CHECK(ncclCommAbort(comm) == ncclSuccess);
  }
}

TEST_CASE("nccl_communicator: calls of HIP that fail are told, each in turn") {
  for (int nth = 1;; ++nth) {
    CAPTURE(nth);
    REQUIRE(nth < 5000);  // looks at an event while a message travels are calls too
    std::string thrown;
    use_alone(
        [&] {
          hipvmm_host_fail_call(nullptr, static_cast<std::uint64_t>(nth), hipErrorOperatingSystem);
        },
        thrown);
    if (hipvmm_host_fault_struck() == 0) {
      CHECK(thrown.empty());
      break;
    }
  }
}

}  // namespace
}  // namespace hipvmm::test
