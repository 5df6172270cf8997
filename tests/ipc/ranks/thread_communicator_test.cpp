// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/thread_communicator.hpp>

#include "contract/rank_errors.hpp"
#include "ipc/ranks/run_ranks.hpp"
#include "support/blocked_stream.hpp"

namespace hipvmm::test {
namespace {

using contract::check_rank_error;

using namespace std::chrono_literals;

/// All ranks have come here when it returns.
void meet(communicator& ranks) {
  const char mine = 0;
  std::vector<char> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(&mine, all.data(), sizeof(mine));
}

TEST_CASE("thread_communicator: a rank that does not exist, or is made twice, is refused") {
  CHECK_THROWS_WITH_AS(thread_ranks{0}, "thread_ranks: there must be at least one rank, not 0",
                       std::invalid_argument);
  const communicator_options options{.limit = 0ms};
  CHECK_THROWS_AS((thread_ranks{1, options}), std::invalid_argument);
  thread_ranks group{2};
  CHECK(group.size() == 2);
  CHECK_THROWS_AS((thread_communicator{group, 2, first_device}), std::invalid_argument);
  CHECK_THROWS_AS((thread_communicator{group, -1, first_device}), std::invalid_argument);
  const thread_communicator first{group, 0, first_device};
  CHECK_THROWS_AS((thread_communicator{group, 0, first_device}), std::invalid_argument);
  CHECK(first.rank() == 0);
  CHECK(first.size() == 2);
  CHECK(first.describe().find("2 threads of one process") == 0);
}

/// Of a few elements, some to each of two ranks.
struct transfer_subject {
  thread_rank& one;
  growable_device_vector<int> source{one.ranks.device()};
  growable_device_vector<int> target{one.ranks.device()};

  explicit transfer_subject(thread_rank& rank) : one{rank} {
    source.assign(2, one.ranks.rank() + 1, one.stream);
    target.resize(2, one.stream);
  }
  void run(std::size_t bytes_received = sizeof(int)) {
    one.ranks.transfer({{0, source.data(), sizeof(int)}, {1, source.data() + 1, sizeof(int)}},
                       {{0, target.data(), bytes_received}, {1, target.data() + 1, sizeof(int)}},
                       one.stream);
  }
};

TEST_CASE("thread_communicator: pieces that differ between two ranks are refused on both") {
  run_ranks(2, {first_device}, [](thread_rank& one) {
    transfer_subject subject{one};
    const std::string told = check_rank_error(
        rank_failure::refused, 0, [&] { subject.run(one.ranks.rank() == 1 ? 2 : sizeof(int)); });
    CHECK(told ==
          "rank 0 sends 4 bytes in 1 piece to rank 1, which receives 2 bytes in 1 piece; both "
          "name one piece of the same bytes, or none");
    subject.run();
    CHECK(subject.target.copy_to_host(one.stream) == std::vector<int>{1, 2});
  });
}

TEST_CASE("thread_communicator: a piece of no rank, or of no memory, fails on all ranks") {
  run_ranks(2, {first_device}, [](thread_rank& one) {
    transfer_subject subject{one};
    int* const data = subject.source.data();
    const std::vector<outgoing> nowhere{{2, data, sizeof(int)}};
    const std::vector<incoming> from_nowhere{{-1, data, sizeof(int)}};
    const std::vector<incoming> to_null{{0, nullptr, sizeof(int)}};
    for (int wrong = 0; wrong < 3; ++wrong) {
      const auto transfer = [&] {
        if (one.ranks.rank() == 0)
          one.ranks.transfer(
              wrong == 2 ? std::vector<outgoing>{{1, data, sizeof(int)}} : std::vector<outgoing>{},
              {}, one.stream);
        else
          one.ranks.transfer(wrong == 0 ? nowhere : std::vector<outgoing>{},
                             wrong == 1   ? from_nowhere
                             : wrong == 2 ? to_null
                                          : std::vector<incoming>{},
                             one.stream);
      };
      if (one.ranks.rank() == 1)
        CHECK_THROWS_AS(transfer(), std::invalid_argument);
      else
        CHECK_THROWS_AS(transfer(), rank_error);
    }
    subject.run();
    CHECK(subject.target.copy_to_host(one.stream) == std::vector<int>{1, 2});
  });
}

TEST_CASE("thread_communicator: a rank that could not be made is lost to the others at once") {
  thread_ranks group{2};
  thread_communicator first{group, 0, first_device};
  CHECK_THROWS_AS((thread_communicator{group, 1, device_ref{99}}), std::invalid_argument);
  CHECK_THROWS_AS(meet(first), rank_error);
}

TEST_CASE("thread_communicator: a transfer waits in the stream for what is sent") {
  run_ranks(2, {first_device}, [](thread_rank& one) {
    growable_device_vector<int> data{first_device};
    data.assign(1, one.ranks.rank(), one.stream);
    one.stream.synchronize();
    if (one.ranks.rank() == 0) {
      blocked_stream work{first_device};
      data.assign(1, 7, work);
      one.ranks.transfer({{1, data.data(), sizeof(int)}}, {}, work);
      CHECK_FALSE(work.is_done());
      meet(one.ranks);
      work.release();
    } else {
      one.ranks.transfer({}, {{0, data.data(), sizeof(int)}}, one.stream);
      CHECK_FALSE(one.stream.is_done());
      meet(one.ranks);
      CHECK(data.element(0, one.stream) == 7);
    }
  });
}

TEST_CASE("thread_communicator: what was sent changes only when it has been received") {
  run_ranks(2, {first_device}, [](thread_rank& one) {
    growable_device_vector<int> data{first_device};
    data.assign(1, 7, one.stream);
    one.stream.synchronize();
    if (one.ranks.rank() == 0) {
      one.ranks.transfer({{1, data.data(), sizeof(int)}}, {}, one.stream);
      data.assign(1, 8, one.stream);
      CHECK_FALSE(happens([&] { return one.stream.is_done(); }));
      meet(one.ranks);
    } else {
      growable_device_vector<int> target{first_device};
      target.resize(1, one.stream);
      one.stream.synchronize();
      blocked_stream work{first_device};
      one.ranks.transfer({}, {{0, target.data(), sizeof(int)}}, work);
      meet(one.ranks);
      work.release();
      CHECK(target.element(0, work) == 7);
    }
  });
}

TEST_CASE("thread_communicator: a rank that ends is lost to the others at once") {
  const auto ends = run_ranks_to_end(3, {first_device}, {}, [](thread_rank& one) {
    if (one.ranks.rank() == 1) throw std::runtime_error{"enough"};
    check_rank_error(rank_failure::lost, 1, [&] { meet(one.ranks); });
    transfer_subject subject{one};
    subject.run();  // throws the same
  });
  CHECK(ends[1].thrown == "enough");
  for (const std::size_t other : {0U, 2U}) {
    CHECK(ends[other].reason == rank_failure::lost);
    CHECK(ends[other].at_fault == 1);
    CHECK(ends[other].thrown ==
          "rank 1 has ended its communicator, or never had one; the ranks that are left need "
          "thread_ranks of their own");
  }
}

TEST_CASE("thread_communicator: ranks that end after the last call disturb no one") {
  for (int i = 0; i < 20; ++i)
    run_ranks(3, {first_device}, [](thread_rank& one) {
      meet(one.ranks);
      transfer_subject subject{one};
      one.ranks.transfer({}, {}, one.stream);
      meet(one.ranks);
    });
}

TEST_CASE("thread_communicator: a rank that was never made is lost when its group ends") {
  auto group = std::make_unique<thread_ranks>(2);
  thread_communicator first{*group, 0, first_device};
  group.reset();
  CHECK(first.size() == 2);
  check_rank_error(rank_failure::lost, 1, [&] { meet(first); });
}

TEST_CASE("thread_communicator: a rank that does not come is named when the limit ends") {
  const communicator_options options{.limit = 20ms};
  std::atomic<int> gave_up{0};
  const auto ends = run_ranks_to_end(3, {first_device}, options, [&](thread_rank& one) {
    if (one.ranks.rank() == 1) {
      REQUIRE(comes_true([&] { return gave_up == 2; }));
      meet(one.ranks);
    }
    try {
      meet(one.ranks);
    } catch (...) {
      ++gave_up;
      throw;
    }
  });
  for (const rank_end& each : ends) {
    CHECK(each.reason == rank_failure::timeout);
    CHECK(each.at_fault == 1);
    CHECK(each.thrown ==
          "rank 1 did not come to all_gather() within 20 ms (communicator_options::limit); it must "
          "make the same calls as the others; the ranks that are left need thread_ranks of their "
          "own");
  }
}

TEST_CASE("thread_communicator: no limit is too long") {
  const communicator_options options{.limit = std::chrono::milliseconds::max()};
  for (const rank_end& each :
       run_ranks_to_end(2, {first_device}, options, [](thread_rank& one) { meet(one.ranks); }))
    CHECK(each.thrown == "");
}

}  // namespace
}  // namespace hipvmm::test
