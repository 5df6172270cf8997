// SPDX-License-Identifier: MIT
// PyTorch's allocator in processes of their own: at exit, after fork(), and beside a stand-in
// for PyTorch's library.
#include <dlfcn.h>

#include <typeinfo>

#include <hipvmm/torch.h>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "c/c_interface.hpp"
#include "support/process/forked_child.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t block = 4 * MiB;

/// A tensor.
struct owned_block {
  void* memory;

  owned_block() : memory{hipvmm_torch_alloc(block, 0, nullptr)} {}
  owned_block& operator=(owned_block&&) = delete;
  ~owned_block() { hipvmm_torch_free(memory, block, 0, nullptr); }
};

HIPVMM_CHILD("tensors of static storage end after main") {
  set_error_handler(end_process);
  static const owned_block last;
  static const owned_block recorded;
  const stream other{first_device};
  hipvmm_torch_record_stream(recorded.memory, other.get());
}

HIPVMM_CHILD("tensors never end") {
  static const auto& kept = *new owned_block;
  hipvmm_torch_record_stream(kept.memory, nullptr);
  hipvmm_torch_begin_allocate_to_pool(0, {0, 1}, nullptr);
  static const auto& of_graph = *new owned_block;
  CHECK(of_graph.memory != nullptr);
}

HIPVMM_CHILD("a thread exits") {
  const owned_block kept;
  std::thread{[] {
    const owned_block freed;
    std::exit(3);
  }}.join();
}

TEST_CASE("torch.h: the process may end with and without its tensors") {
  check_child("tensors of static storage end after main");
  check_child("tensors never end");
  check_child_ends(3, "a thread exits");
}

HIPVMM_CHILD("forks with tensors") {
  auto* const inherited = new owned_block;
  auto* const recorded = new owned_block;
  const stream other{first_device};
  hipvmm_torch_record_stream(recorded->memory, other.get());
  CHECK(succeeds_in_forked_child([&] {
    const error_recorder reported;
    delete inherited;
    hipvmm_torch_record_stream(recorded->memory, other.get());
    hipvmm_torch_erase_stream(recorded->memory, other.get());
    delete recorded;
    hipvmm_torch_reset();
    try {
      static_cast<void>(hipvmm_torch_alloc(block, 0, nullptr));
    } catch (const std::runtime_error& refused) {
      const std::string text = refused.what();
      return text.find("child of fork()") != std::string::npos && reported.count() == 0;
    }
    return false;
  }));
  delete inherited;
  delete recorded;
  const owned_block works;
}

HIPVMM_CHILD("forks before the first tensor") {
  // As servers do that start their workers first.
  CHECK(succeeds_in_forked_child([] {
    const owned_block works;
    return works.memory != nullptr;
  }));
}

TEST_CASE("torch.h: a child of fork() leaves the parent's tensors alone") {
  check_child("forks with tensors");
  check_child("forks before the first tensor");
}

HIPVMM_TEST_CASE_IN(
    "torch.h: out of memory is PyTorch's own error, with the report, if its library is loaded",
    {}) {
  void* const library = ::dlopen(FAKE_TORCH, RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, ::dlerror());
  const auto alive = reinterpret_cast<int (*)()>(::dlsym(library, "fake_torch_errors"));
  REQUIRE((alive != nullptr));
  const auto refusal = [](std::size_t bytes) {
    try {
      static_cast<void>(hipvmm_torch_alloc(bytes, 0, nullptr));
    } catch (const std::exception& error) {
      CHECK(std::string{typeid(error).name()} == "N3c1016OutOfMemoryErrorE");
      return std::string{error.what()};
    }
    return std::string{"nothing"};
  };
  const owned_block kept;
  const std::string full = refusal(std::size_t{1} << 40U);
  CHECK(full.find(format_bytes(std::size_t{1} << 40U)) != std::string::npos);
  CHECK(full.find("hipvmm_torch_alloc") != std::string::npos);
  CHECK(full.find('\n') != std::string::npos);  // the report
  hipvmm_torch_memory_fraction(0, 0);
  CHECK(refusal(1).find("memory fraction") != std::string::npos);
  CHECK(alive() == 0);
  hipvmm_torch_statistics statistics{};
  statistics.struct_size = sizeof statistics;
  require_ok(hipvmm_torch_get_statistics(0, &statistics));
  CHECK(statistics.out_of_memory == 2);
  CHECK(statistics.allocated_current == block);
}

}  // namespace
}  // namespace hipvmm::test
