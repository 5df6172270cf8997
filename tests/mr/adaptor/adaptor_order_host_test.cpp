// SPDX-License-Identifier: MIT
// The order of the notes and the calls of adaptors, and their waits.
#include <sstream>

#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/tracking_resource_adaptor.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include "mr/mr_test.hpp"
#include "support/host/host_provider.hpp"
#include "support/process/forked_child.hpp"

namespace hipvmm::test {
namespace {

/// Memory of hipMalloc; `before_free` is called before any goes back.
class asked_upstream {
 public:
  [[nodiscard]] mr::memory_resource* get() noexcept { return &resource_; }
  std::function<void()> before_free;

 private:
  mr::hip_resource below_{first_device};
  mr::callback_resource resource_{
      [this](std::size_t bytes, stream_ref, void*) { return below_.allocate_sync(bytes); },
      [this](void* pointer, std::size_t bytes, stream_ref, void*) {
        before_free();
        below_.deallocate_sync(pointer, bytes);
      }};
};

void use_both_ways(mr::memory_resource& resource) {
  const stream used{first_device};
  resource.deallocate(used, resource.allocate(used, 64 * KiB), 64 * KiB);
  resource.deallocate_sync(resource.allocate_sync(64 * KiB), 64 * KiB);
}

TEST_CASE("tracking_resource_adaptor: a block is forgotten before the upstream gets it") {
  asked_upstream upstream;
  mr::tracking_resource_adaptor tracked{upstream.get()};
  std::vector<std::size_t> known;
  upstream.before_free = [&] { known.push_back(tracked.get_outstanding_allocations().size()); };
  use_both_ways(tracked);
  CHECK(known == std::vector<std::size_t>{0, 0});
}

TEST_CASE("logging_resource_adaptor: a free is logged before the upstream gets the memory") {
  asked_upstream upstream;
  std::ostringstream log;
  mr::logging_resource_adaptor logged{upstream.get(), log, true};
  std::vector<std::size_t> rows;
  upstream.before_free = [&] {
    const std::string text = log.str();
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(",free,", at)) != std::string::npos; ++at) ++count;
    rows.push_back(count);
  };
  use_both_ways(logged);
  CHECK(rows == std::vector<std::size_t>{1, 2});
}

TEST_CASE("callback_resource: memory that is aligned too little goes back") {
  int out = 0;
  alignas(4096) static std::array<unsigned char, 8192> storage;
  mr::callback_resource resource{[&](std::size_t, stream_ref, void*) {
                                   ++out;
                                   return static_cast<void*>(storage.data() + 256);
                                 },
                                 [&](void* pointer, std::size_t bytes, stream_ref, void*) {
                                   CHECK(pointer == storage.data() + 256);
                                   CHECK(bytes == 512);
                                   --out;
                                 }};
  const stream used{first_device};
  CHECK_THROWS_AS(resource.allocate(used, 512, 4096), std::invalid_argument);
  CHECK_THROWS_AS(resource.allocate_sync(512, 4096), std::invalid_argument);
  CHECK(out == 0);
}

TEST_CASE("callback_resource: memory of no stream is there when it is given") {
  asked_upstream upstream;
  upstream.before_free = [] {};
  const call_counter waits{"hipStreamSynchronize"};
  void* const memory = upstream.get()->allocate_sync(KiB);
  CHECK(waits.count() == 1);
  upstream.get()->deallocate_sync(memory, KiB);
}

TEST_CASE("managed_resource: allocates on the current device, and the device that was named") {
  constexpr device_ref other{1};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  mr::managed_resource resource{other};
#pragma GCC diagnostic pop
  const call_counter changes{"hipSetDevice"};
  void* const memory = resource.allocate_sync(KiB);
  CHECK(changes.count() == 2);
  CHECK(device_ref::current() == first_device);
  hipPointerAttribute_t about{};
  REQUIRE(hipPointerGetAttributes(&about, memory) == hipSuccess);
  CHECK(about.device == other.ordinal());
  resource.deallocate_sync(memory, KiB);

  mr::managed_resource of_none;
  const scoped_device scope{other};
  void* const current = of_none.allocate_sync(KiB);
  REQUIRE(hipPointerGetAttributes(&about, current) == hipSuccess);
  CHECK(about.device == other.ordinal());
  CHECK(of_none.is_equal(resource));
  of_none.deallocate_sync(current, KiB);
}

TEST_CASE("adaptors: their end in a child of fork() writes no row and reports nothing") {
  mr::hip_resource upstream{first_device};
  const stream used{first_device};
  std::ostringstream log;
  std::optional<mr::logging_resource_adaptor> logged{std::in_place, &upstream, log};
  std::optional<mr::tracking_resource_adaptor> tracked{std::in_place, &*logged};
  void* const one = tracked->allocate(used, 100);
  const std::string written = log.str();
  CHECK(succeeds_in_forked_child([&] {
    const error_recorder reported;
    tracked.reset();
    logged.reset();
    return reported.count() == 0 && log.str() == written;
  }));
  tracked->deallocate(used, one, 100);
}

}  // namespace
}  // namespace hipvmm::test
