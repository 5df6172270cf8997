// SPDX-License-Identifier: MIT
// Over a stand-in for NCCL, with the headers of several releases: NCCL_STAND_IN_MINOR.
#include <hipvmm/compat/nccl_registration.hpp>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/device.hpp>
#include "support/blocked_stream.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

/// Restores the stand-in's settings.
struct stand_in {
  stand_in() = default;
  ~stand_in() {
    nccl_stand_in_set_version(0);
    nccl_stand_in_fail_registration(0);
    nccl_stand_in_set_windows(true);
  }
  stand_in& operator=(stand_in&&) = delete;
};

region_options exportable() { return region_options{.shareable = handle_type::posix_fd}; }

std::string refusal() {
  return text_thrown_by<unsupported>([&] { const nccl_registration refused{exportable()}; });
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("nccl_registration: versions are named, the one found and the one needed") {
  const stand_in restored;
  nccl_stand_in_set_version(21805);
  CHECK(refusal().find("NCCL 2.18.5 was found, and ncclCommRegister came with 2.19.0") !=
        std::string::npos);
  nccl_stand_in_set_version(2708);
  CHECK(refusal().find("NCCL 2.7.8 was found") != std::string::npos);
  nccl_stand_in_set_version(21900);
  const std::string compiled = refusal();
#if HIPVMM_NCCL_DECLARES_REGISTER
  CHECK(compiled.empty());
#else
  CHECK(compiled.find("compiled with the header of NCCL 2.18, and ncclCommRegister came with "
                      "2.19.0") != std::string::npos);
#endif
}

#if HIPVMM_NCCL_DECLARES_WINDOWS

TEST_CASE("nccl_registration: what memory lacks is named") {
  CHECK_THROWS_WITH_AS(nccl_registration{region_options{}},
                       doctest::Contains("region_options::shareable is none"), unsupported);
  growth_options growth{.chunks = exportable()};
  CHECK_NOTHROW((nccl_registration{first_device, growth}));
  growth.granule_bytes = granularity_of(first_device).recommended + granule() / 2;
  CHECK_THROWS_WITH_AS((nccl_registration{first_device, growth}),
                       doctest::Contains("growth_options::granule_bytes is "), unsupported);
}

/// A communicator of one rank, and its registrations.
struct lone_comm {
  ncclComm_t comm = nullptr;
  explicit lone_comm(device_ref device = first_device, bool is_blocking = true) {
    const scoped_device scope{device};
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = is_blocking ? 1 : 0;
    REQUIRE(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclSuccess);
  }
  ~lone_comm() { ncclCommDestroy(comm); }
  lone_comm& operator=(lone_comm&&) = delete;
  operator ncclComm_t() const { return comm; }
  [[nodiscard]] const auto& registered() const { return nccl_stand_in_memory_of(comm).buffers; }
  [[nodiscard]] const auto& windows() const { return nccl_stand_in_memory_of(comm).windows; }
};

/// A vector of three chunks and two communicators of its device, one added before and one after.
struct registered_vector {
  const stand_in restored;
  lone_comm early;
  lone_comm late;
  std::shared_ptr<nccl_registration> registration =
      std::make_shared<nccl_registration>(exportable());
  stream own{first_device};
  growable_device_vector<char> vector{first_device, options()};

  registered_vector() {
    registration->add_communicator(early);
    for (std::size_t chunk = 1; chunk <= 3; ++chunk) vector.resize_uninitialized(chunk * granule());
    registration->add_communicator(late);
  }
  ~registered_vector() {
    registration->remove_communicator(early);
    registration->remove_communicator(late);
  }
  [[nodiscard]] growth_options options() const {
    growth_options result{.max_bytes = 16 * granule(),
                          .step_limit = 0,
                          .granule_bytes = granule(),
                          .chunks = exportable()};
    result.chunks.registrar = registration;
    return result;
  }
  void shrink() {
    vector.resize_uninitialized(granule());
    vector.shrink_to_fit(own);
    drain_retired_memory();
  }
};

TEST_CASE_FIXTURE(registered_vector, "nccl_registration: each communicator has each chunk") {
  CHECK(early.registered().size() == 3);
  CHECK(late.registered().size() == 3);
  for (const auto& [handle, range] : late.registered()) CHECK(range.second == granule());
  CHECK_THROWS_AS(registration->add_communicator(late), std::invalid_argument);
  vector.resize_uninitialized(4 * granule());
  CHECK(registration->count() == 8);
  {
    blocked_stream user{first_device};
    vector.resize_uninitialized(granule());
    vector.shrink_to_fit(user);
  }
  drain_retired_memory();
  CHECK(early.registered().size() == 1);
  registration->remove_communicator(early);
  CHECK(early.registered().empty());
  vector.resize_uninitialized(2 * granule());
  CHECK(early.registered().empty());
  CHECK(late.registered().size() == 2);
}

TEST_CASE_FIXTURE(registered_vector, "nccl_registration: memory of other devices is left out") {
  const lone_comm other{second_device};
  registration->add_communicator(other);
  CHECK(other.registered().empty());
  registration->remove_communicator(other);
}

TEST_CASE_FIXTURE(registered_vector, "nccl_registration: a range ends with its first chunk") {
  registration->register_range(early, vector.data() + granule() / 2, 2 * granule());
  CHECK(early.registered().size() == 4);
  const ncclWindow_t window = registration->register_window(late, vector.data(), 2 * granule());
  CHECK(late.windows().count(window) == 1);
  CHECK_THROWS_AS(registration->register_range(early, vector.data() + granule(), 3 * granule()),
                  std::out_of_range);
  const lone_comm stranger;
  CHECK_THROWS_AS(registration->register_range(stranger, vector.data(), 1), std::invalid_argument);
  CHECK(early.registered().size() == 4);
  shrink();
  CHECK(early.registered().size() == 1);
  CHECK(late.windows().empty());
  CHECK(registration->count() == 2);
}

TEST_CASE_FIXTURE(registered_vector, "nccl_registration: no bytes are no range and no window") {
  // They would end with none of the chunks.
  CHECK_THROWS_WITH_AS(registration->register_range(early, vector.data(), 0),
                       doctest::Contains("0 bytes"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(registration->register_window(early, vector.data(), 0),
                       doctest::Contains("0 bytes"), std::invalid_argument);
  CHECK(registration->count() == 6);
}

TEST_CASE_FIXTURE(registered_vector, "nccl_registration: a nonblocking window is waited for") {
  const lone_comm nonblocking{first_device, false};
  registration->add_communicator(nonblocking);
  const ncclWindow_t window =
      registration->register_window(nonblocking, vector.data(), 2 * granule());
  CHECK(window != nullptr);
  CHECK(nonblocking.windows().count(window) == 1);
  // One that fails on its way, and one that NCCL does not make.
  const std::size_t before = registration->count();
  nccl_stand_in_fail_registration(2);
  CHECK_THROWS_WITH_AS(registration->register_window(nonblocking, vector.data(), granule()),
                       "ncclCommWindowRegister: unhandled cuda error: of the stand-in",
                       std::runtime_error);
  nccl_stand_in_set_windows(false);
  CHECK_THROWS_AS(registration->register_window(nonblocking, vector.data(), granule()),
                  unsupported);
  // An error that the communicator reports.
  nccl_stand_in_set_error(nonblocking, ncclUnhandledCudaError);
  CHECK_THROWS_AS(registration->register_window(nonblocking, vector.data(), granule()),
                  std::runtime_error);
  CHECK(registration->count() == before);
  shrink();
  CHECK(nonblocking.windows().empty());
  registration->remove_communicator(nonblocking);
  CHECK(nonblocking.registered().empty());
}

/// Polls until NCCL has ended the calls under way.
void finish_registration(ncclComm_t comm) {
  nccl_stand_in_hold_registration(comm, false);
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress;)
    CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
}

TEST_CASE_FIXTURE(registered_vector, "nccl_registration: waits for NCCL have a limit") {
  communicator_options options{.limit = std::chrono::milliseconds{0}};
  const lone_comm nonblocking{first_device, false};
  CHECK_THROWS_WITH_AS(registration->add_communicator(nonblocking, options),
                       doctest::Contains("limit is 0 ms"), std::invalid_argument);
  CHECK(registration->count() == 6);
  options.limit = std::chrono::milliseconds{30};
  registration->add_communicator(nonblocking, options);
  nccl_stand_in_hold_registration(nonblocking, true);
  SUBCASE("of a window") {
    CHECK_THROWS_WITH_AS(
        registration->register_window(nonblocking, vector.data(), granule()),
        "ncclCommWindowRegister: NCCL had not ended it within 30 ms "
        "(communicator_options::limit); see whether all ranks make the same calls, and call "
        "remove_communicator() and ncclCommAbort() on all of them",
        rank_error);
    CHECK(registration->count() == 9);
    // The others go on, and this one is not asked again.
    finish_registration(nonblocking);
    CHECK_THROWS_WITH_AS(registration->register_range(nonblocking, vector.data(), granule()),
                         doctest::Contains("ncclCommRegister: NCCL had not ended an earlier call"),
                         rank_error);
    registration->register_range(late, vector.data(), granule());
  }
  SUBCASE("of growth, which changes nothing") {
    try {
      vector.resize_uninitialized(4 * granule());
      FAIL_CHECK("it was registered");
    } catch (const rank_error& error) {
      CHECK(error.reason() == rank_failure::timeout);
      CHECK(std::string{error.what()}.find("ncclCommRegister: NCCL had not ended it") == 0);
    }
    CHECK(vector.size() == 3 * granule());
    CHECK(early.registered().size() == 3);
    CHECK(registration->count() == 9);
    finish_registration(nonblocking);
  }
  SUBCASE("of memory that goes all the same") {
    error_recorder reported;
    shrink();
    CHECK(early.registered().size() == 1);
    CHECK(registration->count() == 3);
    REQUIRE(reported.count() == 2);
    CHECK(reported.errors().front().message.find("ncclCommDeregister: NCCL had not ended it") !=
          std::string::npos);
    CHECK(reported.errors().back().message.find("ncclCommDeregister: NCCL had not ended an "
                                                "earlier call") != std::string::npos);
    finish_registration(nonblocking);
  }
  // A registration that NCCL does not end is reported, and memory can grow without it.
  error_recorder reported;
  registration->remove_communicator(nonblocking);
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors().back().message.find("an earlier call") != std::string::npos);
  vector.resize_uninitialized(5 * granule());
  CHECK(vector.size() == 5 * granule());
}

TEST_CASE_FIXTURE(registered_vector, "nccl_registration: windows that NCCL lacks are named") {
  nccl_stand_in_set_windows(false);
  CHECK_THROWS_WITH_AS(registration->register_window(late, vector.data(), granule()),
                       doctest::Contains("NCCL offers no windows here"), unsupported);
  CHECK(registration->count() == 6);
  nccl_stand_in_set_version(22600);
  const auto older = std::make_shared<nccl_registration>(exportable());
  CHECK_THROWS_WITH_AS(
      older->register_window(late, vector.data(), granule()),
      doctest::Contains("NCCL 2.26.0 was found, and ncclCommWindowRegister came with 2.27.0"),
      unsupported);
  nccl_stand_in_set_windows(true);
  nccl_stand_in_set_version(22700);
  const lone_comm ranks;
  nccl_registration first{exportable()};
  CHECK(first.version() == 22700);
  first.add_communicator(ranks);
  CHECK_THROWS_AS(first.register_window(ranks, vector.data(), granule()), std::out_of_range);
}

TEST_CASE_FIXTURE(registered_vector, "nccl_registration: registrations that fail change nothing") {
  for (const int nth : {1, 2}) {
    nccl_stand_in_fail_registration(nth);
    CHECK_THROWS_WITH_AS(vector.resize_uninitialized(4 * granule()),
                         "ncclCommRegister: unhandled cuda error: of the stand-in",
                         std::runtime_error);
    CHECK(vector.size() == 3 * granule());
    CHECK(early.registered().size() == 3);
    CHECK(late.registered().size() == 3);
  }
  const lone_comm third;
  nccl_stand_in_fail(1, ncclUnhandledCudaError);
  CHECK_THROWS_WITH_AS(registration->add_communicator(third),
                       "ncclCommCuDevice: unhandled cuda error: of the stand-in",
                       std::runtime_error);
  nccl_stand_in_fail_registration(3);
  CHECK_THROWS_AS(registration->add_communicator(third), std::runtime_error);
  CHECK(third.registered().empty());
  nccl_stand_in_fail_registration(1);
  CHECK_THROWS_AS(registration->register_window(late, vector.data(), granule()),
                  std::runtime_error);
  CHECK(registration->count() == 6);
  // An error that cannot be thrown is reported, and the memory goes.
  error_recorder reported;
  nccl_stand_in_fail_registration(1);
  shrink();
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors().front().message.find("ncclCommDeregister: unhandled cuda error") !=
        std::string::npos);
  CHECK(registration->count() == 2);
  nccl_stand_in_fail_registration(1);
  registration->remove_communicator(late);
  REQUIRE(reported.count() == 2);
  CHECK(reported.errors().back().call == "ncclCommDeregister");
  CHECK(registration->count() == 1);
}

TEST_CASE_FIXTURE(stand_in, "nccl_registration: what sleeps is not registered") {
  const lone_comm ranks;
  const auto registration = std::make_shared<nccl_registration>(exportable());
  registration->add_communicator(ranks);
  {
    memory_tag tag;
    growth_options options{.max_bytes = 4 * granule(), .chunks = exportable()};
    options.chunks.registrar = registration;
    options.chunks.tag = tag;
    growable_device_vector<char> vector{first_device, options};
    vector.resize_uninitialized(granule());
    CHECK(ranks.registered().size() == 1);
    suspend(tag, keep::nothing);
    CHECK(ranks.registered().empty());
    resume(tag);
    CHECK(ranks.registered().size() == 1);
  }
  drain_retired_memory();
  CHECK(ranks.registered().empty());
}

#endif

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
