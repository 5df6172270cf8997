// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/ranks/exchange.hpp>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/container/device_uvector.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include "ipc/ranks/run_ranks.hpp"
#include "runtime/peer_copies.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::test {
namespace {

using element = std::uint32_t;
using elements = std::vector<element>;

/// The most elements that a rank sends to another in one of these steps.
constexpr std::size_t most_sent = 3000;
constexpr int step_count = 4;

/// The elements from rank `from` to rank `to` in one step of a random test: the same on every rank.
elements sent(std::uint32_t seed, int step, int from, int to) {
  std::mt19937 random{seed + static_cast<std::uint32_t>(step * 10000 + from * 100 + to)};
  // Zero often, and sometimes many.
  const std::uint32_t kind = random() % 4;
  const std::size_t count = kind == 0 ? 0 : kind == 1 ? random() % most_sent : random() % 20;
  elements result(count);
  for (element& each : result) each = static_cast<element>(random());
  return result;
}

struct random_exchange {
  int size;
  std::vector<device_ref> devices;
  std::uint32_t seed;
  /// How the vectors of the ranks grow, in turn.
  std::vector<growth_options> options = {{}};

  void run() const {
    CAPTURE(seed);
    CAPTURE(size);
    run_ranks(size, devices, [&](thread_rank& one) { run(one); });
  }

 private:
  void run(thread_rank& one) const {
    const int rank = one.ranks.rank();
    const growth_options& its = options[static_cast<std::size_t>(rank) % options.size()];
    growable_device_vector<element> out{one.ranks.device(), its};
    grant_to_all(out, devices);
    elements model;
    for (int step = 0; step < step_count; ++step) {
      growable_device_vector<element> source{one.ranks.device(), its};
      std::vector<std::size_t> counts;
      for (int to = 0; to < size; ++to) {
        const elements piece = sent(seed, step, rank, to);
        counts.push_back(piece.size());
        source.append(piece, one.stream);
      }
      exchange_result expected;
      for (int from = 0; from < size; ++from) {
        const elements piece = sent(seed, step, from, rank);
        expected.counts.push_back(piece.size());
        expected.offsets.push_back(model.size());
        model.insert(model.end(), piece.begin(), piece.end());
      }
      expected.offsets.push_back(model.size());
      const exchange_result got = exchange(source, counts, out, one.ranks, one.stream);
      CHECK(got.counts == expected.counts);
      CHECK(got.offsets == expected.offsets);
      // The source may change at once, in the stream.
      source.assign(source.size(), 0U, one.stream);
    }
    CHECK(out.copy_to_host(one.stream) == model);
  }
};

TEST_CASE("exchange: random counts of 1 to 8 ranks on one device arrive as in a plain model") {
  auto generator = seeded_generator();
  for (int size = 1; size <= 8; ++size)
    random_exchange{size, {first_device}, static_cast<std::uint32_t>(generator())}.run();
}

TEST_CASE("exchange: random counts of ranks on two devices arrive as in a plain model") {
  HIPVMM_REQUIRE_DEVICE(other, peer_of(first_device), "two devices that reach each other");
  auto generator = seeded_generator();
  for (const int size : {2, 5})
    random_exchange{size, {first_device, other}, static_cast<std::uint32_t>(generator())}.run();
}

TEST_CASE("exchange: devices that do not reach each other exchange too, or are named") {
  HIPVMM_REQUIRE_DEVICE(other, stranger_to(first_device), "device that does not reach another");
  auto generator = seeded_generator();
  const auto seed = static_cast<std::uint32_t>(generator());
  const capability known = capability_of(first_device);
  const bool is_copied = known.path() == memory_path::fallback || known.has(trait::peer_copies);
  const bool lacks_link = detail::missing_link(other, first_device, other).has_value();
  if (is_copied && !lacks_link) return random_exchange{3, {first_device, other}, seed}.run();
  const auto ends = run_ranks_to_end(2, {first_device, other}, {}, [](thread_rank& one) {
    growable_device_vector<element> out{one.ranks.device()};
    growable_device_vector<element> source{one.ranks.device()};
    source.append({1, 2}, one.stream);
    exchange(source, {1, 1}, out, one.ranks, one.stream);
  });
  for (const rank_end& each : ends) {
    INFO(each.thrown);
    CHECK(each.thrown.find(is_copied ? "has no link to" : "may not write there") !=
          std::string::npos);
  }
}

TEST_CASE("exchange: ranks whose vectors grow in different ways exchange as in a plain model") {
  constexpr int size = 5;
  const growth_options copies{.fallback = without_vmm::always};
  const growth_options exact{.max_bytes = step_count * size * most_sent * sizeof(element),
                             .past_max = past_max_size::refuse,
                             .step_limit = 0};
  growth_options ahead;
  ahead.grow_ahead.prepare = prefetch_level::mapped;
  mr::hip_resource memory{first_device};
  const growth_options small{.resource = &memory};
  auto generator = seeded_generator();
  random_exchange{size,
                  {first_device},
                  static_cast<std::uint32_t>(generator()),
                  {growth_options{}, copies, exact, ahead, small}}
      .run();
}

TEST_CASE("gather: the root gets what every rank has, the others nothing") {
  run_ranks(4, {first_device}, [](thread_rank& one) {
    const auto rank = static_cast<element>(one.ranks.rank());
    growable_device_vector<element> source{first_device};
    source.assign(rank, 10 + rank, one.stream);
    growable_device_vector<element> out{first_device};
    out.append({7}, one.stream);
    const exchange_result got = gather(source, out, 2, one.ranks, one.stream);
    if (rank == 2) {
      CHECK(out.copy_to_host(one.stream) == elements{7, 11, 12, 12, 13, 13, 13});
      CHECK(got.counts == std::vector<std::size_t>{0, 1, 2, 3});
      CHECK(got.offsets == std::vector<std::size_t>{1, 1, 2, 4, 7});
    } else {
      CHECK(out.copy_to_host(one.stream) == elements{7});
      CHECK(got.counts == std::vector<std::size_t>(4));
      CHECK(got.offsets == std::vector<std::size_t>(5, 1));
    }
  });
}

TEST_CASE("all_gather: every rank gets what all have, from vectors of any kind") {
  run_ranks(3, {first_device}, [](thread_rank& one) {
    const auto rank = static_cast<element>(one.ranks.rank());
    device_uvector<element> source{rank + 1, one.stream};
    const element value = 10 * rank;
    for (std::size_t i = 0; i < source.size(); ++i) source.set_element_async(i, value, one.stream);
    growable_device_vector<element> out{first_device};
    const exchange_result got = all_gather(source, out, one.ranks, one.stream);
    CHECK(out.copy_to_host(one.stream) == elements{0, 10, 10, 20, 20, 20});
    CHECK(got.counts == std::vector<std::size_t>{1, 2, 3});
    CHECK(got.offsets == std::vector<std::size_t>{0, 1, 3, 6});
  });
}

TEST_CASE("exchange: elements of the vector that grows are sent, also where it moves") {
  const growth_options small{.max_bytes = granule()};
  const growth_options copies{.fallback = without_vmm::always};
  for (const growth_options& options : {growth_options{}, small, copies}) {
    const std::size_t many = options.max_bytes == 0 ? 16 : granule() / sizeof(element);
    run_ranks(2, {first_device}, [&](thread_rank& one) {
      const auto rank = static_cast<element>(one.ranks.rank());
      growable_device_vector<element> out{first_device, options};
      out.resize(many - 4, 1U, one.stream);
      out.append({10 * rank, 10 * rank + 1, 10 * rank + 2}, one.stream);
      all_gather(out.span().last(3), out, one.ranks, one.stream);
      all_gather(out.span(), out, one.ranks, one.stream);
      elements model(many - 4, 1U);
      for (const element each :
           {10 * rank, 10 * rank + 1, 10 * rank + 2, 0U, 1U, 2U, 10U, 11U, 12U})
        model.push_back(each);
      elements of_first = model;
      elements of_second = model;
      for (element i = 0; i < 3; ++i) {
        of_first[many - 4 + i] = i;
        of_second[many - 4 + i] = 10 + i;
      }
      model.insert(model.end(), of_first.begin(), of_first.end());
      model.insert(model.end(), of_second.begin(), of_second.end());
      CHECK(out.copy_to_host(one.stream) == model);
    });
  }
}

/// Counts the calls that reach another communicator.
class counting_communicator final : public communicator {
 public:
  explicit counting_communicator(communicator& inner) : inner_{inner} { reserve_agreement(); }
  [[nodiscard]] int rank() const noexcept override { return inner_.rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_.size(); }
  [[nodiscard]] device_ref device() const noexcept override { return inner_.device(); }
  [[nodiscard]] std::string describe() const override { return inner_.describe(); }
  void all_gather(const void* mine, void* all, std::size_t bytes) override {
    ++collectives_;
    inner_.all_gather(mine, all, bytes);
  }
  void all_to_all(const void* mine, void* theirs, std::size_t bytes) override {
    ++collectives_;
    inner_.all_to_all(mine, theirs, bytes);
  }
  void transfer(const std::vector<outgoing>& out, const std::vector<incoming>& in,
                stream_ref stream) override {
    inner_.transfer(out, in, stream);
  }
  /// Calls since the last time.
  [[nodiscard]] int take_collectives() { return std::exchange(collectives_, 0); }

 private:
  communicator& inner_;
  int collectives_ = 0;
};

TEST_CASE("exchange: ranks that all have room for the most that can come agree by their counts") {
  run_ranks(3, {first_device}, [](thread_rank& one) {
    counting_communicator ranks{one.ranks};
    const int rank = ranks.rank();
    growable_device_vector<element> source{first_device};
    growable_device_vector<element> out{first_device};
    source.resize(60, static_cast<element>(rank), one.stream);
    const std::vector<std::size_t> counts{10, 20, 30};  // so that 90 can come
    const std::size_t own = counts[static_cast<std::size_t>(rank)];
    std::size_t expected = 0;
    const auto run = [&](int collectives) {
      exchange(source, counts, out, ranks, one.stream);
      CHECK(ranks.take_collectives() == collectives);
      expected += 3 * own;
      CHECK(out.size() == expected);
      elements came = out.copy_to_host(one.stream);
      came.erase(came.begin(), came.end() - static_cast<std::ptrdiff_t>(3 * own));
      elements model;
      for (element from = 0; from < 3; ++from) model.insert(model.end(), own, from);
      CHECK(came == model);
    };
    run(2);
    out.reserve(5000);
    run(1);
    run(1);
    // Room for just that, and for one less, which is still enough for the elements of rank 0.
    const auto leave = [&](std::size_t room) {
      out.resize_uninitialized(out.capacity() - room);
      expected = out.size();
    };
    if (rank == 0) leave(90);
    run(1);
    if (rank == 0) leave(89);
    run(2);
    if (rank == 2) leave(0);
    run(2);
    // A rank that receives nothing needs no room.
    gather(source, out, 1, ranks, one.stream);
    CHECK(ranks.take_collectives() == 1);
    if (rank == 1) expected += 180;
    if (rank == 1) leave(179);
    gather(source, out, 1, ranks, one.stream);
    CHECK(ranks.take_collectives() == 2);
    if (rank != 0) leave(rank == 1 ? 180 : 179);
    all_gather(source, out, ranks, one.stream);
    CHECK(ranks.take_collectives() == 2);
    CHECK(out.size() == expected + 180);
  });
}

TEST_CASE("exchange: a vector that grows ahead is asked again, for that may fail" *
          needs_virtual_memory) {
  run_ranks(2, {first_device}, [](thread_rank& one) {
    counting_communicator ranks{one.ranks};
    growth_options options;
    if (ranks.rank() == 1) options.grow_ahead.prepare = prefetch_level::mapped;
    growable_device_vector<element> source{first_device};
    growable_device_vector<element> out{first_device, options};
    source.resize(2, 7U, one.stream);
    for (int i = 0; i < 2; ++i) {
      exchange(source, {1, 1}, out, ranks, one.stream);
      CHECK(ranks.take_collectives() == 2);
    }
    CHECK(out.copy_to_host(one.stream) == elements(4, 7U));
  });
}

TEST_CASE("exchange: nothing at all is sent, and a default stream will do") {
  run_ranks(2, {first_device}, [](thread_rank& one) {
    growable_device_vector<element> out{first_device};
    const exchange_result got = exchange(device_span<const element>{}, {0, 0}, out, one.ranks,
                                         stream_ref::per_thread_default());
    CHECK(got.counts == std::vector<std::size_t>{0, 0});
    CHECK(out.empty());
    CHECK(out.capacity() == 0);
  });
}

TEST_CASE("exchange: a default stream is that of the rank's device, whatever the thread's is") {
  HIPVMM_REQUIRE_DEVICE(other, peer_of(first_device), "two devices that reach each other");
  thread_ranks group{1};
  thread_communicator only{group, 0, other};
  for (const stream_ref current :
       {stream_ref::legacy_default(), stream_ref::per_thread_default()}) {
    growable_device_vector<element> source{other};
    const stream filling{other};
    source.append({1, 2, 3}, filling);
    filling.synchronize();
    growable_device_vector<element> out{other};
    exchange(source, {3}, out, only, current);
    const scoped_device there{other};
    CHECK(out.copy_to_host(current) == elements{1, 2, 3});
  }
}

}  // namespace
}  // namespace hipvmm::test
