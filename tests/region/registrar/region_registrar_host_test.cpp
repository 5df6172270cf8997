// SPDX-License-Identifier: MIT
#include <hipvmm/region/sleep/memory_tag.hpp>
#include "region/region_test.hpp"
#include "region/registrar/registered_regions.hpp"
#include "support/host/host_test.hpp"
#include "support/host/recording_registrar.hpp"
#include "support/region/prefetch_levels.hpp"

// region_options::registrar: its registrations, and their lifetime.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Three chunks of one granule and a registrar that reads each when it is told.
struct registered_region {
  const std::size_t unit = granule();
  registrar_ptr registrar = std::make_shared<recording_registrar>();
  hipvmm::stream stream{first_device};
  hipvmm::region region{first_device, 16 * unit, options()};

  registered_region() {
    for (std::size_t index = 0; index < 3; ++index) region.commit(index * unit, unit);
    write_tags(region, 0, 3, 1, stream);
  }
  [[nodiscard]] region_options options() const {
    region_options result = registered_by(registrar);
    result.access = {{second_device, access_right::read_write}};
    return result;
  }
  void check() const { check_knows(*registrar, region); }
  [[nodiscard]] bool has_contents() const {
    return has_tag(region, 0, 1, stream) && has_tag(region, 1, 1, stream) &&
           has_tag(region, 2, 1, stream);
  }
};

TEST_CASE_FIXTURE(registered_region, "registrar: chunks are known from their map to their unmap") {
  check();
  CHECK(registrar->adds() == 3);
  region.commit(0, 5 * unit);
  check();
  region.decommit(0, unit);
  check();
  stream.synchronize();
  region.trim(2 * unit, stream);
  drain_retired_memory();
  check();
  region.decommit(0, region.max_bytes());
  CHECK(registrar->known().empty());
}

TEST_CASE("registrar: a region that ends leaves nothing registered") {
  const auto registrar = std::make_shared<recording_registrar>();
  {
    region ended{first_device, 4 * granule(), registered_by(registrar)};
    ended.commit(0, granule());
    region other{first_device, 4 * granule(), registered_by(registrar)};
    other.commit(0, granule());
    CHECK(registrar->known().size() == 2);
    other.retire();
  }
  drain_retired_memory();
  CHECK(registrar->known().empty());
  CHECK(registrar->mistakes() == 0);
}

TEST_CASE("registrar: a region keeps its registrar until the last chunk is unmapped") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  auto registrar = std::make_shared<recording_registrar>();
  const std::weak_ptr<recording_registrar> watched = registrar;
  blocked_stream user{first_device};
  region shrinks{first_device, 4 * granule(), registered_by(registrar)};
  registrar.reset();
  shrinks.commit(0, granule());
  shrinks.commit(granule(), granule());
  shrinks.trim(granule(), user);
  shrinks.retire();
  CHECK_FALSE(watched.expired());
  user.release();
  drain_retired_memory();
  CHECK(watched.expired());
}

TEST_CASE_FIXTURE(registered_region, "registrar: what work may still use stays registered") {
  HIPVMM_SKIP_UNDER(unmap_waits);
  blocked_stream user{first_device};
  region.trim(unit, user);
  CHECK(region.chunk_count() == 1);
  CHECK(registrar->known().size() == 3);
  user.release();
  drain_retired_memory();
  check();
  CHECK(registrar->was_removed_elsewhere());
}

TEST_CASE_FIXTURE(registered_region, "registrar: a chunk that moves has two addresses meanwhile") {
  if (!region.can_move_chunks()) return;
  region.move_chunk(2 * unit, 8 * unit);
  CHECK(registrar->known().size() == 4);
  region.end_move(2 * unit);
  check();
}

TEST_CASE_FIXTURE(registered_region, "registrar: growth past the maximum registers both places") {
  const address_reservation blocker{unit, 0, advance(region.base(), region.max_bytes())};
  const void* const before = region.base();
  region.extend(64 * unit, 4 * unit);
  CHECK(region.base() != before);
  check();
  CHECK(registrar->adds() == 7);  // three of them at two addresses
  CHECK(has_contents());
}

TEST_CASE_FIXTURE(registered_region, "registrar: chunks that others replace are registered anew") {
  if (region.move_range(0, unit, second_device, stream) == 0) return;
  // If only that returns memory, all of the region moves to other addresses and back.
  CHECK(registrar->adds() == under<std::size_t>(quirks::memory_kept, 10, 4));
  check();
  CHECK(region.chunks().front().device == second_device);
  CHECK(has_contents());
}

TEST_CASE("registrar: a chunk made ahead is known when it is mapped") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  for (const prefetch_level how : both_ways) {
    const auto registrar = std::make_shared<recording_registrar>();
    region grows{first_device, 16 * granule(), registered_by(registrar)};
    grows.commit(0, granule());
    grows.prepare(2 * granule(), how);
    detail::wait_for_background_tasks();
    CHECK(registrar->known_bytes() == (how == prefetch_level::mapped ? 3 : 1) * granule());
    grows.commit(0, 3 * granule());
    check_knows(*registrar, grows);
    grows.prepare(2 * granule(), how);
    detail::wait_for_background_tasks();
    grows.decommit(0, 16 * granule());
    CHECK(registrar->known().empty());
  }
}

/// One region of a tag, with contents.
struct registered_sleeper : registered_region {
  memory_tag tag;
  hipvmm::region sleeps{first_device, 4 * unit, tagged_options()};

  registered_sleeper() {
    region.decommit(0, region.max_bytes());
    sleeps.commit(0, unit);
    sleeps.commit(unit, unit);
    write_tags(sleeps, 0, 2, 1, stream);
  }
  [[nodiscard]] region_options tagged_options() const {
    region_options result = registered_by(registrar);
    result.tag = tag;
    return result;
  }
  void check_awake() const {
    check_knows(*registrar, sleeps);
    CHECK(sleeps.chunk_count() == 2);
    CHECK(has_tag(sleeps, 0, 1, stream));
    CHECK(has_tag(sleeps, 1, 1, stream));
  }
};

TEST_CASE_FIXTURE(registered_sleeper, "registrar: nothing that sleeps is registered") {
  for (int round = 0; round < 2; ++round) {
    suspend(tag, keep::contents);
    CHECK(registrar->known().empty());
    resume(tag);
    check_awake();
  }
}

TEST_CASE_FIXTURE(registered_sleeper, "registrar: a resume whose registration fails stays asleep") {
  for (const std::size_t nth : {1, 2}) {
    suspend(tag, keep::contents);
    registrar->fail_at(nth);
    CHECK_THROWS_AS(resume(tag), std::runtime_error);
    CHECK(tag.is_asleep());
    CHECK(registrar->known().empty());
    registrar->fail_at(0);
    resume(tag);
    check_awake();
  }
}

/// Runs `operation` with each registration in turn failing, on a new subject each time.
template <typename Subject, typename Operation, typename Unchanged>
void sweep_registrations(Operation operation, Unchanged unchanged) {
  for (std::size_t nth = 1;; ++nth) {
    CAPTURE(nth);
    error_recorder reported;
    const auto subject = std::make_unique<Subject>();
    subject->registrar->fail_at(nth);
    bool thrown = false;
    try {
      operation(*subject);
    } catch (const std::runtime_error& error) {
      thrown = true;
      CHECK(std::string{error.what()}.find("the registration of ") == 0);
    }
    const bool has_failed = subject->registrar->has_failed();
    subject->registrar->fail_at(0);
    CHECK(thrown == has_failed);
    CHECK(reported.count() == 0);
    drain_retired_memory();
    subject->check();
    if (!has_failed) {
      CHECK(nth > 1);
      return;
    }
    unchanged(*subject);
  }
}

TEST_CASE("registrar: registrations that fail leave the region as it was") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  const auto unchanged = [](const registered_region& subject) {
    CHECK(subject.region.committed_bytes() == 3 * subject.unit);
    CHECK(subject.region.chunk_count() == 3);
    CHECK(subject.has_contents());
    CHECK(subject.region.chunks().front().device == first_device);
  };
  sweep_registrations<registered_region>(
      [](registered_region& subject) {
        subject.region.decommit(4 * subject.unit, subject.unit);
        subject.region.commit(0, 5 * subject.unit);
      },
      unchanged);
  sweep_registrations<registered_region>(
      [](registered_region& subject) {
        const address_reservation blocker{
            subject.unit, 0, advance(subject.region.base(), subject.region.max_bytes())};
        subject.region.extend(64 * subject.unit, 4 * subject.unit);
      },
      unchanged);
  sweep_registrations<registered_region>(
      [](registered_region& subject) {
        if (!subject.region.can_move_chunks())
          return subject.region.commit(3 * subject.unit, subject.unit);
        subject.region.move_chunk(2 * subject.unit, 8 * subject.unit);
        subject.region.end_move(2 * subject.unit);
      },
      unchanged);
  // After the move; its exception is reported.
  HIPVMM_SKIP_UNDER(memory_kept);
  sweep_registrations<registered_region>(
      [](registered_region& subject) {
        subject.region.move_range(0, 3 * subject.unit, second_device, subject.stream);
      },
      unchanged);
}

TEST_CASE_FIXTURE(registered_region,
                  "registrar: restored memory that cannot be registered keeps its bytes") {
  error_recorder reported;
  // The first is that of the new chunk, and the second that of the old one.
  class failing final : public memory_registrar {
   public:
    void add(const mapped_memory& /*memory*/) override {
      if (fails) throw std::runtime_error{"no registration"};
    }
    void remove(const mapped_memory& /*memory*/) noexcept override {}
    bool fails = false;
  };
  const auto refuses = std::make_shared<failing>();
  hipvmm::region moves{
      first_device,
      4 * unit,
      {.access = {{second_device, access_right::read_write}}, .registrar = refuses}};
  moves.commit(0, unit);
  write_tags(moves, 0, 1, 5, stream);
  refuses->fails = true;
  CHECK_THROWS_AS(moves.move_range(0, unit, second_device, stream), std::runtime_error);
  CHECK(reported.count() == 1);
  CHECK(moves.committed_bytes() == unit);
  CHECK(has_tag(moves, 0, 5, stream));
}

constexpr auto make_registered = [] { return std::make_unique<registered_region>(); };
constexpr auto is_all_registered = [](auto& subject) { subject.check(); };

TEST_CASE("registrar: operations that fail keep what is mapped registered") {
  HIPVMM_REQUIRE_ANY_LAYOUT();
  const auto sweep = [](const char* name, auto operation) {
    fault_sweep{name}.run(make_registered, operation, is_all_registered, is_all_registered);
  };
  sweep("commit", [](auto& subject) { subject.region.commit(0, 4 * subject.unit); });
  sweep("decommit", [](auto& subject) { subject.region.decommit(0, 2 * subject.unit); });
  sweep("move_range", [](auto& subject) {
    subject.region.move_range(0, subject.unit, second_device, subject.stream);
  });
}

TEST_CASE("registrar: a suspend and a resume that fail keep what is mapped registered") {
  const auto check = [](auto& subject) {
    if (subject.tag.is_asleep()) {
      CHECK(subject.registrar->known().empty());
      resume(subject.tag);
    }
    check_knows(*subject.registrar, subject.sleeps);
    CHECK(subject.sleeps.chunk_count() == 2);
  };
  fault_sweep{"suspend", after_failure::capacity}.run<registered_sleeper>(
      [](auto& subject) { suspend(subject.tag, keep::nothing); }, check, check);
  fault_sweep{"resume", after_failure::capacity}.run(
      [] {
        auto result = std::make_unique<registered_sleeper>();
        suspend(result->tag, keep::nothing);
        return result;
      },
      [](auto& subject) { resume(subject.tag); }, check, check);
}

TEST_CASE("registrar: regions of several threads share one") {
  const auto registrar = std::make_shared<recording_registrar>();
  const auto grow_and_shrink = [&registrar] {
    const hipvmm::stream stream{first_device};
    region own{first_device, 8 * granule(), registered_by(registrar)};
    for (std::size_t round = 1; round <= 8; ++round) {
      own.commit(0, round * granule());
      if (round % 3 == 0) own.trim(0, stream);
    }
  };
  std::vector<std::future<void>> threads;
  for (int each = 0; each < 3; ++each)
    threads.push_back(std::async(std::launch::async, grow_and_shrink));
  for (auto& each : threads) each.get();
  drain_retired_memory();
  CHECK(registrar->known().empty());
  CHECK(registrar->mistakes() == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
