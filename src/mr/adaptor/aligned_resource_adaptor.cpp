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

void* aligned_resource_adaptor::do_allocate(stream_ref stream, std::size_t bytes,
                                            std::size_t alignment) {
  block given = asked_for(bytes, alignment);
  given.pointer = resource_adaptor::do_allocate(stream, given.bytes, given.alignment);
  try {
    return place(given, bytes, alignment);
  } catch (...) {
    resource_adaptor::do_deallocate(stream, given.pointer, given.bytes, given.alignment);
    throw;
  }
}

void aligned_resource_adaptor::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                             std::size_t alignment) noexcept {
  if (const auto given = take(pointer, bytes, alignment))
    resource_adaptor::do_deallocate(stream, given->pointer, given->bytes, given->alignment);
}

void* aligned_resource_adaptor::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  block given = asked_for(bytes, alignment);
  given.pointer = resource_adaptor::do_allocate_sync(given.bytes, given.alignment);
  try {
    return place(given, bytes, alignment);
  } catch (...) {
    resource_adaptor::do_deallocate_sync(given.pointer, given.bytes, given.alignment);
    throw;
  }
}

void aligned_resource_adaptor::do_deallocate_sync(void* pointer, std::size_t bytes,
                                                  std::size_t alignment) noexcept {
  if (const auto given = take(pointer, bytes, alignment))
    resource_adaptor::do_deallocate_sync(given->pointer, given->bytes, given->alignment);
}

std::size_t aligned_resource_adaptor::alignment_of(std::size_t bytes,
                                                   std::size_t alignment) const noexcept {
  return bytes < alignment_threshold_ ? alignment : std::max(alignment, alignment_);
}

aligned_resource_adaptor::block aligned_resource_adaptor::asked_for(
    std::size_t bytes, std::size_t alignment) const noexcept {
  const std::size_t wanted = alignment_of(bytes, alignment);
  if (wanted <= default_alignment) return {nullptr, bytes, alignment};
  // A request without such a size exceeds every upstream.
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  if (wanted > most / 4 || bytes > most - 2 * wanted) return {nullptr, most, default_alignment};
  const std::size_t rounded = (bytes + wanted - 1) & ~(wanted - 1);
  return {nullptr, rounded + wanted - default_alignment, default_alignment};
}

void* aligned_resource_adaptor::place(const block& given, std::size_t bytes,
                                      std::size_t alignment) {
  const std::size_t wanted = alignment_of(bytes, alignment);
  if (wanted <= default_alignment) return given.pointer;
  const auto address = reinterpret_cast<std::uintptr_t>(given.pointer);
  void* const pointer = static_cast<char*>(given.pointer) + (-address & (wanted - 1));
  const std::lock_guard held{lock_};
  moved_.insert_or_assign(pointer, given);
  return pointer;
}

std::optional<aligned_resource_adaptor::block> aligned_resource_adaptor::take(
    void* pointer, std::size_t bytes, std::size_t alignment) noexcept {
  block expected = asked_for(bytes, alignment);
  expected.pointer = pointer;
  std::optional<block> given;
  {
    const std::lock_guard held{lock_};
    const auto found = moved_.find(pointer);
    if (found != moved_.end()) {
      given = found->second;
      moved_.erase(found);
    }
  }
  const bool is_plain = alignment_of(bytes, alignment) <= default_alignment;
  if (!given && is_plain) return expected;
  if (given && !is_plain && given->bytes == expected.bytes) return given;
  detail::report_exceptions([&] {
    throw std::logic_error{
        "aligned_resource_adaptor: " + std::to_string(bytes) + " bytes with an alignment of " +
        std::to_string(alignment) +
        (given ? " are freed at an address allocated with another size or alignment: the upstream "
                 "frees its allocation there"
               : " are freed at an address that was not allocated with them: nothing was freed") +
        "; free memory with the size and alignment it was allocated with"};
  });
  return given;
}

}  // namespace hipvmm::mr
