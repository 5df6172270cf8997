// SPDX-License-Identifier: MIT
#include "core/stream_order.hpp"

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/event.hpp>
#include "support/error_recorder.hpp"

namespace hipvmm::test {
namespace {

/// Writes down what it is told. A stream's points are numbered from 1.
class note_taker final : public detail::stream_watcher {
 public:
  note_taker() { detail::watch_streams(*this); }
  ~note_taker() override { detail::end_watch(*this); }

  [[nodiscard]] detail::stream_point point_of(stream_ref stream) override {
    if (fails) throw std::runtime_error{"no point"};
    return {stream.get(), ++points};
  }
  void note_follows(stream_ref waiter, const detail::stream_point& point) override {
    follows.emplace_back(waiter, point.count);
  }
  void note_passed(const detail::stream_point& point) override { passed.push_back(point.count); }
  void note_end(stream_ref stream) override { ended.push_back(stream); }

  bool fails = false;
  std::uint64_t points = 0;
  std::vector<std::pair<stream_ref, std::uint64_t>> follows;
  std::vector<std::uint64_t> passed;
  std::vector<stream_ref> ended;
};

TEST_CASE("stream_watcher: a stream that waits for an event comes behind its last recording") {
  const stream writer;
  const stream other;
  const stream reader;
  event written;
  note_taker told;
  written.record(writer);
  written.record(other);
  reader.wait(written);
  CHECK(told.follows == std::vector{std::pair{reader.ref(), std::uint64_t{2}}});

  event moved{std::move(written)};
  writer.wait(moved);
  CHECK(told.follows.back() == std::pair{writer.ref(), std::uint64_t{2}});
}

TEST_CASE("stream_watcher: what an event or a stream shows as done has passed") {
  const stream writer;
  event written;
  note_taker told;
  written.record(writer);
  written.synchronize();
  CHECK(told.passed == std::vector<std::uint64_t>{1});
  CHECK(written.is_done());
  CHECK(told.passed.size() == 2);
  writer.synchronize();
  CHECK(told.passed.back() == 2);
  CHECK(writer.is_done());
  CHECK(told.passed.back() == 3);
}

TEST_CASE("stream_watcher: a recording from before it, or that it failed to note, tells nothing") {
  const stream writer;
  const stream reader;
  event written;
  written.record(writer);
  note_taker told;
  reader.wait(written);
  written.synchronize();
  CHECK(told.follows.empty());

  written.record(writer);
  {
    const error_recorder reported;
    told.fails = true;
    written.record(writer);
    CHECK(reported.count() == 1);
  }
  reader.wait(written);
  CHECK(told.follows.empty());
}

TEST_CASE("stream_watcher: what a capture records is no point of a stream") {
  const stream captured;
  event fork;
  const note_taker told;
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  fork.record(captured);
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(captured.get(), &graph) == hipSuccess);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
  CHECK(told.points == 0);
}

TEST_CASE("stream_watcher: streams that end are told; one that has ended its watch is not") {
  note_taker told;
  stream_ref gone = stream_ref::legacy_default();
  {
    const stream ends;
    gone = ends.ref();
  }
  CHECK(told.ended == std::vector{gone});

  event written;
  const stream reader;
  {
    const note_taker other;
    written.record(reader);
    CHECK(other.points == 1);
  }
  reader.wait(written);
  CHECK(told.follows.size() == 1);
}

}  // namespace
}  // namespace hipvmm::test
