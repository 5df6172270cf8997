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

/// A request's share of the limit; returned unless the request is served.
class limiting_resource_adaptor::share {
 public:
  share(limiting_resource_adaptor& of, std::size_t bytes) : of_{of}, bytes_{of.counted(bytes)} {
    const std::size_t limit = of.allocation_limit_;
    // In one step: a sum that is reduced afterwards would refuse other requests meanwhile.
    std::size_t taken = of.allocated_bytes_;
    do {
      if (bytes_ > limit - taken)
        throw out_of_memory{shortage{.cause = exhausted::limit,
                                     .device = of.device().value_or(device_ref{-1}).ordinal(),
                                     .requested = bytes,
                                     .available = limit - taken,
                                     .owner = "limiting_resource_adaptor::allocation_limit",
                                     .most = limit,
                                     .used = taken,
                                     .context = "the adaptor allows " + format_limit(limit) +
                                                " at most, of which " + format_bytes(taken) +
                                                " are in use"}};
    } while (!of.allocated_bytes_.compare_exchange_weak(taken, taken + bytes_));
  }
  ~share() { of_.take_off(bytes_); }
  share& operator=(share&&) = delete;

  void keep() noexcept { bytes_ = 0; }

 private:
  limiting_resource_adaptor& of_;
  std::size_t bytes_;
};

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
  share taken{*this, wanted.bytes};
  void* const pointer = resource_adaptor::do_allocate_any(wanted);
  taken.keep();
  return pointer;
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
