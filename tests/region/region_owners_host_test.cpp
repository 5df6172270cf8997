// SPDX-License-Identifier: MIT
#include "region/region_test.hpp"

// The cases of the contract join the suite that is open at its inclusion.
TEST_SUITE_BEGIN("needs virtual memory");

#include "contract/owner_contract.hpp"

#include "support/region/address_frees.hpp"

namespace hipvmm::test {
namespace {

struct region_owner {
  using owner_type = region;

  static region make() {
    region made{first_device, 4 * granule()};
    made.commit(0, granule());
    return made;
  }
  static region make_empty() { return moved_from(make()); }
  static bool is_empty(const region& owner) {
    return owner.base() == nullptr && owner.max_bytes() == 0 && owner.committed_bytes() == 0 &&
           owner.committed_from(0) == 0 && owner.chunk_count() == 0;
  }
  static void* identity(const region& owner) { return owner.base(); }
  static std::uint64_t live() {
    drain_retired_memory();
    return live_objects().reservations + live_objects().allocations;
  }
  static std::uint64_t freed() {
    drain_retired_memory();
    // hipFree of one byte is a way to wait if regions are mapped.
    return address_frees();
  }
};

HIPVMM_OWNER_CONTRACT(region_owner);

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
