// SPDX-License-Identifier: MIT
#include "mr/pool/backend/region_backend.hpp"

#include "support/host/allocation_failure.hpp"
#include "support/host/host_profile.hpp"
#include "support/test.hpp"

// If the host's memory is short, chunks that cannot be detached stay unchanged.
namespace hipvmm::mr::pool {
namespace {

/// Fails each allocation of the host in `detach` in turn, until one call makes fewer, and returns
/// the chunks that this call detached.
template <typename Detach>
std::unique_ptr<pending_release> detach_without_memory(Detach detach) {
  constexpr std::uint64_t most = 50;
  for (std::uint64_t nth = 1; nth < most; ++nth) {
    INFO("allocation " << nth << " of the host fails");
    const test::allocation_failure failure{nth};
    try {
      return detach();
    } catch (const std::bad_alloc&) {
      REQUIRE(failure.struck());
    }
  }
  FAIL("more allocations than a call makes");
  return nullptr;
}

}  // namespace

TEST_CASE("region_backend: a chunk that cannot be detached stays mapped" *
          test::needs_virtual_memory) {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process without memory");
  const device_ref device = test::first_device;
  region_backend memory{device, std::size_t{64} << 20, {}};
  const std::size_t unit = memory.traits.granularity;
  memory.create(0, unit, unit);
  memory.create(unit, unit, unit);
  const auto detached_chunk = detach_without_memory([&] { return memory.detach(unit, unit); });
  REQUIRE(detached_chunk != nullptr);
  CHECK(detached_chunk->release());
  memory.create(unit, unit, unit);
  if (!memory.traits.has_aliases) return;
  memory.alias({unit}, 4 * unit);
  const auto old = detach_without_memory([&] { return memory.detach_old_mapping(unit); });
  REQUIRE(old != nullptr);
  CHECK(old->release());
  memory.create(unit, unit, unit);
}

}  // namespace hipvmm::mr::pool
