// SPDX-License-Identifier: MIT
// Legacy IPC while HIP calls fail.
#include <sys/mman.h>
#include <unistd.h>

#include <hipvmm/mr/resource/legacy_ipc.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "mr/mr_test.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

constexpr int inherited_block = 19;

struct pool_of_slabs {
  stream used{first_device};
  vmm_pool_resource pool{first_device, options()};
  void* block = pool.allocate(used, 3 * MiB);
  std::optional<legacy_ipc_block> exported;

  // A slab that was not as aligned as it should goes back behind a wait.
  pool_of_slabs() { drain_retired_memory(); }
  ~pool_of_slabs() { pool.deallocate(used, block, 3 * MiB); }
  pool_of_slabs& operator=(pool_of_slabs&&) = delete;

  static pool_options options() {
    pool_options result = test::at_most(64 * MiB);
    result.fallback = without_vmm::always;
    return result;
  }
};

}  // namespace

TEST_CASE("vmm_pool_resource: a pool of slabs that fails to begin, or to export, leaves nothing") {
  test::fault_sweep{"pool of slabs", test::after_failure::capacity}.run([] {
    static_cast<void>(vmm_pool_resource{first_device, pool_of_slabs::options()});
  });
  test::fault_sweep{"export_legacy_block"}.run<pool_of_slabs>(
      [](auto& one) { one.exported = one.pool.export_legacy_block(one.block); },
      [](auto& one) {
        CHECK_FALSE(one.exported);
        CHECK(one.pool.usage().used_current == 3 * MiB);
      },
      [](auto& one) { CHECK(one.exported->bytes == 3 * MiB); });
}

TEST_CASE("imported_legacy_block: each HIP call that fails leaves nothing behind") {
  pool_of_slabs owner;
  const legacy_ipc_block block = owner.pool.export_legacy_block(owner.block);
  const shareable_handle file{::memfd_create("block", MFD_CLOEXEC), 0};
  REQUIRE(::pwrite(file.get(), &block, sizeof(block), 0) == sizeof(block));
  test::check_child("opens a block while HIP calls fail", {}, {{file.get(), inherited_block}});
}

HIPVMM_CHILD("opens a block while HIP calls fail") {
  legacy_ipc_block block;
  REQUIRE(::pread(inherited_block, &block, sizeof(block), 0) == sizeof(block));
  legacy_ipc_block wrong = block;
  wrong.bytes = GiB;
  for (const legacy_ipc_block& each : {block, wrong})
    test::fault_sweep{"imported_legacy_block"}.run([&each] {
      try {
        imported_legacy_block opened{each, first_device};
        imported_legacy_block moved{std::move(opened)};
        CHECK(moved.bytes() == 3 * MiB);
      } catch (const std::invalid_argument&) {
        CHECK(each.bytes == GiB);
      }
    });
}

}  // namespace hipvmm::mr
