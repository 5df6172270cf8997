// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/mapping.hpp>

#include <stdexcept>
#include <string>

#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/check.hpp"
#include "vmm/unmap_range.hpp"

namespace hipvmm {

mapping::mapping(const address_reservation& reservation, std::size_t offset,
                 const physical_chunk& chunk) {
  if (chunk.empty()) throw std::invalid_argument{"a mapping of an empty chunk"};
  if (offset > reservation.bytes() || chunk.bytes() > reservation.bytes() - offset)
    throw std::invalid_argument{"a mapping of " + std::to_string(chunk.bytes()) +
                                " bytes at offset " + std::to_string(offset) +
                                " exceeds its reservation of " +
                                std::to_string(reservation.bytes()) + " bytes"};
  void* const address = static_cast<char*>(reservation.get()) + offset;
  detail::check(hipMemMap(address, chunk.bytes(), 0, chunk.get(), 0), "hipMemMap");
  address_ = address;
  bytes_ = chunk.bytes();
}

mapping::~mapping() {
  if (address_ != nullptr) detail::report(hipMemUnmap(address_, bytes_), "hipMemUnmap");
}

mapping& mapping::operator=(mapping&& other) noexcept {
  mapping moved{std::move(other)};
  std::swap(address_, moved.address_);
  std::swap(bytes_, moved.bytes_);
  return *this;
}

void mapping::unmap() {
  if (address_ == nullptr) return;
  detail::check(hipMemUnmap(address_, bytes_), "hipMemUnmap");
  static_cast<void>(release());
}

void detail::unmap_range(void* address, std::size_t bytes) {
  check(hipMemUnmap(address, bytes), "hipMemUnmap");
}

}  // namespace hipvmm
