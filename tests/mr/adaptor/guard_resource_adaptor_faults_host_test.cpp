// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/guard_resource_adaptor.hpp>
#include "mr/mr_test.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::mr {
namespace {

struct guarded_memory {
  explicit guarded_memory(std::size_t quarantine) {
    const guard_options options{.quarantine_bytes = quarantine};
    guard = std::make_unique<guard_resource_adaptor>(&upstream, options);
  }

  hip_resource upstream{test::first_device};
  stream used{test::first_device};
  std::unique_ptr<guard_resource_adaptor> guard;
};

guard_options at_once_without_quarantine() {
  return guard_options{.quarantine_bytes = 0, .check = guard_check::at_once};
}

}  // namespace

TEST_CASE("guard_resource_adaptor: calls that fail lose no memory and find no damage") {
  for (const std::size_t quarantine : {std::size_t{0}, std::size_t{MiB}}) {
    test::fault_sweep sweep{"a guarded block", test::after_failure::capacity};
    sweep.run([&] { return std::make_unique<guarded_memory>(quarantine); },
              [](auto& all) {
                void* const one = all.guard->allocate(all.used, 1000);
                all.guard->deallocate(all.used, one, 1000);
                void* const two = all.guard->allocate_sync(1000);
                all.guard->deallocate_sync(two, 1000);
                all.guard->flush();
              },
              [](auto& all) { CHECK(all.guard->damages() == 0); },
              [](auto& all) { CHECK(all.guard->damages() == 0); });
  }
}

TEST_CASE("guard_resource_adaptor: a block whose wait is refused once returns later") {
  const test::error_recorder recorder;
  vmm_pool_resource upstream{test::first_device};
  {
    const stream used{test::first_device};
    guard_resource_adaptor guard{&upstream};
    guard.deallocate(used, guard.allocate(used, 1000), 1000);
    {
      const test::planned_fault fault{"hipEventSynchronize", 1, hipErrorUnknown};
      guard.flush();
      CHECK(fault.struck());
    }
    CHECK(guard.quarantined_bytes() != 0);
    SUBCASE("by flush()") { guard.flush(); }
    SUBCASE("at the end") {}
  }
  CHECK(upstream.usage().used_current == 0);
}

TEST_CASE("guard_resource_adaptor: what a refused wait left uncopied is not compared") {
  const test::error_recorder recorder;
  vmm_pool_resource upstream{test::first_device};  // which does not wait for the stream
  guard_options options = at_once_without_quarantine();
  SUBCASE("at once") {}
  SUBCASE("by flush") { options.check = guard_check::later; }
  SUBCASE("in quarantine") {
    options.check = guard_check::later;
    options.quarantine_bytes = MiB;
  }
  guard_resource_adaptor guard{&upstream, options};
  // The copies of the canaries wait behind this.
  test::blocked_stream used{test::first_device};
  void* const block = guard.allocate(used, 1000);
  test::planned_fault fault{"hipEventSynchronize", 1, hipErrorUnknown};
  guard.deallocate(used, block, 1000);
  if (options.check == guard_check::later) guard.flush();
  CHECK(fault.end());
  CHECK(recorder.count() == 1);
  CHECK(guard.damages() == 0);
  used.release();
  guard.flush();
  CHECK(guard.damages() == 0);
  CHECK(recorder.count() == 1);
}

namespace {

const guard_resource_adaptor* asked_by_handler = nullptr;

void ask_in_handler(const char*, int, const char*) noexcept {
  static_cast<void>(asked_by_handler->quarantined_bytes());
}

}  // namespace

TEST_CASE("guard_resource_adaptor: an error handler may ask it") {
  const test::error_recorder recorder;  // its handler is set again when it ends
  hip_resource upstream{test::first_device};
  guard_resource_adaptor guard{&upstream, {}};
  const stream used{test::first_device};
  void* const one = guard.allocate(used, 1000);
  void* const two = guard.allocate(used, 1000);
  guard.deallocate(used, one, 1000);
  asked_by_handler = &guard;
  set_error_handler(ask_in_handler);
  {
    test::planned_fault fault{"hipEventQuery", 1, hipErrorUnknown};
    guard.deallocate(used, two, 1000);
    CHECK(fault.struck());
  }
  guard.flush();
  CHECK(guard.damages() == 0);
}

TEST_CASE("guard_resource_adaptor: a capture of another stream stays valid") {
  guarded_memory all{0};
  const stream captured{test::first_device};
  all.guard->deallocate(all.used, all.guard->allocate(all.used, 1000), 1000);
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  all.guard->deallocate(all.used, all.guard->allocate(all.used, 1000), 1000);
  all.guard->flush();
  test::end_capture(captured.get());
  CHECK(all.guard->damages() == 0);
}

TEST_CASE("guard_resource_adaptor: it adds nothing to a graph, and guards no block of one") {
  guarded_memory all{0};
  REQUIRE(hipStreamBeginCapture(all.used.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  void* const one = all.guard->allocate(all.used, 1000);
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(all.used.get(), &graph) == hipSuccess);
  std::size_t nodes = 0;
  CHECK(hipGraphGetNodes(graph, nullptr, &nodes) == hipSuccess);
  CHECK(nodes == 0);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
  all.guard->deallocate(all.used, one, 1000);
  all.guard->flush();
  CHECK(all.guard->damages() == 0);
}

}  // namespace hipvmm::mr
