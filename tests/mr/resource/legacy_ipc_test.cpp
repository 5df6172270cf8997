// SPDX-License-Identifier: MIT
// Memory of hipMalloc that other processes open by hipIpcGetMemHandle.
#include <hipvmm/mr/resource/legacy_ipc.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "mr/mr_test.hpp"
#include "support/device_bytes.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

constexpr int inherited_block = 19;
constexpr std::size_t shared_bytes = 3 * 4096 + 256;

pool_options pool_of_slabs() {
  pool_options options = test::at_most(64 * MiB);
  options.fallback = without_vmm::always;
  return options;
}

/// A child of this name gets the block as a file.
void check_child_with(const char* name, const legacy_ipc_block& block) {
  const shareable_handle file{::memfd_create("block", MFD_CLOEXEC), 0};
  REQUIRE(::pwrite(file.get(), &block, sizeof(block), 0) == sizeof(block));
  test::check_child(name, {}, {{file.get(), inherited_block}});
}

legacy_ipc_block received() {
  legacy_ipc_block block;
  REQUIRE(::pread(inherited_block, &block, sizeof(block), 0) == sizeof(block));
  return block;
}

std::string refusal_of(const legacy_ipc_block& block) {
  return test::text_thrown_by<std::invalid_argument>([&] {
    return imported_legacy_block{block, first_device};
  });
}

}  // namespace

TEST_CASE("vmm_pool_resource: another process reads and writes a block by legacy IPC") {
  const stream used{first_device};
  vmm_pool_resource pool{first_device, pool_of_slabs()};
  CHECK_MESSAGE(pool.explain().find("slabs of hipMalloc") != std::string::npos, pool.explain());
  // Not at the start of its slab.
  void* const before = pool.allocate(used, MiB);
  void* const block = pool.allocate(used, shared_bytes);
  fill_async(used, block, 0x21, shared_bytes);
  used.synchronize();
  const legacy_ipc_block exported = pool.export_legacy_block(block);
  CHECK(exported.bytes >= shared_bytes);
  check_child_with("opens a block of legacy IPC", exported);
  CHECK(test::read_bytes(used, block, shared_bytes) == test::byte_vector(shared_bytes, 0x43));
  CHECK_THROWS_WITH_AS(pool.export_legacy_block(test::advance(block, 256)),
                       doctest::Contains("export_legacy_block: no allocation"),
                       std::invalid_argument);
  CHECK_THROWS_AS(pool.export_block(block), unsupported);
  pool.deallocate(used, block, shared_bytes);
  pool.deallocate(used, before, MiB);
}

HIPVMM_CHILD("opens a block of legacy IPC") {
  const stream used{first_device};
  const legacy_ipc_block from = received();
  imported_legacy_block first{from, first_device};
  // CUDA gives both one address.
  const imported_legacy_block second{from, first_device};
  CHECK(first.bytes() >= shared_bytes);
  CHECK(test::read_bytes(used, first.data(), shared_bytes) ==
        test::byte_vector(shared_bytes, 0x21));
  fill_async(used, first.data(), 0x43, shared_bytes);
  used.synchronize();
  imported_legacy_block moved;
  CHECK(moved.empty());
  CHECK(moved.data() == nullptr);
  moved = std::move(first);
  CHECK(first.empty());
  moved = {};
  CHECK(test::read_bytes(used, second.data(), shared_bytes) ==
        test::byte_vector(shared_bytes, 0x43));
  legacy_ipc_block wrong = from;
  wrong.offset = UINT64_MAX;
  CHECK_MESSAGE(refusal_of(wrong).find("of an allocation of") != std::string::npos,
                refusal_of(wrong));
  wrong = from;
  wrong.bytes = GiB;
  CHECK(refusal_of(wrong).find("of an allocation of") != std::string::npos);
  wrong.bytes = 0;
  CHECK(refusal_of(wrong).find("of an allocation of") != std::string::npos);
  CHECK_THROWS_AS((imported_legacy_block{from, device_ref{99}}), std::invalid_argument);
}

TEST_CASE("growable_device_vector: one allocation for life can be opened by legacy IPC") {
  constexpr std::size_t count = shared_bytes;
  growth_options options{
      .max_bytes = 8 * MiB, .past_max = past_max_size::refuse, .fallback = without_vmm::always};
  const stream used{first_device};
  growable_device_vector<std::byte> vector{first_device, options};
  CHECK_MESSAGE(vector.explain().find("without_vmm::always") != std::string::npos,
                vector.explain());
  vector.resize_uninitialized(count);
  void* const data = vector.data();
  fill_async(used, data, 0x21, count);
  used.synchronize();
  device_allocation whole{data, first_device, vector.capacity()};
  const legacy_ipc_block block = export_legacy_block(whole, 0, count);
  CHECK(whole.release() == data);
  check_child_with("opens a block of legacy IPC", block);
  vector.resize_uninitialized(4 * MiB);
  CHECK(vector.data() == data);
  CHECK(test::read_bytes(used, data, count) == test::byte_vector(count, 0x43));
  options.chunks.shareable = handle_type::posix_fd;
  CHECK_THROWS_WITH_AS((growable_device_vector<std::byte>{first_device, options}),
                       doctest::Contains("has no chunks to export"), unsupported);
}

TEST_CASE("export_legacy_block: what cannot be exported so is refused with what to do") {
  device_allocation memory{first_device, MiB};
  CHECK_THROWS_AS(export_legacy_block(memory, MiB, 1), std::invalid_argument);
  CHECK_THROWS_AS(export_legacy_block(memory, 0, MiB + 1), std::invalid_argument);
  CHECK_THROWS_AS(export_legacy_block(memory, 0, 0), std::invalid_argument);
  CHECK_THROWS_AS(export_legacy_block({}, 0, 1), std::invalid_argument);
  const legacy_ipc_block own = export_legacy_block(memory, 256, MiB - 256);
  CHECK(own.offset == 256);
  CHECK_MESSAGE(refusal_of(own).find("use the pointer") != std::string::npos, refusal_of(own));
  CHECK_THROWS_AS((imported_legacy_block{legacy_ipc_block{{}, 0, 1}, first_device}), hip_error);
  const stream used{first_device};
  if (capability_of(first_device).path() == memory_path::fallback) return;
  vmm_pool_resource chunks{first_device, test::at_most(64 * MiB)};
  void* const block = chunks.allocate(used, MiB);
  CHECK_THROWS_WITH_AS(chunks.export_legacy_block(block), doctest::Contains("without_vmm::always"),
                       unsupported);
  chunks.deallocate(used, block, MiB);
}

}  // namespace hipvmm::mr
