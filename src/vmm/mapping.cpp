// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/mapping.hpp>

#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/check.hpp"
#include "core/driver_calls.hpp"
#include "vmm/unmap_range.hpp"

namespace hipvmm {
namespace {

/// Whether something is mapped at `address` that nobody has a right to yet, as after a map.
bool is_freshly_mapped(const void* address, device_ref owner) {
  try {
    return get_access(address, owner) == access_right::none;
  } catch (const hip_error& error) {
    if (error.code() != hipErrorInvalidValue) throw;
    return false;
  }
}

/// Throws what hipMemMap should have returned unless it has mapped. Nothing is unmapped then: up to
/// ROCm 6.4 that ends the process where nothing is mapped.
void verify(const void* address, device_ref owner) {
  bool mapped = false;
  try {
    mapped = is_freshly_mapped(address, owner);
  } catch (const hip_error&) {
    // A failure that says nothing about the mapping. Should it stay, so does what may be mapped:
    // that costs memory, where unmapping could cost the process.
    mapped = is_freshly_mapped(address, owner);
  }
  if (!mapped) detail::check(hipErrorInvalidValue, "hipMemMap");
}

}  // namespace

mapping::mapping(const address_reservation& reservation, std::size_t offset,
                 const physical_chunk& chunk, map_answer answer) {
  if (chunk.empty()) throw std::invalid_argument{"a mapping of an empty chunk"};
  if (offset > reservation.bytes() || chunk.bytes() > reservation.bytes() - offset)
    throw std::invalid_argument{"a mapping of " + std::to_string(chunk.bytes()) +
                                " bytes at offset " + std::to_string(offset) +
                                " exceeds its reservation of " +
                                std::to_string(reservation.bytes()) + " bytes"};
  void* const address = static_cast<char*>(reservation.get()) + offset;
  detail::check(detail::timed(detail::memory_call::map,
                              [&] { return hipMemMap(address, chunk.bytes(), 0, chunk.get(), 0); }),
                "hipMemMap");
  if (answer == map_answer::verified) verify(address, chunk.device());
  address_ = address;
  bytes_ = chunk.bytes();
}

mapping::~mapping() {
  if (address_ != nullptr)
    detail::report(
        detail::timed(detail::memory_call::unmap, [&] { return hipMemUnmap(address_, bytes_); }),
        "hipMemUnmap");
}

mapping& mapping::operator=(mapping&& other) noexcept {
  mapping moved{std::move(other)};
  std::swap(address_, moved.address_);
  std::swap(bytes_, moved.bytes_);
  return *this;
}

void mapping::unmap() {
  if (address_ == nullptr) return;
  detail::check(
      detail::timed(detail::memory_call::unmap, [&] { return hipMemUnmap(address_, bytes_); }),
      "hipMemUnmap");
  static_cast<void>(release());
}

void detail::unmap_range(void* address, std::size_t bytes) {
  check(timed(memory_call::unmap, [&] { return hipMemUnmap(address, bytes); }), "hipMemUnmap");
}

}  // namespace hipvmm
