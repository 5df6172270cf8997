// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"

namespace hipvmm::mr {

limiting_resource_adaptor::limiting_resource_adaptor(memory_resource* upstream,
                                                     std::size_t allocation_limit,
                                                     std::size_t alignment)
    : resource_adaptor{"limiting_resource_adaptor", upstream},
      allocation_limit_{allocation_limit},
      alignment_{alignment} {
  if (!is_power_of_two(alignment))
    throw std::invalid_argument{"limiting_resource_adaptor: the alignment " +
                                std::to_string(alignment) + " must be a power of two"};
}

void* limiting_resource_adaptor::do_allocate_any(const request& wanted) {
  const std::size_t size = counted(wanted.bytes);
  const std::size_t limit = allocation_limit_;
  // In one step: a sum that is reduced afterwards would refuse other requests meanwhile.
  std::size_t taken = allocated_bytes_;
  do {
    if (size > limit - taken)
      throw out_of_memory{shortage{.cause = exhausted::limit,
                                   .device = device().value_or(device_ref{-1}).ordinal(),
                                   .requested = wanted.bytes,
                                   .available = limit - taken,
                                   .owner = "limiting_resource_adaptor::allocation_limit",
                                   .most = limit,
                                   .used = taken,
                                   .context = "the adaptor allows " + format_limit(limit) +
                                              " at most, of which " + format_bytes(taken) +
                                              " are in use"}};
  } while (!allocated_bytes_.compare_exchange_weak(taken, taken + size));
  try {
    return resource_adaptor::do_allocate_any(wanted);
  } catch (...) {
    take_off(size);
    throw;
  }
}

// A size without such a multiple counts as the largest, which the upstream refuses.
std::size_t limiting_resource_adaptor::counted(std::size_t bytes) const noexcept {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return bytes > most - (alignment_ - 1) ? most : (bytes + alignment_ - 1) & ~(alignment_ - 1);
}

// Never below zero, which would be a limit of everything: wrong sizes are the callers'.
std::size_t limiting_resource_adaptor::take_off(std::size_t bytes) noexcept {
  std::size_t out = allocated_bytes_;
  while (!allocated_bytes_.compare_exchange_weak(out, out - std::min(bytes, out))) {
  }
  return out;
}

// It counts until the upstream has it, which would else be asked for more than the limit.
void limiting_resource_adaptor::do_deallocate_any(void* pointer, const request& freed) noexcept {
  resource_adaptor::do_deallocate_any(pointer, freed);
  const std::size_t size = counted(freed.bytes);
  const std::size_t out = take_off(size);
  if (size <= out) return;
  detail::report_exceptions([&] {
    throw std::logic_error{"limiting_resource_adaptor: " + std::to_string(freed.bytes) +
                           " bytes are freed while " + std::to_string(out) +
                           " were in use: free memory in the resource that allocated it, with "
                           "the size of the request"};
  });
}

}  // namespace hipvmm::mr
