// SPDX-License-Identifier: MIT
// Transfers in which calls of HIP fail. The host provider refuses a copy to no memory: AMD's
// runtime crashes.
#include "ipc/ranks/run_ranks.hpp"
#include "support/blocked_stream.hpp"
#include "support/host/host_provider.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("thread_communicator: where a transfer fails no rank's work uses the memory any more" *
          needs_virtual_memory) {
  std::atomic<int> ended{0};
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    growable_device_vector<int> data{first_device};
    data.assign(1, 7, one.stream);
    one.stream.synchronize();
    if (one.ranks.rank() == 0) {
      const std::vector<outgoing> out{{0, data.data(), sizeof(int)}, {1, data.data(), sizeof(int)}};
      // There is no memory at its target.
      const std::vector<incoming> in{{0, data.data() + data.capacity(), sizeof(int)}};
      CHECK_THROWS_AS(one.ranks.transfer(out, in, one.stream), hip_error);
      ++ended;
    } else {
      growable_device_vector<int> target{first_device};
      target.resize(1, one.stream);
      one.stream.synchronize();
      blocked_stream work{first_device};
      std::thread later{[&] {
        CHECK_FALSE(happens([&] { return ended != 0; }));
        work.release();
      }};
      CHECK_THROWS_AS(one.ranks.transfer({}, {{0, target.data(), sizeof(int)}}, work), rank_error);
      ++ended;
      later.join();
      CHECK(work.is_done());
    }
  });
}

TEST_CASE("thread_communicator: no rank goes on while another asks for a wait for its event") {
  std::chrono::steady_clock::duration received{};
  // The receiver's stream waits for the message, then the sender's for the copy.
  const planned_faults slow{"hipStreamWaitEvent nth=2 delay=40ms"};
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    growable_device_vector<int> data{first_device};
    data.assign(1, 7, one.stream);
    const std::vector<outgoing> out{{1, data.data(), sizeof(int)}};
    const std::vector<incoming> in{{0, data.data(), sizeof(int)}};
    if (one.ranks.rank() == 0) return one.ranks.transfer(out, {}, one.stream);
    const auto start = std::chrono::steady_clock::now();
    one.ranks.transfer({}, in, one.stream);
    received = std::chrono::steady_clock::now() - start;
  });
  CHECK(received >= std::chrono::milliseconds{40});
}

TEST_CASE("thread_communicator: a receive that fails leaves no copy of those before it" *
          needs_virtual_memory) {
  std::atomic<int> ended{0};
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    growable_device_vector<int> data{first_device};
    data.assign(1, 7, one.stream);
    one.stream.synchronize();
    if (one.ranks.rank() == 0) {
      CHECK_THROWS_AS(one.ranks.transfer({{1, data.data(), sizeof(int)}}, {}, one.stream),
                      rank_error);
      ++ended;
    } else {
      growable_device_vector<int> target{first_device};
      target.resize(1, one.stream);
      one.stream.synchronize();
      blocked_stream work{first_device};
      bool too_early = false;
      std::thread later{[&] {
        too_early = happens([&] { return ended != 0; });
        work.release();
      }};
      const std::vector<incoming> in{{0, target.data(), sizeof(int)},
                                     {1, data.data() + data.capacity(), sizeof(int)}};
      CHECK_THROWS_AS(one.ranks.transfer({{1, data.data(), sizeof(int)}}, in, work), hip_error);
      later.join();
      CHECK_FALSE(too_early);
    }
  });
}

/// Rank 0 sends to rank 1, whose stream is busy, while the calls of `plan` fail: rank 0 comes back
/// when the copy has been made.
void check_sender_waits(const std::string& plan) {
  CAPTURE(plan);
  std::atomic<int> ended{0};
  std::optional<planned_faults> faults;
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    growable_device_vector<int> data{first_device};
    data.assign(1, 7, one.stream);
    one.stream.synchronize();
    const auto meet = [&] {
      const char mine = 0;
      std::vector<char> all(2);
      one.ranks.all_gather(&mine, all.data(), sizeof(mine));
    };
    if (one.ranks.rank() == 0) {
      meet();
      one.ranks.transfer({{1, data.data(), sizeof(int)}}, {}, one.stream);
      ++ended;
      one.stream.synchronize();
    } else {
      blocked_stream work{first_device};
      faults.emplace(plan);
      meet();
      bool too_early = false;
      std::thread later{[&] {
        too_early = happens([&] { return ended != 0; });
        work.release();
      }};
      one.ranks.transfer({}, {{0, data.data(), sizeof(int)}}, work);
      later.join();
      CHECK_FALSE(too_early);
    }
    meet();
  });
}

TEST_CASE("thread_communicator: a sender waits where HIP refuses the order of the streams") {
  // Both record their sends, then their receives.
  check_sender_waits(
      "hipEventRecord nth=3 error=hipErrorUnknown; hipEventRecord nth=4 error=hipErrorUnknown");
  // The receiver waits in its stream for the sender first.
  check_sender_waits("hipStreamWaitEvent nth=2 error=hipErrorUnknown");
}

TEST_CASE("thread_communicator: a sender that can wait in no way fails all ranks at once") {
  // The receiver waits in its stream for the sender first.
  const planned_faults refused{
      "hipStreamWaitEvent nth=2 error=hipErrorUnknown; hipEventSynchronize error=hipErrorUnknown"};
  const auto ends = run_ranks_to_end(2, {first_device}, {}, [&](thread_rank& one) {
    growable_device_vector<int> data{first_device};
    data.assign(1, 7, one.stream);
    if (one.ranks.rank() == 0)
      one.ranks.transfer({{1, data.data(), sizeof(int)}}, {}, one.stream);
    else
      one.ranks.transfer({}, {{0, data.data(), sizeof(int)}}, one.stream);
  });
  CHECK(ends[0].thrown.find("hipEventSynchronize") != std::string::npos);
  CHECK(ends[1].reason == rank_failure::remote);
  CHECK(ends[1].at_fault == 0);
}

}  // namespace
}  // namespace hipvmm::test
