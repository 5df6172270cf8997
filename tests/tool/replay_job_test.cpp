// SPDX-License-Identifier: MIT
#include "tool/replay/replay_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/error_recorder.hpp"
#include "tool/replay_traces.hpp"

namespace hipvmm::test {
namespace {

using tool::replay;
using tool::replay_options;
using tool::replay_result;
using tool::replay_streams;

/// Gives addresses that nobody uses and notes the requests.
class noting_resource final : public scripted_resource {
 public:
  struct request {
    bool allocates;
    stream_ref stream;
    void* pointer;
    std::size_t bytes;
  };
  std::vector<request> requests;
  std::size_t refuse_from = static_cast<std::size_t>(-1);  ///< bytes that are too many
  const char* broken = nullptr;                            ///< the message of a failed allocation

 private:
  void* give(stream_ref stream, std::size_t bytes) override {
    if (broken != nullptr) throw std::runtime_error{broken};
    if (bytes >= refuse_from) throw std::bad_alloc{};
    next_ += 1 << 20;
    requests.push_back({true, stream, next_, bytes});
    return next_;
  }
  void take(stream_ref stream, void* pointer, std::size_t bytes) noexcept override {
    requests.push_back({false, stream, pointer, bytes});
  }

  char* next_ = nullptr;
};

const std::string two_streams =
    "0,0,allocate,a,100,5\n"
    "0,1,allocate,b,200,6\n"
    "0,2,free,a,100,5\n"
    "0,3,allocate,c,50,5\n"
    "0,4,free,b,200,6\n"
    "0,5,allocate,d,300,6\n";

}  // namespace

TEST_CASE("replay: asks for each block in the order of the rows and frees what is left") {
  noting_resource resource;
  plain_subject subject{resource};
  const replay_result result = replay(trace_of(two_streams), subject, {});
  const auto& asked = resource.requests;
  REQUIRE(asked.size() == 8);
  const std::size_t bytes[] = {100, 200, 100, 50, 200, 300, 50, 300};
  const bool allocates[] = {true, true, false, true, false, true, false, false};
  for (std::size_t i = 0; i < asked.size(); ++i) {
    CAPTURE(i);
    CHECK(asked[i].bytes == bytes[i]);
    CHECK(asked[i].allocates == allocates[i]);
  }
  CHECK(asked[2].pointer == asked[0].pointer);
  CHECK(asked[6].pointer == asked[3].pointer);
  CHECK(result.peak_requested == 350);
  CHECK(subject.begun() == 1);
  CHECK(subject.forgotten() == 2);  // its streams
  CHECK(subject.looks() == 3);      // at 100, 300 and 350 bytes
  CHECK(result.peak_physical == 9);
  CHECK(result.pair_ns.size() == 2);  // those that the trace frees
  CHECK(result.driver_call_count() == 5);
  CHECK(result.driver_seconds() == doctest::Approx(0.75));
  CHECK(result.failures.count() == 0);
  CHECK_FALSE(result.checked.has_value());
  CHECK(result.samples.empty());
}

TEST_CASE("replay: each epoch makes all requests anew after everything was freed") {
  noting_resource resource;
  plain_subject subject{resource};
  replay_options options{.epochs = 3};
  std::vector<std::size_t> told;
  options.on_progress = [&told](std::size_t events) { told.push_back(events); };
  const replay_result result = replay(trace_of(two_streams), subject, options);
  const auto& asked = resource.requests;
  REQUIRE(asked.size() == 24);
  for (std::size_t i = 8; i < asked.size(); ++i) {
    CAPTURE(i);
    CHECK(asked[i].bytes == asked[i - 8].bytes);
    CHECK(asked[i].allocates == asked[i - 8].allocates);
    CHECK(asked[i].stream == asked[i - 8].stream);
  }
  CHECK(subject.begun() == 1);
  CHECK(subject.epochs_begun() == 2);
  CHECK(subject.looks() == 9);
  CHECK(subject.forgotten() == 2);
  CHECK(result.peak_requested == 350);
  CHECK(result.peak_physical == 27);
  CHECK(result.pair_ns.size() == 6);
  CHECK(told.back() == 12);  // the first event of the last epoch
  REQUIRE(result.epochs.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const tool::replay_epoch& epoch = result.epochs[i];
    CHECK(epoch.allocate.calls == 4);
    CHECK(epoch.deallocate.calls == 2);  // those that the trace frees
    CHECK(epoch.peak_requested == 350);
    CHECK(epoch.peak_physical == 9 * (i + 1));
    CHECK(epoch.allocate.total_ns >= epoch.allocate.longest_ns);
    CHECK(epoch.seconds * 1e9 >=
          static_cast<double>(epoch.allocate.total_ns + epoch.deallocate.total_ns));
    CHECK(epoch.seconds_until_done >= epoch.seconds);
    CHECK(result.seconds >= epoch.seconds_until_done);
  }
}

TEST_CASE("replay: a request that fails is no call of its epoch") {
  noting_resource resource;
  resource.refuse_from = 200;
  plain_subject subject{resource};
  const replay_result result = replay(trace_of(two_streams), subject, replay_options{.epochs = 2});
  CHECK(result.failures.count() == 4);
  REQUIRE(result.epochs.size() == 2);
  for (const tool::replay_epoch& epoch : result.epochs) {
    CHECK(epoch.allocate.calls == 2);
    CHECK(epoch.deallocate.calls == 1);
    CHECK(epoch.peak_requested == 100);
  }
}

TEST_CASE("replay: each stream of the trace is a stream, or all are one") {
  for (const replay_streams streams : {replay_streams::real, replay_streams::one}) {
    noting_resource resource;
    plain_subject subject{resource};
    const replay_options options{.streams = streams};
    const replay_result result = replay(trace_of(two_streams), subject, options);
    const bool apart = streams == replay_streams::real;
    CHECK(result.streams == (apart ? 2 : 1));
    CHECK((resource.requests[0].stream != resource.requests[1].stream) == apart);
    CHECK(resource.requests[0].stream == resource.requests[2].stream);
  }
}

TEST_CASE("replay: a block is freed in the stream that the trace frees it in") {
  noting_resource resource;
  plain_subject subject{resource};
  const replay_result result =
      replay(trace_of("0,0,allocate,a,100,5\n0,1,allocate,b,8,6\n0,2,free,a,100,6\n"), subject, {});
  REQUIRE(resource.requests.size() == 4);
  CHECK(resource.requests[2].stream == resource.requests[1].stream);
  CHECK(result.failures.count() == 0);
}

TEST_CASE("replay: a request that is out of memory is a failure, and the rest goes on") {
  noting_resource resource;
  resource.refuse_from = 200;
  plain_subject subject{resource};
  const replay_result result = replay(trace_of(two_streams), subject, {});
  CHECK(result.failures.count() == 2);
  REQUIRE(result.failures.texts().size() == 2);
  CHECK(result.failures.texts()[0].text.starts_with("row 3: "));
  CHECK(result.failures.texts()[1].text.starts_with("row 7: "));
  CHECK(resource.requests.size() == 4);
  CHECK(result.peak_requested == 100);
  CHECK(result.pair_ns.size() == 1);
}

TEST_CASE("replay: any other failure ends it and names the row") {
  noting_resource resource;
  resource.broken = "the resource broke";
  plain_subject subject{resource};
  CHECK_THROWS_WITH_AS(static_cast<void>(replay(trace_of(two_streams), subject, {})),
                       doctest::Contains("row 2 of the trace '"), std::runtime_error);
}

TEST_CASE("replay: what the library reports is a failure") {
  struct reporting_resource final : scripted_resource {
    void* give(stream_ref, std::size_t) override { return this; }
    void take(stream_ref, void*, std::size_t) noexcept override {
      const error_handler current = set_error_handler(nullptr);
      set_error_handler(current);
      current("hipFree", 1, "hipErrorInvalidValue");
    }
  } resource;
  plain_subject subject{resource};
  const replay_result result =
      replay(trace_of("0,0,allocate,a,100,5\n0,1,free,a,100,5\n"), subject, {});
  REQUIRE(result.failures.count() == 1);
  CHECK(result.failures.texts()[0].text == "hipFree failed: hipErrorInvalidValue (1)");
}

TEST_CASE("replay: samples what is held, at the highest and the last event of each window") {
  noting_resource resource;
  plain_subject subject{resource};
  const replay_options options{.sample_windows = 2};
  const replay_result result = replay(trace_of(two_streams), subject, options);
  REQUIRE(result.samples.size() == 3);  // rows 3 and 4 of the first window, row 7 of the second
  const std::size_t requested[] = {300, 200, 350};
  const double microseconds[] = {1, 2, 5};
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(result.samples[i].requested == requested[i]);
    CHECK(result.samples[i].seconds == doctest::Approx(microseconds[i] * 1e-6));
  }
  CHECK(result.samples.back().held.physical == 3);
}

TEST_CASE("replay: tells how far it is") {
  noting_resource resource;
  plain_subject subject{resource};
  replay_options options;
  std::vector<std::size_t> told;
  options.on_progress = [&told](std::size_t events) { told.push_back(events); };
  static_cast<void>(replay(trace_of(two_streams), subject, options));
  REQUIRE_FALSE(told.empty());
  CHECK(std::is_sorted(told.begin(), told.end()));
  CHECK(told.back() < 6);
}

TEST_CASE("summarize_calls: has the number, the sum, two percentiles and the longest") {
  std::vector<std::uint64_t> ns;
  const tool::call_latency nothing = tool::summarize_calls(ns);
  CHECK(nothing.calls == 0);
  CHECK(nothing.total_ns == 0);
  CHECK(nothing.longest_ns == 0);
  for (std::uint64_t i = 200; i >= 1; --i) ns.push_back(i);
  const tool::call_latency all = tool::summarize_calls(ns);
  CHECK(all.calls == 200);
  CHECK(all.total_ns == 20100);
  CHECK(all.p50_ns == 100);
  CHECK(all.p99_ns == 198);
  CHECK(all.longest_ns == 200);
}

TEST_CASE("replay_result: a percentile is the least that so many pairs do not exceed") {
  replay_result result;
  CHECK(result.pair_percentile(0.5) == 0);
  for (std::uint64_t ns = 1; ns <= 200; ++ns) result.pair_ns.push_back(ns);
  CHECK(result.pair_percentile(0.5) == 100);
  CHECK(result.pair_percentile(0.99) == 198);
  CHECK(result.pair_percentile(1) == 200);
  CHECK(result.pair_percentile(0) == 1);
}

}  // namespace hipvmm::test
