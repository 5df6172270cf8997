// SPDX-License-Identifier: MIT
// exchange() if the host has no memory for one rank.
#include "ipc/ranks/run_ranks.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_profile.hpp"

namespace hipvmm::test {
namespace {

using element = std::uint32_t;

/// A call, and whether rank 1 receives by it.
struct exchange_case {
  std::string name;
  std::function<void(const growable_device_vector<element>&, growable_device_vector<element>&,
                     thread_rank&)>
      call;
  bool receives_on_rank_1 = true;
};

/// Two ranks call while the nth allocation of `poor` fails, which may be in memory that the first
/// of two calls has made. Returns whether there were that many.
bool exchange_without_memory(const exchange_case& which, int poor, std::uint64_t nth) {
  CAPTURE(which.name);
  CAPTURE(poor);
  CAPTURE(nth);
  bool struck = false;
  std::array<std::array<bool, 2>, 2> worked{};
  const communicator_options limited{.limit = std::chrono::seconds{5}};
  const auto ends = run_ranks_to_end(2, {first_device}, limited, [&](thread_rank& one) {
    const auto rank = static_cast<std::size_t>(one.ranks.rank());
    growable_device_vector<element> source{one.ranks.device()};
    growable_device_vector<element> out{one.ranks.device()};
    source.append({1, 2}, one.stream);
    one.stream.synchronize();
    std::optional<allocation_failure> failure;
    if (one.ranks.rank() == poor) failure.emplace(nth);
    std::size_t size = 0;
    for (bool& each : worked[rank]) {
      try {
        which.call(source, out, one);
        each = true;
        size = out.size();
      } catch (const rank_error& error) {
        // The others get the reason of the rank without memory, and at once.
        CHECK(error.reason() == rank_failure::remote);
        if (error.rank() != -1) CHECK(error.rank() == poor);
      } catch (const std::exception&) {  // std::bad_alloc, or HIP's own
        CHECK(one.ranks.rank() == poor);
      }
      CHECK(out.size() == size);
    }
    if (failure) struck = failure->struck();
    failure.reset();
    which.call(source, out, one);
    CHECK((out.size() > size) == (which.receives_on_rank_1 || rank == 0));
  });
  for (const rank_end& each : ends) CHECK(each.thrown == "");
  CHECK(worked[0] == worked[1]);
  return struck;
}

TEST_CASE("exchange: host memory that one rank lacks fails all ranks or none, and they go on") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it has no memory");
  const std::vector<std::size_t> counts{1, 1};
  const exchange_case cases[] = {
      {"exchange", [&](const auto& source, auto& out,
                       thread_rank& one) { exchange(source, counts, out, one.ranks, one.stream); }},
      {"gather",
       [](const auto& source, auto& out, thread_rank& one) {
         gather(source, out, 0, one.ranks, one.stream);
       },
       false},
  };
  for (const exchange_case& each : cases)
    for (const int poor : {0, 1})
      for (std::uint64_t nth = 1; exchange_without_memory(each, poor, nth); ++nth)
        REQUIRE(nth < 1000);
}

}  // namespace
}  // namespace hipvmm::test
