// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/aligned_resource_adaptor.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"

namespace hipvmm::mr {

aligned_resource_adaptor::aligned_resource_adaptor(memory_resource* upstream, std::size_t alignment,
                                                   std::size_t alignment_threshold)
    : resource_adaptor{"aligned_resource_adaptor", upstream},
      alignment_{alignment},
      alignment_threshold_{alignment_threshold} {
  if (!is_power_of_two(alignment))
    throw std::invalid_argument{"aligned_resource_adaptor: the alignment " +
                                std::to_string(alignment) + " must be a power of two"};
}

void* aligned_resource_adaptor::do_allocate_any(const request& wanted) {
  const request larger = upstream_request(wanted);
  void* const base = resource_adaptor::do_allocate_any(larger);
  const std::size_t aligned = alignment_of(wanted.bytes, wanted.alignment);
  if (aligned <= default_alignment) return base;
  void* const pointer =
      static_cast<char*>(base) + (-reinterpret_cast<std::uintptr_t>(base) & (aligned - 1));
  const block given{base, larger.bytes, larger.alignment};
  try {
    const std::lock_guard held{lock_};
    moved_.insert_or_assign(pointer, given);
  } catch (...) {
    resource_adaptor::do_deallocate_any(base, larger);
    throw;
  }
  return pointer;
}

void aligned_resource_adaptor::do_deallocate_any(void* pointer, const request& freed) noexcept {
  if (const auto given = take(pointer, freed))
    resource_adaptor::do_deallocate_any(given->pointer,
                                        {freed.stream, given->bytes, given->alignment});
}

std::size_t aligned_resource_adaptor::alignment_of(std::size_t bytes,
                                                   std::size_t alignment) const noexcept {
  return bytes < alignment_threshold_ ? alignment : std::max(alignment, alignment_);
}

resource_adaptor::request aligned_resource_adaptor::upstream_request(
    const request& wanted) const noexcept {
  const std::size_t aligned = alignment_of(wanted.bytes, wanted.alignment);
  if (aligned <= default_alignment) return wanted;
  // Every upstream refuses such a size.
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  if (aligned > most / 4 || wanted.bytes > most - 2 * aligned)
    return {wanted.stream, most, default_alignment};
  const std::size_t rounded = (wanted.bytes + aligned - 1) & ~(aligned - 1);
  return {wanted.stream, rounded + aligned - default_alignment, default_alignment};
}

std::optional<aligned_resource_adaptor::block> aligned_resource_adaptor::take(
    void* pointer, const request& freed) noexcept {
  const request expected = upstream_request(freed);
  std::optional<block> given;
  {
    const std::lock_guard held{lock_};
    const auto found = moved_.find(pointer);
    if (found != moved_.end()) {
      given = found->second;
      moved_.erase(found);
    }
  }
  const bool is_plain = alignment_of(freed.bytes, freed.alignment) <= default_alignment;
  if (!given && is_plain) return block{pointer, freed.bytes, freed.alignment};
  if (given && !is_plain && given->bytes == expected.bytes) return given;
  detail::report_exceptions([&] {
    throw std::logic_error{
        "aligned_resource_adaptor: " + std::to_string(freed.bytes) +
        " bytes with an alignment of " + std::to_string(freed.alignment) +
        (given ? " are freed at an address allocated with another size or alignment: the upstream "
                 "frees its allocation there"
               : " are freed at an address that was not allocated with them: nothing was freed") +
        "; free memory with the size and alignment it was allocated with"};
  });
  return given;
}

}  // namespace hipvmm::mr
