// SPDX-License-Identifier: MIT
// Reserved addresses: ROCr's Runtime::VMemoryAddressReserve and VMemoryAddressFree.
#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>

#include <sys/mman.h>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/history.hpp"
#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/memory/address_space.hpp"

namespace stand_in {
namespace {

constexpr int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
constexpr std::uint64_t no_register = 1;  // HSA_AMD_VMEM_ADDRESS_NO_REGISTER, from ROCr 7 on

// 0 if exactly this address cannot be reserved.
std::uint64_t reserve_at(std::uint64_t address, std::uint64_t bytes) {
  void* const got =
      mmap(pointer_to(address), bytes, PROT_NONE, anonymous | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return 0;
  if (address_of(got) == address) return address;
  munmap(got, bytes);
  return 0;
}

std::uint64_t reserve_anywhere(std::uint64_t bytes, std::uint64_t alignment) {
  void* const got = mmap(nullptr, bytes + alignment, PROT_NONE, anonymous, -1, 0);
  if (got == MAP_FAILED) return 0;
  const std::uint64_t first = address_of(got);
  const std::uint64_t start = round_up(first, alignment);
  if (start > first) munmap(got, start - first);
  if (first + alignment > start) munmap(pointer_to(start + bytes), first + alignment - start);
  return start;
}

hsa_status_t reserve(void** va, std::uint64_t size, std::uint64_t address, std::uint64_t alignment,
                     std::uint64_t flags) {
  if (size == 0 || va == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if ((alignment & (alignment - 1)) != 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const std::uint64_t bytes = round_up(size, page_bytes);
  // The thunk's alignment for large pages: doubled while the size has room for it.
  const std::uint64_t least = std::min(std::bit_floor(bytes), large_page_bytes);
  std::uint64_t got = address != 0 ? reserve_at(address, bytes) : 0;
  if (got == 0) got = reserve_anywhere(bytes, std::max(alignment, least));
  if (got == 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const bool unregistered = (flags & no_register) != 0;
  if (unregistered) mprotect(pointer_to(got), bytes, PROT_READ | PROT_WRITE);
  std::lock_guard guard(addresses().lock);
  addresses().reservations[got] = {size, 0, unregistered, {}};
  *va = pointer_to(got);
  log("reserve %llu bytes: 0x%llx", wide(size), wide(got));
  return HSA_STATUS_SUCCESS;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_vmem_address_reserve(void** va, size_t size, uint64_t address,
                                          uint64_t flags) {
  ROCR_CALL();
  return reserve(va, size, address, 0, flags);
}

hsa_status_t hsa_amd_vmem_address_reserve_align(void** va, size_t size, uint64_t address,
                                                uint64_t alignment, uint64_t flags) {
  ROCR_CALL();
  return reserve(va, size, address, alignment, flags);
}

hsa_status_t hsa_amd_vmem_address_free(void* va, size_t size) {
  ROCR_CALL();
  if (va == nullptr || size == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  reservation ended;  // destroyed without the lock
  std::lock_guard guard(addresses().lock);
  auto& all = addresses().reservations;
  const auto at = all.find(address_of(va));
  if (at == all.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (size != at->second.size) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (at->second.use_count > 0) return HSA_STATUS_ERROR_RESOURCE_FREE;
  remember_end("reservation", "freed", at->first, at->second.size);
  ended = std::move(at->second);
  all.erase(at);
  // Otherwise they stay mapped, so that no later reservation gets the addresses.
  if (knobs().addresses_reused) munmap(va, round_up(size, page_bytes));
  log("free reservation %p", va);
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
