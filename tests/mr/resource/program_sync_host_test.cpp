// SPDX-License-Identifier: MIT
// Deallocations without a stream of a program's own memory: callbacks, and resources with
// hipMM's interface.
#include <hipvmm/compat/hipmm.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>
#include "core/capture_mode.hpp"
#include "mr/mr_test.hpp"
#include "mr/pool/waits_for.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

/// Memory of hipMalloc for functions of a program.
struct program_memory {
  mr::hip_resource below{first_device};
  std::vector<std::string> calls;

  mr::allocate_callback_t allocate() {
    return [this](std::size_t bytes, stream_ref, void*) { return below.allocate_sync(bytes); };
  }
  mr::deallocate_callback_t deallocate() {
    return [this](void* pointer, std::size_t bytes, stream_ref, void*) {
      calls.emplace_back("in a stream");
      below.deallocate_sync(pointer, bytes);
    };
  }
};

class derived_resource final : public hipmm::mr::device_memory_resource {
 public:
  std::atomic<int> deallocations{0};

 private:
  void* do_allocate(std::size_t bytes, hipmm::cuda_stream_view stream) override {
    return upstream_.allocate(stream, bytes);
  }
  void do_deallocate(void* pointer, std::size_t bytes, hipmm::cuda_stream_view stream) override {
    ++deallocations;
    upstream_.deallocate(stream, pointer, bytes);
  }
  mr::hip_resource upstream_{first_device};
};

TEST_CASE("hip_resource, callback_resource: each HIP call that fails costs no memory") {
  fault_sweep{"memory without a stream"}.run([] {
    mr::hip_resource plain{second_device};
    program_memory program;
    mr::callback_resource called{program.allocate(), program.deallocate()};
    for (mr::memory_resource* const resource :
         std::initializer_list<mr::memory_resource*>{&plain, &called})
      resource->deallocate_sync(resource->allocate_sync(MiB), MiB);
  });
}

TEST_CASE("hip_resource, callback_resource: memory without a stream costs no capture") {
  program_memory program;
  mr::callback_resource called{program.allocate(), program.deallocate()};
  for (mr::memory_resource* const resource :
       std::initializer_list<mr::memory_resource*>{&program.below, &called}) {
    void* const one = resource->allocate_sync(MiB);
    const stream captured{first_device};
    const stream elsewhere{lonely_device};
    for (const stream* each : {&captured, &elsewhere})
      REQUIRE(hipStreamBeginCapture(each->get(), hipStreamCaptureModeGlobal) == hipSuccess);
    {
      const hipvmm::detail::relaxed_captures relaxed;
      const error_recorder reported;
      resource->deallocate_sync(one, MiB);
      CHECK(reported.count() == 0);
    }
    for (const stream* each : {&captured, &elsewhere}) {
      end_capture(each->get());
    }
  }
}

TEST_CASE("callback_resource: a program's function gets memory without a stream behind all work") {
  program_memory program;
  mr::callback_resource resource{program.allocate(), program.deallocate()};
  for (const device_ref device : {first_device, second_device, lonely_device}) {
    CAPTURE(device.ordinal());
    program.calls.clear();
    blocked_stream used{device};
    void* const one = resource.allocate_sync(MiB);
    std::size_t seen = 1;
    CHECK(waits_for(used, [&] {
      resource.deallocate_sync(one, MiB);
      seen = program.calls.size();
    }));
    CHECK(seen == 1);
  }
}

TEST_CASE("callback_resource: nothing is called where no wait succeeds") {
  program_memory program;
  mr::callback_resource resource{program.allocate(), program.deallocate()};
  check_kept_without_wait(resource, MiB, [&] { return program.calls.size(); });
}

TEST_CASE("callback_resource: a function for memory without a stream is called without a wait") {
  program_memory program;
  int argument = 0;
  mr::callback_resource resource{program.allocate(), program.deallocate(), nullptr, &argument,
                                 [&](void* pointer, std::size_t bytes, void* args) {
                                   CHECK(args == &argument);
                                   program.calls.emplace_back("without a stream");
                                   program.below.deallocate_sync(pointer, bytes);
                                 }};
  const stream used{first_device};
  resource.deallocate(used, resource.allocate(used, MiB), MiB);
  void* const one = resource.allocate_sync(MiB);
  blocked_stream unrelated{lonely_device};
  // A wait for it would never end.
  resource.deallocate_sync(one, MiB);
  CHECK_FALSE(unrelated.is_done());
  CHECK(program.calls == std::vector<std::string>{"in a stream", "without a stream"});
}

TEST_CASE("hipmm: a program's own resource gets memory without a stream behind all work") {
  derived_resource resource;
  for (const device_ref device : {first_device, second_device, lonely_device}) {
    CAPTURE(device.ordinal());
    blocked_stream used{device};
    void* one = resource.allocate_sync(MiB);
    CHECK(waits_for(used, [&] { resource.deallocate_sync(one, MiB); }));
    blocked_stream again{device};
    one = resource.allocate_sync(MiB);
    CHECK(waits_for(
        again, [&] { resource.deallocate(one, MiB, mr::memory_resource::default_alignment); }));
  }
}

TEST_CASE("hipmm: a program's own resource keeps memory where no wait succeeds") {
  derived_resource resource;
  check_kept_without_wait(resource, MiB, [&] { return resource.deallocations.load(); });
}

}  // namespace
}  // namespace hipvmm::test
