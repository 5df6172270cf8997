// SPDX-License-Identifier: MIT
// Work in flight on the blocks of a replay: the host reads them and holds streams back.
#include <hipvmm/runtime/device_allocation.hpp>
#include "support/host/host_provider.hpp"
#include "support/test.hpp"
#include "tool/replay/replay_job.hpp"
#include "tool/replay_traces.hpp"

namespace hipvmm::test {
namespace {

/// Gives memory of zeros, no byte of it twice.
class zeroed_resource final : public scripted_resource {
 public:
  [[nodiscard]] const unsigned char* memory() const {
    return static_cast<const unsigned char*>(memory_.get());
  }

 private:
  void* give(stream_ref stream, std::size_t bytes) override {
    if (used_ == 0) {
      REQUIRE(hipMemsetAsync(memory_.get(), 0, MiB, stream.get()) == hipSuccess);
      stream.synchronize();
    }
    used_ += bytes;
    REQUIRE(used_ <= MiB);
    return static_cast<std::byte*>(memory_.get()) + used_ - bytes;
  }

  device_allocation memory_{device_ref{0}, MiB};
  std::size_t used_ = 0;
};

const std::string one_block_after_the_other =
    "0,0,allocate,a,100,1\n0,1,free,a,100,1\n0,2,allocate,b,1000,1\n";

}  // namespace

TEST_CASE("replay: busy_bytes of each block are filled, and no byte more") {
  zeroed_resource resource;
  plain_subject subject{resource};
  const tool::replay_options options{.epochs = 2, .busy_bytes = 400};
  CHECK(tool::replay(trace_of(one_block_after_the_other), subject, options).failures.count() == 0);
  const unsigned char filled = resource.memory()[0];
  CHECK(filled != 0);
  for (const std::size_t epoch : {0, 1})
    for (std::size_t i = 0; i < 1100; ++i) {
      CAPTURE(i);
      REQUIRE(resource.memory()[epoch * 1100 + i] == (i < 500 ? filled : 0));
    }
}

TEST_CASE("replay: without busy_bytes streams have no work") {
  zeroed_resource resource;
  plain_subject subject{resource};
  const std::uint64_t before = hipvmm_host_call_count("hipMemsetAsync");
  CHECK(tool::replay(trace_of(one_block_after_the_other), subject, {}).failures.count() == 0);
  CHECK(hipvmm_host_call_count("hipMemsetAsync") == before + 1);  // the resource's own
}

TEST_CASE("replay: blocks are deallocated with their fills in flight, an epoch ends after them") {
  struct watching_resource final : scripted_resource {
    void* give(stream_ref stream, std::size_t) override {
      epochs_begun_idle += hipStreamQuery(stream.get()) == hipSuccess ? 1 : 0;
      return memory_.get();
    }
    void take(stream_ref stream, void*, std::size_t) noexcept override {
      deallocated_busy += hipStreamQuery(stream.get()) == hipErrorNotReady ? 1 : 0;
    }
    device_allocation memory_{device_ref{0}, MiB};
    int epochs_begun_idle = 0;
    int deallocated_busy = 0;
  } resource;
  plain_subject subject{resource};
  const tool::replay_options options{.epochs = 2, .busy_bytes = MiB};
  const tool::trace recorded = trace_of("0,0,allocate,a,5000,1\n0,1,free,a,5000,1\n");
  const auto waits = [] { return hipvmm_host_call_count("hipStreamSynchronize"); };
  const std::uint64_t waits_before = waits();
  held_streams held;
  std::future<tool::replay_result> replayed =
      std::async(std::launch::async, [&] { return tool::replay(recorded, subject, options); });
  // Nothing moves until something waits for the stream: the end of the first epoch.
  while (waits() == waits_before &&
         replayed.wait_for(std::chrono::milliseconds{1}) != std::future_status::ready) {
  }
  held.release();
  CHECK(replayed.get().epochs.size() == 2);
  CHECK(resource.deallocated_busy >= 1);  // in the second epoch the fill may have passed
  CHECK(resource.epochs_begun_idle == 2);
}

}  // namespace hipvmm::test
