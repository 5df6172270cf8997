// SPDX-License-Identifier: MIT
// Ranks that cannot make their communicator, over the stand-in.
#include <hipvmm/compat/nccl.hpp>

#include <hipvmm/provider/host_control.h>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include "support/host/allocation_failure.hpp"
#include "support/host/host_profile.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

/// Makes the communicators of three threads. `fail` is called by rank 1 before, and `mend` once it
/// calls NCCL or has thrown; the others begin then, because a fault may strike any thread. Returns
/// whether all threw; else none has.
bool make_communicators(const std::function<void()>& fail, const std::function<void()>& mend) {
  std::atomic<bool> is_mended{false};
  std::function<void()> mend_once = [&] {
    if (!is_mended.exchange(true)) mend();
  };
  std::array<ncclComm_t, 3> comms{};
  constexpr std::array<int, 3> devices{0, 0, 0};
  REQUIRE(ncclCommInitAll(comms.data(), 3, devices.data()) == ncclSuccess);
  std::array<bool, 3> threw{};
  in_threads(threw.size(), [&](std::size_t rank) {
    nccl_options options;
    options.limit = std::chrono::seconds{20};
    try {
      if (rank == 1) {
        nccl_stand_in_before_gather(
            [](void* context) { (*static_cast<std::function<void()>*>(context))(); }, &mend_once);
        fail();
      } else {
        while (!is_mended) std::this_thread::yield();
      }
      nccl_communicator ranks{comms[rank], options};
    } catch (const rank_error& error) {
      threw[rank] = true;
      CHECK(rank != 1);
      CHECK(error.reason() == rank_failure::remote);
      CHECK(error.rank() == 1);
      CHECK(std::string{error.what()}.find("rank 1 could not make its communicator") == 0);
    } catch (const std::exception&) {  // std::bad_alloc, or HIP's own
      threw[rank] = true;
      CHECK(rank == 1);
    }
    if (rank == 1) mend_once();
  });
  CHECK(threw[0] == threw[1]);
  CHECK(threw[2] == threw[1]);
  for (ncclComm_t each : comms) CHECK(ncclCommAbort(each) == ncclSuccess);
  return threw[0];
}

TEST_CASE("nccl_communicator: host memory that one rank lacks for its own fails all, at once") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it has no memory");
  bool struck = true;
  int failed = 0;
  for (std::uint64_t nth = 1; struck; ++nth) {
    CAPTURE(nth);
    REQUIRE(nth < 200);
    std::optional<allocation_failure> failure;
    struck = false;
    const bool threw = make_communicators([&] { failure.emplace(nth); },
                                          [&] {
                                            struck = failure->struck();
                                            failure.reset();
                                          });
    if (threw) ++failed;
  }
  CHECK(failed > 3);
}

TEST_CASE("nccl_communicator: a call of HIP that fails on one rank fails all, at once") {
  for (const char* const call : {"hipStreamCreateWithFlags", "hipEventCreateWithFlags", "hipMalloc",
                                 "hipHostMalloc", "hipMemcpyAsync"}) {
    CAPTURE(call);
    CHECK(make_communicators([&] { hipvmm_host_fail_call(call, 1, hipErrorOutOfMemory); },
                             [] { hipvmm_host_fail_call(nullptr, 0, 0); }));
  }
}

TEST_CASE("nccl_communicator: one whose ranks do not come when it is made waits for the limit") {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  nccl_stand_in_stall(comm);
  nccl_options options;
  options.limit = std::chrono::milliseconds{50};
  // Its memory is in use by work that waits in its stream.
  CHECK_THROWS_WITH_AS(nccl_communicator(comm, options),
                       doctest::Contains("not all ranks took part within 50 ms"), rank_error);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
}

}  // namespace
}  // namespace hipvmm::test
