// SPDX-License-Identifier: MIT
#include "vmm/vmm_test.hpp"

// The cases of the contract join the suite that is open at its inclusion.
TEST_SUITE_BEGIN("needs virtual memory");

#include "contract/owner_contract.hpp"

#include <unistd.h>

#include <filesystem>

#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm::test {
namespace {

struct chunk_owner {
  using owner_type = physical_chunk;
  static constexpr const char* destroy_call = "hipMemRelease";

  static physical_chunk make() { return physical_chunk{first_device, granule()}; }
  static physical_chunk make_empty() { return {}; }
  static bool is_empty(const physical_chunk& owner) { return owner.empty() && owner.bytes() == 0; }
  static auto* identity(const physical_chunk& owner) { return owner.get(); }
  static std::uint64_t live() { return live_objects().handles; }
  static std::uint64_t freed() { return hipvmm_host_call_count(destroy_call); }
  static void give_back(ihipMemGenericAllocationHandle* handle) {
    CHECK(hipMemRelease(handle) == hipSuccess);
  }
};

struct reservation_owner {
  using owner_type = address_reservation;
  static constexpr const char* destroy_call = "hipMemAddressFree";

  static address_reservation make() { return address_reservation{4 * granule()}; }
  static address_reservation make_empty() { return {}; }
  static bool is_empty(const address_reservation& owner) {
    return owner.empty() && owner.bytes() == 0;
  }
  static void* identity(const address_reservation& owner) { return owner.get(); }
  static std::uint64_t live() { return live_objects().reservations; }
  static std::uint64_t freed() { return hipvmm_host_call_count(destroy_call); }
  static void give_back(void* base) { CHECK(hipMemAddressFree(base, 4 * granule()) == hipSuccess); }
};

struct mapping_owner {
  using owner_type = mapping;
  static constexpr const char* destroy_call = "hipMemUnmap";

  mapping make() { return mapping{reservation, granule() * made++, chunk}; }
  static mapping make_empty() { return {}; }
  static bool is_empty(const mapping& owner) { return owner.empty() && owner.bytes() == 0; }
  static void* identity(const mapping& owner) { return owner.get(); }
  static std::uint64_t live() { return live_objects().mappings; }
  static std::uint64_t freed() { return hipvmm_host_call_count(destroy_call); }
  static void give_back(void* address) { CHECK(hipMemUnmap(address, granule()) == hipSuccess); }

  address_reservation reservation{4 * granule()};
  physical_chunk chunk{first_device, granule()};
  std::size_t made = 0;
};

struct handle_owner {
  using owner_type = shareable_handle;

  shareable_handle make() {
    ++made;
    return shareable_handle{chunk};
  }
  static shareable_handle make_empty() { return {}; }
  static bool is_empty(const shareable_handle& owner) { return owner.empty() && owner.get() == -1; }
  static int identity(const shareable_handle& owner) { return owner.get(); }
  // Descriptors are the operating system's: its own count is the one to trust.
  static std::uint64_t live() {
    const std::filesystem::directory_iterator descriptors{"/proc/self/fd"};
    return static_cast<std::uint64_t>(std::distance(begin(descriptors), end(descriptors)));
  }
  static std::uint64_t freed() { return made - live(); }
  static void give_back(int descriptor) { CHECK(::close(descriptor) == 0); }

  physical_chunk chunk{first_device, granule(), handle_type::posix_fd};
  static inline std::uint64_t made = 0;
};

HIPVMM_OWNER_CONTRACT(chunk_owner, reservation_owner, mapping_owner, handle_owner);
HIPVMM_OWNER_RELEASE_CONTRACT(chunk_owner, reservation_owner, mapping_owner, handle_owner);
HIPVMM_OWNER_FAILURE_CONTRACT(chunk_owner, reservation_owner, mapping_owner);

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
