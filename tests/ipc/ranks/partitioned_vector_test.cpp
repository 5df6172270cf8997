// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/partitioned_vector.hpp>

#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/host_task.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include "ipc/ranks/parts_model.hpp"
#include "ipc/ranks/run_ranks.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::test {
namespace {

using numbers = partitioned_vector<std::uint32_t>;

/// An element of a size that no power of two divides.
struct three_words {
  std::uint32_t words[3];

  friend bool operator==(const three_words& a, const three_words& b) {
    return a.words[0] == b.words[0] && a.words[1] == b.words[1] && a.words[2] == b.words[2];
  }
};

three_words words_of(std::size_t index) {
  const auto number = static_cast<std::uint32_t>(index);
  return {{number, number + 1, ~number}};
}

parts_model parts_of(const std::vector<std::size_t>& sizes) {
  parts_model result;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    result.push_back(numbers_of_rank(static_cast<int>(rank), 0, sizes[rank]));
  return result;
}

/// Checks this rank's part, and its knowledge of the others.
void check_parts(const numbers& of, const parts_model& expected, stream_ref stream) {
  CHECK(of.parts().ranks() == static_cast<int>(expected.size()));
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    CHECK(of.parts().size(static_cast<int>(rank)) == expected[rank].size());
    CHECK(of.parts().offset(static_cast<int>(rank)) == at);
    at += expected[rank].size();
  }
  CHECK(of.size() == at);
  const auto own = static_cast<std::size_t>(of.ranks().rank());
  CHECK(of.offset() == of.parts().offset(of.ranks().rank()));
  CHECK(of.local().copy_to_host(stream) == expected[own]);
}

void balance(const std::vector<std::size_t>& sizes, const std::vector<device_ref>& devices) {
  CAPTURE(sizes.size());
  const parts_model before = parts_of(sizes);
  run_ranks(static_cast<int>(sizes.size()), devices, [&](thread_rank& one) {
    numbers of{one.ranks};
    for (device_ref each : devices) of.local().grant(each);
    of.local().append(before[static_cast<std::size_t>(one.ranks.rank())], one.stream);
    of.rebalance(one.stream);
    check_parts(of, balanced(before), one.stream);
  });
}

TEST_CASE("partition: an even one gives the first ranks one more") {
  const partition found = partition::even(11, 4);
  CHECK(found.ranks() == 4);
  CHECK(found.size() == 11);
  for (int rank = 0; rank < 4; ++rank) CHECK(found.size(rank) == (rank < 3 ? 3 : 2));
  CHECK(found.offset(3) == 9);
  CHECK(partition::even(2, 3).size(2) == 0);
}

TEST_CASE("partition: owner_of finds the rank beside ranks without elements") {
  partition found{5};
  CHECK(found.size() == 0);
  found.resize(1, 3);
  found.resize(3, 2);
  for (std::size_t index = 0; index < 5; ++index)
    CHECK(found.owner_of(index) == (index < 3 ? 1 : 3));
  CHECK_THROWS_WITH_AS(static_cast<void>(found.owner_of(5)),
                       "partition::owner_of: element 5 is beyond the size, 5", std::out_of_range);
  found.resize(1, 1);
  CHECK(found.size() == 3);
  CHECK(found.owner_of(1) == 3);
}

TEST_CASE("partitioned_vector: random appends and rebalances of 1 to 8 ranks follow a model") {
  std::mt19937 random = seeded_generator();
  for (int size = 1; size <= 8; ++size) {
    std::vector<std::vector<std::size_t>> added(3);
    for (std::vector<std::size_t>& each : added)
      for (int rank = 0; rank < size; ++rank)
        each.push_back(below(random, 3) == 0 ? 0 : below(random, 2000));
    run_ranks(size, {first_device}, [&](thread_rank& one) {
      numbers of{one.ranks};
      parts_model model(static_cast<std::size_t>(size));
      for (std::size_t step = 0; step < added.size(); ++step) {
        for (int rank = 0; rank < size; ++rank) {
          const auto index = static_cast<std::size_t>(rank);
          const auto more = numbers_of_rank(rank, 10000 * step, added[step][index]);
          model[index].insert(model[index].end(), more.begin(), more.end());
          if (rank == one.ranks.rank()) of.local().append(more, one.stream);
        }
        of.update();
        check_parts(of, model, one.stream);
        of.rebalance(one.stream);
        model = balanced(model);
        check_parts(of, model, one.stream);
      }
    });
  }
}

TEST_CASE("partitioned_vector: rebalance spreads what one rank has, and what there is none of") {
  balance({0, 0, 0}, {first_device});
  balance({1, 0, 0}, {first_device});
  balance({0, 0, 0, 0, 2}, {first_device});
  balance({100001, 0, 0, 0}, {first_device});
  balance({0, 0, 0, 100001}, {first_device});
  balance({0, 100001, 0}, {first_device});
  balance({3000, 100, 10, 2000}, {first_device});
  balance({50, 1, 0, 70000}, {first_device});
}

TEST_CASE("partitioned_vector: rebalance moves elements between two devices") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach each other");
  balance({300000, 0, 5, 90000}, {first_device, peer});
  balance({0, 700001}, {first_device, peer});
}

TEST_CASE("partitioned_vector: elements of 12 bytes keep their values and their order") {
  run_ranks(3, {first_device}, [&](thread_rank& one) {
    partitioned_vector<three_words> of{one.ranks};
    const std::size_t sizes[] = {3, 40, 500};
    const std::size_t begins[] = {0, 3, 43};
    const auto rank = static_cast<std::size_t>(one.ranks.rank());
    std::vector<three_words> own;
    for (std::size_t i = 0; i < sizes[rank]; ++i) own.push_back(words_of(begins[rank] + i));
    of.local().append(own, one.stream);
    of.rebalance(one.stream);
    std::vector<three_words> expected;
    for (std::size_t i = 0; i < of.local().size(); ++i)
      expected.push_back(words_of(of.offset() + i));
    CHECK(of.local().copy_to_host(one.stream) == expected);
  });
}

TEST_CASE("partitioned_vector: only elements that come in front of others move the address") {
  run_ranks(3, {first_device}, [&](thread_rank& one) {
    numbers of{one.ranks};
    const std::size_t sizes[] = {10, 100, 1000};  // 370 each
    of.local().reserve(2000);
    const auto rank = static_cast<std::size_t>(one.ranks.rank());
    of.local().append(numbers_of_rank(one.ranks.rank(), 0, sizes[rank]), one.stream);
    const std::uint32_t* const before = of.local().data();
    of.rebalance(one.stream);
    CHECK(of.local().size() == 370);
    // Rank 0 gets all behind its own, rank 1 gives 100 away and gets others, rank 2 gives 630.
    const std::size_t given[] = {0, 100, 630};
    CHECK(of.local().data() == before + given[rank]);
    if (rank == 0) of.local().resize_uninitialized(270);
    of.rebalance(one.stream);
    CHECK(of.local().size() == (rank == 0 ? 337 : rank == 1 ? 337 : 336));
  });
}

TEST_CASE("partitioned_vector: what leaves the front goes back to the device" *
          needs_virtual_memory) {
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    numbers of{one.ranks, {.granule_bytes = granule()}};
    const std::size_t step = granule() / sizeof(std::uint32_t);
    if (one.ranks.rank() == 1)
      for (int i = 0; i < 4; ++i) {  // a chunk each
        of.local().reserve((static_cast<std::size_t>(i) + 1) * step);
        of.local().resize(of.local().capacity(), one.stream);
      }
    of.rebalance(one.stream);
    CHECK(of.local().size() == 2 * step);
    if (one.ranks.rank() == 1) CHECK(of.local().capacity() == 2 * step);
  });
}

bool is_mapped(const void* address) {
  hipMemLocation location{};
  location.type = hipMemLocationTypeDevice;
  location.id = first_device.ordinal();
  unsigned long long flags = 0;
  const bool result = hipMemGetAccess(&flags, &location, const_cast<void*>(address)) == hipSuccess;
  static_cast<void>(hipGetLastError());
  return result;
}

TEST_CASE("partitioned_vector: a default stream is that of the rank's device, for the front too" *
          needs_virtual_memory) {
  HIPVMM_REQUIRE_DEVICE(other, peer_of(first_device), "two devices that reach each other");
  const growth_options options{.granule_bytes = granule()};
  const std::size_t step = granule() / sizeof(std::uint32_t);
  const stream_ref by_default = stream_ref::legacy_default();
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    numbers of{one.ranks, options};
    if (one.ranks.rank() == 0) return of.rebalance(one.stream), of.update();
    for (std::size_t i = 0; i < 4; ++i) {  // a chunk each
      of.local().reserve((i + 1) * step);
      of.local().resize(of.local().capacity(), one.stream);
    }
    one.stream.synchronize();
    const std::uint32_t* const front = of.local().data();
    std::atomic<bool> is_over{false};
    {
      const scoped_device own{first_device};
      host_task(by_default, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        is_over = true;
      });
    }
    {
      const scoped_device current{other};
      of.rebalance(by_default);
      CHECK(device_ref::current() == other);
    }
    CHECK(of.local().data() != front);
    while (is_mapped(front) && !is_over) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    CHECK(is_over);  // the front is released behind the work of the rank's device
    of.update();
    const scoped_device own{first_device};
    by_default.synchronize();
  });
}

TEST_CASE("partitioned_vector: rights to a part stay when it goes to new memory" *
          needs_virtual_memory) {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach each other");
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    numbers of{one.ranks};
    of.local().grant(peer, access_right::read);
    of.local().append(numbers_of_rank(one.ranks.rank(), 0, one.ranks.rank() == 0 ? 500 : 100),
                      one.stream);
    of.rebalance(one.stream);
    CHECK(of.local().access(peer) == access_right::read);
    CHECK(of.local().access(first_device) == access_right::read_write);
  });
}

TEST_CASE("partitioned_vector: a part that its device may only read stays so in new memory") {
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    numbers of{one.ranks};
    const auto own = numbers_of_rank(one.ranks.rank(), 0, one.ranks.rank() == 0 ? 500 : 100);
    of.local().append(own, one.stream);
    one.stream.synchronize();
    if (on_fallback()) return of.rebalance(one.stream);
    if (one.ranks.rank() == 1) of.local().grant(first_device, access_right::read);
    of.rebalance(one.stream);
    check_parts(of, balanced(parts_of({500, 100})), one.stream);
    CHECK(of.local().access(first_device) ==
          (one.ranks.rank() == 1 ? access_right::read : access_right::read_write));
  });
}

TEST_CASE(
    "partitioned_vector: a rank without room fails the rebalance of all, and nothing is lost") {
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    const growth_options options{.max_bytes = 2 * granule(), .past_max = past_max_size::refuse};
    numbers of = one.ranks.rank() == 0 ? numbers{one.ranks, options} : numbers{one.ranks};
    const std::size_t many = 2 * of.ranks().size() * granule();
    if (one.ranks.rank() == 1) of.local().resize(many, 7, one.stream);
    std::string message;
    std::optional<int> at_fault;
    try {
      of.rebalance(one.stream);
    } catch (const rank_error& error) {
      message = error.what();
      at_fault = error.rank();
    } catch (const std::length_error& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message != "");
    if (one.ranks.rank() == 1) {
      CHECK(at_fault == 0);
      CHECK(message.find("rank 0 could not take part in rebalance(): ") == 0);
    }
    CHECK(of.local().size() == (one.ranks.rank() == 0 ? 0 : many));
    CHECK(of.size() == many);
    // With fewer it fits.
    if (one.ranks.rank() == 1) of.local().resize(101, one.stream);
    of.rebalance(one.stream);
    CHECK(of.local().size() == (one.ranks.rank() == 0 ? 51 : 50));
  });
}

TEST_CASE("partitioned_vector: an exception that is no std::exception fails all ranks too" *
          needs_virtual_memory) {
  struct refuses_all : memory_registrar {
    void add(const mapped_memory&) override { throw 7; }
    void remove(const mapped_memory&) noexcept override {}
  };
  const growth_options options{.chunks = {.registrar = std::make_shared<refuses_all>()}};
  const communicator_options limited{.limit = std::chrono::seconds{5}};
  const auto ends = run_ranks_to_end(2, {first_device}, limited, [&](thread_rank& one) {
    numbers of = one.ranks.rank() == 0 ? numbers{one.ranks, options} : numbers{one.ranks};
    if (one.ranks.rank() == 1)
      return [&] {
        of.local().resize(10, 7, one.stream);
        of.rebalance(one.stream);
      }();
    CHECK_THROWS_AS(of.rebalance(one.stream), int);
    CHECK(of.local().empty());
  });
  CHECK(ends[1].reason == rank_failure::remote);
  CHECK(ends[1].thrown.find("an exception that is no std::exception") != std::string::npos);
}

/// A communicator below which the library breaks in a transfer, whose messages are under way.
class broken_communicator final : public communicator {
 public:
  explicit broken_communicator(communicator& inner) : inner_{inner} {}
  [[nodiscard]] int rank() const noexcept override { return inner_.rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_.size(); }
  [[nodiscard]] device_ref device() const noexcept override { return inner_.device(); }
  [[nodiscard]] std::string describe() const override { return "broken"; }
  void all_gather(const void* mine, void* all, std::size_t bytes) override {
    if (!in_.empty()) throw rank_error{rank_failure::lost, 0, "broken"};
    inner_.all_gather(mine, all, bytes);
  }
  void all_to_all(const void* mine, void* theirs, std::size_t bytes) override {
    inner_.all_to_all(mine, theirs, bytes);
  }
  void transfer(const std::vector<outgoing>&, const std::vector<incoming>& in,
                stream_ref) override {
    in_ = in;
  }
  [[nodiscard]] const std::vector<incoming>& in() const { return in_; }

 private:
  communicator& inner_;
  std::vector<incoming> in_;
};

TEST_CASE("partitioned_vector: messages under way never meet memory that has gone") {
  run_ranks(2, {first_device}, [&](thread_rank& one) {
    broken_communicator ranks{one.ranks};
    {
      numbers of{ranks};
      of.local().resize(one.ranks.rank() == 0 ? 100 : 10, 7, one.stream);
      CHECK_THROWS_AS(of.rebalance(one.stream), rank_error);
      one.stream.synchronize();
      drain_retired_memory();
      for (const incoming& each : ranks.in())
        CHECK(hipMemset(each.data, 1, each.bytes) == hipSuccess);
    }
  });
}

TEST_CASE("partitioned_vector: a rank that fails says why where the others are gone") {
  HIPVMM_REQUIRE_DEVICE(other, peer_of(first_device), "two devices that reach each other");
  const auto ends = run_ranks_to_end(2, {first_device}, {}, [&](thread_rank& one) {
    numbers of{one.ranks};
    if (one.ranks.rank() == 1) of.rebalance(stream{other});
  });
  CHECK(ends[0].thrown == "");
  CHECK(ends[1].thrown.find("partitioned_vector::rebalance: the stream is of device 1") == 0);
}

TEST_CASE("partitioned_vector: a stream of another device is refused on all ranks") {
  HIPVMM_REQUIRE_DEVICE(other, peer_of(first_device), "two devices that reach each other");
  const auto ends = run_ranks_to_end(2, {first_device}, {}, [&](thread_rank& one) {
    numbers of{one.ranks};
    if (one.ranks.rank() == 0) return of.rebalance(one.stream);
    of.rebalance(stream{other});
  });
  const std::string own =
      "partitioned_vector::rebalance: the stream is of device 1, and rank 1 is for memory of "
      "device 0; name a stream of that";
  CHECK(ends[1].thrown == own);
  CHECK(ends[0].reason == rank_failure::remote);
  CHECK(ends[0].thrown == "rank 1 could not take part in rebalance(): " + own);
}

TEST_CASE("partitioned_vector: ranks with elements of different sizes are refused") {
  const auto ends = run_ranks_to_end(2, {first_device}, {}, [&](thread_rank& one) {
    numbers of{one.ranks};
    partitioned_vector<char> other{one.ranks};
    if (one.ranks.rank() == 0) return of.update();
    other.update();
  });
  for (const rank_end& each : ends) {
    CHECK(each.reason == rank_failure::refused);
    CHECK(each.thrown.find("use the same element type on all ranks") != std::string::npos);
  }
}

TEST_CASE("partitioned_vector: ranks that call different functions are refused") {
  const auto ends = run_ranks_to_end(2, {first_device}, {}, [&](thread_rank& one) {
    numbers of{one.ranks};
    if (one.ranks.rank() == 0) return of.update();
    of.rebalance(one.stream);
  });
  for (const rank_end& each : ends) CHECK(each.reason == rank_failure::refused);
  CHECK(ends[1].thrown ==
        "rank 1 called rebalance(), and rank 0 update(); all ranks make the same calls in the same "
        "order");
}

}  // namespace
}  // namespace hipvmm::test
