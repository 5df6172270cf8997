// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/partitioned_vector.hpp>
#include "ipc/ranks/parts_model.hpp"
#include "ipc/ranks/run_ranks.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

/// Ranks of this process with a part each, which outlive the threads that call for them.
struct parts_of_threads {
  struct one_rank {
    thread_communicator ranks;
    hipvmm::stream stream;
    partitioned_vector<std::uint32_t> part;

    one_rank(thread_ranks& group, int rank, device_ref device)
        : ranks{group, rank, device}, stream{device}, part{ranks} {}
  };

  parts_of_threads(const parts_model& parts, const std::vector<device_ref>& devices,
                   access_right own)
      : group{std::make_unique<thread_ranks>(static_cast<int>(parts.size()))} {
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      ranks.push_back(std::make_unique<one_rank>(*group, static_cast<int>(rank),
                                                 devices[rank % devices.size()]));
      for (const device_ref each : devices) ranks.back()->part.local().grant(each);
      ranks.back()->part.local().append(parts[rank], ranks.back()->stream);
      ranks.back()->stream.synchronize();
      if (own != access_right::read_write) ranks.back()->part.local().grant(devices[0], own);
    }
  }

  /// Throws if one of them did, and checks that then all did.
  void rebalance() {
    std::vector<std::string> thrown(ranks.size());
    in_threads(ranks.size(), [&](std::size_t rank) {
      try {
        ranks[rank]->part.rebalance(ranks[rank]->stream);
      } catch (const std::exception& error) {
        thrown[rank] = error.what();
      }
    });
    if (thrown == std::vector<std::string>(ranks.size())) return;
    for (const std::string& each : thrown) CHECK(each != "");
    throw std::runtime_error{thrown[0]};
  }

  void check(const parts_model& expected) const {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      CHECK(ranks[rank]->part.local().copy_to_host(ranks[rank]->stream) == expected[rank]);
  }

  std::unique_ptr<thread_ranks> group;
  std::vector<std::unique_ptr<one_rank>> ranks;
};

void fail_in_turn(const std::string& name, const std::vector<std::size_t>& sizes,
                  const std::vector<device_ref>& devices,
                  access_right own = access_right::read_write) {
  parts_model before;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    before.push_back(numbers_of_rank(static_cast<int>(rank), 0, sizes[rank]));
  fault_sweep{name, after_failure::capacity}.run(
      [&] {
        return parts_of_threads{before, devices, own};
      },
      [](parts_of_threads& of) { of.rebalance(); },
      [&](parts_of_threads& of) {
        of.check(before);
        of.rebalance();
        of.check(balanced(before));
      },
      [&](parts_of_threads& of) { of.check(balanced(before)); });
}

TEST_CASE("partitioned_vector: rebalances behind others' elements that fail lose nothing") {
  fail_in_turn("from the last rank", {100, 3000}, {first_device});
}

TEST_CASE("partitioned_vector: rebalances in front of others' elements that fail lose nothing") {
  fail_in_turn("from the first rank", {3000, 100}, {first_device});
}

// A failure of a rank behind its messages is unknown to the others.
TEST_CASE("partitioned_vector: rebalances of parts that may only be read that fail lose nothing" *
          needs_virtual_memory) {
  fail_in_turn("read only", {3000, 100}, {first_device}, access_right::read);
}

TEST_CASE("partitioned_vector: rebalances over two devices that fail lose nothing") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach each other");
  fail_in_turn("between devices", {0, 3000, 10}, {first_device, peer});
}

TEST_CASE("partitioned_vector: a stream that one rank captures is refused on all") {
  parts_model before{numbers_of_rank(0, 0, 1), numbers_of_rank(1, 0, 999)};
  const auto ends = run_ranks_to_end(2, {first_device}, {}, [&](thread_rank& one) {
    const auto own = static_cast<std::size_t>(one.ranks.rank());
    partitioned_vector<std::uint32_t> of{one.ranks};
    of.local().append(before[own], one.stream);
    one.stream.synchronize();
    if (own == 0)
      REQUIRE(hipStreamBeginCapture(one.stream.get(), hipStreamCaptureModeThreadLocal) ==
              hipSuccess);
    const std::string thrown = text_thrown_by([&] { of.rebalance(one.stream); });
    CHECK(thrown.find("rebalance in a stream that is being captured into a graph") !=
          std::string::npos);
    if (own == 0) end_capture(one.stream.get());
    of.rebalance(one.stream);
    CHECK(of.local().copy_to_host(one.stream) == balanced(before)[own]);
  });
  for (const rank_end& each : ends) CHECK(each.thrown == "");
}

}  // namespace
}  // namespace hipvmm::test
