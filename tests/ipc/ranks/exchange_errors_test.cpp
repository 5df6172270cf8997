// SPDX-License-Identifier: MIT
// Calls of exchange() that one rank cannot take part in.
#include <hipvmm/region/sleep/memory_tag.hpp>
#include "contract/rank_errors.hpp"
#include "ipc/ranks/run_ranks.hpp"
#include "support/captures.hpp"

namespace hipvmm::test {
namespace {

using contract::check_rank_error;

using element = std::uint32_t;
using elements = std::vector<element>;

constexpr int rank_count = 3;

/// The objects of each rank in these cases.
struct exchanging_rank {
  thread_rank& one;
  growth_options options = {};
  growable_device_vector<element> source{one.ranks.device()};
  growable_device_vector<element> out{one.ranks.device(), options};

  explicit exchanging_rank(thread_rank& rank, const growth_options& its = {})
      : one{rank}, options{its} {
    source.append({1, 2, 3, 4, 5, 6}, one.stream);
    out.append({7, 8}, one.stream);
  }
  void run(const std::vector<std::size_t>& counts) {
    exchange(source, counts, out, one.ranks, one.stream);
  }
  void check_works() {
    run({1, 2, 3});
    elements model{7, 8};
    const elements pieces[]{{1}, {2, 3}, {4, 5, 6}};
    for (int from = 0; from < rank_count; ++from)
      model.insert(model.end(), pieces[one.ranks.rank()].begin(), pieces[one.ranks.rank()].end());
    CHECK(out.copy_to_host(one.stream) == model);
  }
};

/// Whether a call throws `Error`, by which `text` is in the message.
template <typename Error, typename Call>
bool throws(const std::string& text, Call call) {
  try {
    call();
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(std::string{error.what()}.find(text) != std::string::npos);
    return true;
  }
  return false;
}

/// Runs `bad` on rank 1 while the others call correctly: rank 1 throws `Error`, the others an
/// error that names rank 1 and its reason, nothing has changed, and all can go on.
template <typename Error>
void check_failure_on_one(const std::string& text, const std::vector<device_ref>& devices,
                          const std::function<void(exchanging_rank&)>& bad,
                          const growth_options& options = {}) {
  run_ranks(rank_count, devices, [&](thread_rank& one) {
    exchanging_rank subject{one, options};
    const std::size_t capacity = subject.out.capacity();
    if (one.ranks.rank() == 1) {
      CHECK(throws<Error>(text, [&] { bad(subject); }));
    } else {
      const std::string told = check_rank_error(rank_failure::remote, 1, [&] {
        subject.run({1, 2, 3});
      });
      INFO(told);
      CHECK(told.find("rank 1 could not take part in exchange()") == 0);
      CHECK(told.find(text) != std::string::npos);
    }
    CHECK(subject.out.size() == 2);
    CHECK(subject.out.capacity() == capacity);
    subject.check_works();
  });
}

template <typename Error>
void check_failure(const std::string& text, const std::function<void(exchanging_rank&)>& bad,
                   const growth_options& options = {}) {
  check_failure_on_one<Error>(text, {first_device}, bad, options);
}

TEST_CASE("exchange: counts that are not one for each rank fail on all ranks") {
  check_failure<std::invalid_argument>("2 counts for 3 ranks", [](exchanging_rank& its) {
    its.run({3, 3});
  });
}

TEST_CASE("exchange: counts that are not the source's fail on all ranks") {
  check_failure<std::invalid_argument>("sum up to 5 elements, and the source has 6",
                                       [](exchanging_rank& its) {
                                         its.run({3, 1, 1});
                                       });
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  check_failure<std::length_error>("", [](exchanging_rank& its) { its.run({most, most, 8}); });
}

TEST_CASE("exchange: arrays that do not belong together fail on all ranks, and none has changed") {
  const std::vector<std::size_t> counts{1, 2, 3};
  const auto check = [&](const std::string& text, const auto& bad) {
    run_ranks(rank_count, {first_device}, [&](thread_rank& one) {
      exchanging_rank a{one};
      exchanging_rank b{one};
      const bool is_bad = one.ranks.rank() == 1;
      const auto call = [&] {
        if (is_bad) return bad(a, b);
        exchange({{a.source, a.out}, {b.source, b.out}}, counts, one.ranks, one.stream);
      };
      if (is_bad)
        CHECK(throws<std::invalid_argument>(text, call));
      else
        CHECK(throws<rank_error>(text, call));
      CHECK(b.out.size() == 2);
      a.check_works();
    });
  };
  check("one vector is to receive two arrays", [&](exchanging_rank& a, exchanging_rank& b) {
    exchange({{a.source, a.out}, {b.source, a.out}}, counts, a.one.ranks, a.one.stream);
  });
  check("the source has 5", [&](exchanging_rank& a, exchanging_rank& b) {
    b.source.resize(5, 0, b.one.stream);
    exchange({{a.source, a.out}, {b.source, b.out}}, counts, a.one.ranks, a.one.stream);
  });
  check("2 and 3 elements", [&](exchanging_rank& a, exchanging_rank& b) {
    growable_device_vector<element> longer{first_device};
    longer.append({1, 2, 3}, b.one.stream);
    exchange({{a.source, a.out}, {b.source, longer}}, counts, a.one.ranks, a.one.stream);
  });
}

TEST_CASE("exchange: ranks with other arrays, or in another order, are refused") {
  const std::vector<std::size_t> counts{1, 2, 3};
  for (const int kind : {0, 1, 2}) {
    CAPTURE(kind);
    const auto ends = run_ranks_to_end(rank_count, {first_device}, {}, [&](thread_rank& one) {
      exchanging_rank its{one};
      growable_device_vector<char> names{first_device};
      growable_device_vector<char> out{first_device};
      names.append({'a', 'b', 'c', 'd', 'e', 'f'}, one.stream);
      out.append({'g', 'h'}, one.stream);
      const auto call = [&](std::initializer_list<exchange_array> arrays) {
        exchange(arrays, counts, one.ranks, one.stream);
      };
      if (one.ranks.rank() != 1) return call({{names, out}, {its.source, its.out}});
      if (kind == 0) return call({{its.source, its.out}, {names, out}});
      if (kind == 1) return call({{names, out}});
      call({});
    });
    for (const rank_end& each : ends)
      CHECK((each.reason == rank_failure::refused || each.thrown.find("no array") < 20));
  }
}

TEST_CASE("exchange: an array whose elements are in the vector of another moves with that") {
  run_ranks(rank_count, {first_device}, [](thread_rank& one) {
    growable_device_vector<element> a{first_device};
    growable_device_vector<element> b{first_device, {.fallback = without_vmm::always}};
    a.append({1, 2, 3}, one.stream);
    b.append({4, 5, 6}, one.stream);
    exchange({{b, a}, {a, b}}, {1, 1, 1}, one.ranks, one.stream);
    const auto rank = static_cast<element>(one.ranks.rank());
    CHECK(a.copy_to_host(one.stream) == elements{1, 2, 3, 4 + rank, 4 + rank, 4 + rank});
    CHECK(b.copy_to_host(one.stream) == elements{4, 5, 6, 1 + rank, 1 + rank, 1 + rank});
  });
}

TEST_CASE("exchange: a null source fails on all ranks") {
  check_failure<std::invalid_argument>("6 elements is null", [](exchanging_rank& its) {
    exchange(device_span<const element>{nullptr, 6}, {1, 2, 3}, its.out, its.one.ranks,
             its.one.stream);
  });
}

TEST_CASE("exchange: a source behind the elements of the vector fails on all ranks") {
  check_failure<std::out_of_range>("4 bytes behind the last element", [](exchanging_rank& its) {
    its.out.reserve(16);
    exchange(device_span<const element>{its.out.data() + 1, 2}, {1, 1, 0}, its.out, its.one.ranks,
             its.one.stream);
  });
}

TEST_CASE("exchange: more elements than there are addresses fail on all ranks") {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 2;
  check_failure<std::length_error>("", [](exchanging_rank& its) {
    exchange(device_span<const element>{its.source.data(), most}, {1, most - 1, 0}, its.out,
             its.one.ranks, its.one.stream);
  });
}

TEST_CASE("exchange: a stream that is captured fails on all ranks, and stays captured") {
  check_failure<std::invalid_argument>("is being captured", [](exchanging_rank& its) {
    const stream captured{its.one.ranks.device()};
    REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
    try {
      exchange(its.source, {1, 2, 3}, its.out, its.one.ranks, captured);
    } catch (...) {
      end_capture(captured.get());
      throw;
    }
    end_capture(captured.get());
  });
}

TEST_CASE("exchange: a vector of another device fails on all ranks") {
  HIPVMM_REQUIRE_DEVICE(other, peer_of(first_device), "two devices that reach each other");
  check_failure<std::invalid_argument>(
      "the vector is on device 1, and rank 1 is for memory of device 0", [&](exchanging_rank& its) {
        growable_device_vector<element> elsewhere{other};
        exchange(its.source, {1, 2, 3}, elsewhere, its.one.ranks, its.one.stream);
      });
}

TEST_CASE("exchange: a stream of another device fails on all ranks") {
  HIPVMM_REQUIRE_DEVICE(other, peer_of(first_device), "two devices that reach each other");
  check_failure<std::invalid_argument>(
      "the stream is of device 1, and rank 1 is for memory of device 0", [&](exchanging_rank& its) {
        exchange(its.source, {1, 2, 3}, its.out, its.one.ranks, stream{other});
      });
}

TEST_CASE("exchange: a rank whose vector may not grow fails all ranks") {
  check_failure<std::length_error>("growth_options::past_max is refuse", [](exchanging_rank& its) {
    const growth_options options{.max_bytes = granule(), .past_max = past_max_size::refuse};
    growable_device_vector<element> full{its.one.ranks.device(), options};
    full.resize(full.max_size(), its.one.stream);
    const std::size_t size = full.size();
    try {
      exchange(its.source, {1, 2, 3}, full, its.one.ranks, its.one.stream);
    } catch (...) {
      CHECK(full.size() == size);
      throw;
    }
  });
}

TEST_CASE("exchange: a vector that sleeps fails all ranks" * needs_virtual_memory) {
  check_failure<std::logic_error>("", [](exchanging_rank& its) {
    const memory_tag tag;
    growable_device_vector<element> asleep{its.one.ranks.device(), {.chunks = {.tag = tag}}};
    asleep.append({1}, its.one.stream);
    suspend(tag, keep::contents, its.one.stream);
    exchange(its.source, {1, 2, 3}, asleep, its.one.ranks, its.one.stream);
  });
}

TEST_CASE("gather: a vector that sleeps fails all ranks, also where it receives nothing" *
          needs_virtual_memory) {
  run_ranks(rank_count, {first_device}, [&](thread_rank& one) {
    exchanging_rank subject{one};
    if (one.ranks.rank() == 1) {
      const memory_tag tag;
      growable_device_vector<element> asleep{one.ranks.device(), {.chunks = {.tag = tag}}};
      asleep.append({1}, one.stream);
      suspend(tag, keep::contents, one.stream);
      CHECK(throws<std::logic_error>(
          "sleeps", [&] { gather(subject.source, asleep, 0, one.ranks, one.stream); }));
    } else {
      CHECK(throws<rank_error>("rank 1 could not", [&] {
        gather(subject.source, subject.out, 0, one.ranks, one.stream);
      }));
    }
    subject.check_works();
  });
}

/// Runs `other` on rank 1 while rank 0 and 2 call exchange(): all are refused, and go on.
void check_refused(const std::string& text, const std::function<void(exchanging_rank&)>& other) {
  run_ranks(rank_count, {first_device}, [&](thread_rank& one) {
    exchanging_rank subject{one};
    const std::string told = check_rank_error(rank_failure::refused, 1, [&] {
      one.ranks.rank() == 1 ? other(subject) : subject.run({1, 2, 3});
    });
    INFO(told);
    CHECK(told.find(text) == 0);
    CHECK(subject.out.size() == 2);
    subject.check_works();
  });
}

TEST_CASE("exchange: elements of another size are refused on all ranks") {
  check_refused("rank 1 called exchange() with elements of 8 bytes, and rank 0 with elements of 4",
                [](exchanging_rank& its) {
                  growable_device_vector<std::uint64_t> source{its.one.ranks.device()};
                  growable_device_vector<std::uint64_t> out{its.one.ranks.device()};
                  source.append({1, 2, 3}, its.one.stream);
                  exchange(source, {1, 1, 1}, out, its.one.ranks, its.one.stream);
                });
}

TEST_CASE("exchange: another function is refused on all ranks") {
  check_refused("rank 1 called all_gather(), and rank 0 exchange()", [](exchanging_rank& its) {
    all_gather(its.source, its.out, its.one.ranks, its.one.stream);
  });
  check_refused("rank 1 called all_gather() of 4 bytes, and rank 0 all_to_all() of",
                [](exchanging_rank& its) {
                  const int mine = 1;
                  std::vector<int> all(rank_count);
                  its.one.ranks.all_gather(&mine, all.data(), sizeof(mine));
                });
}

TEST_CASE("gather: roots that differ, or are no rank, are refused on all ranks") {
  run_ranks(rank_count, {first_device}, [&](thread_rank& one) {
    exchanging_rank subject{one};
    const auto gather_to = [&](int root) {
      gather(subject.source, subject.out, root, one.ranks, one.stream);
    };
    const int rank = one.ranks.rank();
    CHECK(throws<rank_error>("rank 2 called gather() to rank 1, and rank 0 to rank 0",
                             [&] { gather_to(rank == 2 ? 1 : 0); }));
    CHECK(throws<std::invalid_argument>("rank 3 is not one of 3 ranks", [&] { gather_to(3); }));
    CHECK(throws<std::invalid_argument>("rank -1 is not one of 3 ranks", [&] { gather_to(-1); }));
    subject.check_works();
  });
}

TEST_CASE("exchange: of several ranks that fail each throws its own error") {
  run_ranks(rank_count, {first_device}, [&](thread_rank& one) {
    exchanging_rank subject{one};
    const int rank = one.ranks.rank();
    if (rank == 0)
      CHECK(throws<rank_error>("rank 1 could", [&] { subject.run({1, 2, 3}); }));
    else if (rank == 1)
      CHECK(throws<std::invalid_argument>("1 counts", [&] { subject.run({6}); }));
    else
      CHECK(throws<std::invalid_argument>("sum up to 3", [&] { subject.run({1, 1, 1}); }));
    subject.check_works();
  });
}

TEST_CASE("exchange: a rank that ends between two calls is lost to the others in the second") {
  const auto ends = run_ranks_to_end(rank_count, {first_device}, {}, [](thread_rank& one) {
    exchanging_rank subject{one};
    subject.check_works();
    if (one.ranks.rank() == 1) throw std::runtime_error{"this rank ends"};
    const std::size_t size = subject.out.size();
    CHECK_THROWS_AS(subject.run({1, 2, 3}), rank_error);
    CHECK(subject.out.size() == size);
    subject.run({1, 2, 3});
  });
  for (const int other : {0, 2}) {
    CHECK(ends[static_cast<std::size_t>(other)].reason == rank_failure::lost);
    CHECK(ends[static_cast<std::size_t>(other)].at_fault == 1);
  }
}

TEST_CASE("exchange: a rank that found its arguments wrong says so where the others are gone") {
  const auto ends = run_ranks_to_end(2, {first_device}, {}, [](thread_rank& one) {
    if (one.ranks.rank() == 0) return;
    exchanging_rank subject{one};
    CHECK_THROWS_AS(subject.run({6}), std::invalid_argument);
    CHECK_THROWS_AS(subject.run({3, 3}), rank_error);
  });
  for (const rank_end& each : ends) CHECK(each.thrown == "");
}

}  // namespace
}  // namespace hipvmm::test
