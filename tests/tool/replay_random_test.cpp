// SPDX-License-Identifier: MIT
// Traces made at random, on every resource that the device has, with everything checked.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "tool/replay_checker.hpp"
#include "tool/replay_job.hpp"
#include "tool/replay_traces.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t events = 2000;
constexpr std::size_t streams = 4;

std::unique_ptr<tool::replay_subject> subject_named(std::string_view name) {
  try {
    return tool::make_subject(name, {device_ref{0}, std::nullopt});
  } catch (const unsupported& reason) {
    MESSAGE("skipped: " << std::string{reason.what()});
    return nullptr;
  }
}

}  // namespace

TEST_CASE("replay: a random trace passes the check on every resource") {
  std::mt19937 generator = seeded_generator();
  const tool::trace recorded = trace_of(random_rows(generator, events, streams));
  REQUIRE(recorded.events.size() == events);
  for (const tool::subject_kind& kind : tool::subject_kinds()) {
    for (const auto mode : {tool::replay_streams::real, tool::replay_streams::one}) {
      CAPTURE(kind.name);
      const auto subject = subject_named(kind.name);
      if (!subject) break;
      tool::replay_options options;
      options.streams = mode;
      options.check_bytes = 64 * KiB;
      const tool::replay_result result = tool::replay(recorded, *subject, options);
      INFO("first failure: " << (result.failures.count() == 0 ? std::string{}
                                                              : result.failures.texts().front()));
      CHECK(result.failures.count() == 0);
      CHECK(result.peak_requested == recorded.peak_requested);
      // CUDA cuts small blocks of hipMalloc from larger ones, which the free memory does not show.
      if (!HIPVMM_TEST_ON_CUDA || kind.name == "pool")
        CHECK(result.peak_physical >= result.peak_requested);
      CHECK(result.streams == (mode == tool::replay_streams::one ? 1 : recorded.streams));
      REQUIRE(result.checked.has_value());
      CHECK(result.checked->blocks == recorded.blocks.size());
      CHECK(result.checked->bytes_looked_at <= result.checked->bytes);
      CHECK(result.driver_call_count() > 0);
    }
  }
}

TEST_CASE("replay: each byte of blocks larger than the staging memory is looked at") {
  const std::size_t bytes = tool::block_checker::staging_bytes + 5;
  const tool::trace recorded =
      trace_of("0,0,allocate,a," + std::to_string(bytes) + ",5\n0,1,allocate,b,3,6\n0,2,free,a," +
               std::to_string(bytes) + ",5\n");
  const auto subject = subject_named("hip");
  REQUIRE(subject);
  tool::replay_options options;
  options.check_bytes = static_cast<std::size_t>(-1);
  const tool::replay_result result = tool::replay(recorded, *subject, options);
  CHECK(result.failures.count() == 0);
  REQUIRE(result.checked.has_value());
  CHECK(result.checked->bytes_looked_at == bytes + 3);
}

}  // namespace hipvmm::test
