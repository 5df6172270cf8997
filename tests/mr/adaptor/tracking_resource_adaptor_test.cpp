// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/tracking_resource_adaptor.hpp>

#include <fstream>

#include "mr/mr_test.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/resource/contract.hpp"

// Outside of the library's namespace, as a program's functions are.
void* allocate_for_a_program(hipvmm::mr::memory_resource& resource);
[[gnu::noinline]] void* allocate_for_a_program(hipvmm::mr::memory_resource& resource) {
  void* const pointer = resource.allocate_sync(4096);
  asm volatile("");  // or the call may take this function's place
  return pointer;
}

namespace hipvmm::mr {
namespace {

using test::first_device;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Records the size of a deallocation.
class upstream_of_one final : public memory_resource {
 public:
  std::size_t came_back = 0;

 private:
  void* do_allocate(stream_ref, std::size_t, std::size_t) override { return this; }
  void do_deallocate(stream_ref, void*, std::size_t bytes, std::size_t) noexcept override {
    came_back = bytes;
  }
  void* do_allocate_sync(std::size_t, std::size_t) override { return this; }
  void do_deallocate_sync(void*, std::size_t bytes, std::size_t) noexcept override {
    came_back = bytes;
  }
};

}  // namespace

TEST_CASE("tracking_resource_adaptor: keeps the contract of a resource") {
  hip_resource upstream{first_device};
  tracking_resource_adaptor tracked{&upstream, true};
  test::check_contract({tracked, first_device, 1 * MiB});
  CHECK(tracked.get_allocated_bytes() == 0);
  CHECK(tracked.get_outstanding_allocations().empty());
}

TEST_CASE("tracking_resource_adaptor: lists what is in use, and nothing else") {
  hip_resource upstream{first_device};
  tracking_resource_adaptor tracked{&upstream};
  const stream used{first_device};
  void* const first = tracked.allocate(used, 1000);
  void* const second = tracked.allocate_sync(24);
  CHECK_THROWS_AS(tracked.allocate(used, SIZE_MAX), std::bad_alloc);
  CHECK(tracked.get_allocated_bytes() == 1024);
  const auto out = tracked.get_outstanding_allocations();
  REQUIRE(out.size() == 2);
  CHECK(out.at(first).allocation_size == 1000);
  CHECK(out.at(first).strace.empty());
  CHECK(out.at(second).allocation_size == 24);
  CHECK(has(tracked.get_outstanding_allocations_str(), ": 24 B\n"));
  tracked.deallocate_sync(first, 1000);
  tracked.deallocate(used, second, 24);
  CHECK(tracked.get_allocated_bytes() == 0);
  CHECK(tracked.get_outstanding_allocations_str().empty());
}

TEST_CASE("tracking_resource_adaptor: a stack begins with the program's function") {
  hip_resource upstream{first_device};
  tracking_resource_adaptor tracked{&upstream, true};
  void* const pointer = allocate_for_a_program(tracked);
  CHECK(tracked.get_outstanding_allocations().at(pointer).strace.size() > 3);
  const std::string text = tracked.get_outstanding_allocations_str();
  INFO(text);
  CHECK(has(text, ": 4096 B\n    #0 "));
  CHECK(has(text, "    #1 "));
  if (STACKS_HAVE_NAMES) CHECK(has(text, "#0 allocate_for_a_program("));
  tracked.deallocate_sync(pointer, 4096);
}

TEST_CASE("tracking_resource_adaptor: what is out at its end is told once, with stacks") {
  hip_resource upstream{first_device};
  void* leaked = nullptr;
  const test::error_recorder told;
  {
    tracking_resource_adaptor tracked{&upstream, true};
    leaked = allocate_for_a_program(tracked);
    tracked.deallocate_sync(allocate_for_a_program(tracked), 4096);
  }
  upstream.deallocate_sync(leaked, 4096);
  REQUIRE(told.count() == 1);
  CHECK(told.errors()[0].call == "tracking_resource_adaptor");
  CHECK(has(told.errors()[0].message, "ends with 4096 B still in use, in 1 allocation:"));
  CHECK(has(told.errors()[0].message, ": 4096 B\n    #0 "));
}

TEST_CASE("tracking_resource_adaptor: another size is told, and the right one freed") {
  upstream_of_one upstream;
  tracking_resource_adaptor tracked{&upstream};
  const test::error_recorder told;
  tracked.deallocate_sync(tracked.allocate_sync(100), 99);
  REQUIRE(told.count() == 1);
  CHECK(has(told.errors()[0].message, "99 bytes are freed at 0x"));
  CHECK(upstream.came_back == 100);
  CHECK(tracked.get_allocated_bytes() == 0);
}

TEST_CASE("tracking_resource_adaptor: what is not out is told, and the upstream's to judge") {
  upstream_of_one upstream;
  tracking_resource_adaptor tracked{&upstream};
  const test::error_recorder told;
  tracked.deallocate(stream_ref::legacy_default(), &upstream, 70);
  REQUIRE(told.count() == 1);
  CHECK(has(told.errors()[0].message, "70 bytes at 0x"));
  CHECK(upstream.came_back == 70);
}

TEST_CASE("tracking_resource_adaptor: what went back past it is told when it is given again") {
  upstream_of_one upstream;
  tracking_resource_adaptor tracked{&upstream};
  const test::error_recorder told;
  upstream.deallocate_sync(tracked.allocate_sync(100), 100);
  void* const again = tracked.allocate_sync(7);
  CHECK(told.count() == 1);
  CHECK(tracked.get_allocated_bytes() == 7);
  tracked.deallocate_sync(again, 7);
  CHECK(told.count() == 1);
}

HIPVMM_CHILD("what is out is logged") {
  upstream_of_one upstream;
  tracking_resource_adaptor tracked{&upstream};
  void* const pointer = tracked.allocate_sync(77);
  tracked.log_outstanding_allocations();
  tracked.deallocate_sync(pointer, 77);
}
TEST_CASE("tracking_resource_adaptor: what is out goes to the debug log when asked for") {
  const test::temporary_folder folder;
  const std::string path = folder.path() / "debug.log";
  test::check_child("what is out is logged", {"HIPVMM_DEBUG_LOG_FILE=" + path});
  std::ifstream file{path};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  CHECK(has(text, "[info  ] outstanding allocations:\n0x"));
  CHECK(has(text, ": 77 B\n"));
}

}  // namespace hipvmm::mr
