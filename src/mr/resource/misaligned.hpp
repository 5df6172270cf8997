// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::detail {

[[nodiscard]] inline bool is_aligned(const void* pointer, std::size_t alignment) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

[[noreturn]] inline void throw_misaligned(const char* resource, const char* giver,
                                          std::size_t alignment) {
  throw std::invalid_argument{std::string{resource} + ": " + giver +
                              " gave an address that is no multiple of the alignment " +
                              std::to_string(alignment) + "; ask for at most " +
                              std::to_string(mr::memory_resource::default_alignment) +
                              ", or put an aligned_resource_adaptor over it"};
}

}  // namespace hipvmm::detail
