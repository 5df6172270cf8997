// SPDX-License-Identifier: MIT
#include <hipvmm/region/retained_chunk.hpp>

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/error.hpp"
#include "runtime/pointer_memory.hpp"
#include "strategy/memory_strategy.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm {
namespace {

constexpr const char* not_of_a_chunk =
    "memory of hipMalloc, of a pool or of the host, which is in no chunk";

[[noreturn]] void throw_no_chunk(const void* address, const std::string& what) {
  throw std::invalid_argument{"retain_chunk: at " + detail::address_text(address) + " is " + what +
                              ": name an address that hipMemMap backed"};
}

/// Throws: std::invalid_argument if no mapping can be at `address`.
device_ref device_at(const void* address) {
  const detail::pointer_memory found = detail::memory_at(address);
  switch (found.kind) {
    case detail::pointer_kind::unknown:
      throw_no_chunk(address, "no memory of HIP");
    case detail::pointer_kind::managed:
      throw_no_chunk(address, "managed memory, which is in no chunk");
    case detail::pointer_kind::no_answer:
      throw_no_chunk(address, "memory of which HIP reports nothing");
    case detail::pointer_kind::device:
    case detail::pointer_kind::pinned:
      break;
  }
  return found.device;
}

void require_retaining(device_ref device) {
  const capability known = capability_of(device);
  if (known.path() == memory_path::fallback)
    throw unsupported{"retain_chunk: device " + std::to_string(device.ordinal()) +
                      " offers no virtual memory management that can be used: " +
                      known.why_fallback() + "; copy instead"};
  const detail::memory_strategy strategy{{{device, known}}};
  strategy.retained_chunks.require("retain_chunk", "; let the owner export it, or copy");
  strategy.second_address.require("retain_chunk", "; copy instead");
}

/// Whether hipMemMap backed the address; on CUDA also true of cudaMalloc. To be checked before a
/// retain, because HIP may crash on memory of other kinds.
bool is_mapped(const void* address, device_ref device) {
  unsigned long long flags = 0;
  const hipError_t result = detail::query_access(address, device, flags);
  if (result == hipErrorInvalidValue) {
    detail::clear_last_error();
    return false;
  }
  detail::check(result, "hipMemGetAccess");
  return true;
}

}  // namespace

retained_chunk retain_chunk(const void* address) {
  if (address == nullptr) throw_no_chunk(address, "no memory");
  const device_ref device = device_at(address);
  require_retaining(device);
  if (!is_mapped(address, device)) throw_no_chunk(address, not_of_a_chunk);

  const void* base = nullptr;
  std::size_t bytes = 0;
  detail::check(detail::query_range(address, base, bytes), "hipMemGetAddressRange");
  const std::size_t unit = granularity_of(device).minimum;
  physical_chunk held;
  const auto retain = [&] { held = detail::retain_at(address, device, unit); };
  if (detail::refusal_of(hipErrorInvalidValue, retain)) throw_no_chunk(address, not_of_a_chunk);
  const auto is_part = [&](const char* at) {
    return is_mapped(at, device) && detail::retain_at(at, device, unit).get() == held.get();
  };
  const char* start = static_cast<const char*>(base);
  const char* end = start + bytes;
  if (!is_part(start) || !is_part(end - 1)) {
    // The range has other chunks too: finds the ends of this one granule by granule.
    const char* const first = start;
    const char* const last = end;
    start = static_cast<const char*>(address) - reinterpret_cast<std::uintptr_t>(address) % unit;
    end = start + unit;
    while (start > first && is_part(start - unit)) start -= unit;
    while (end < last && is_part(end)) end += unit;
  }
  return {start, detail::retain_at(start, device, static_cast<std::size_t>(end - start))};
}

std::vector<retained_chunk> retain_chunks(const void* address, std::size_t bytes) {
  if (bytes == 0)
    throw std::invalid_argument{"retain_chunks: 0 bytes from " + detail::address_text(address) +
                                " on: name at least one"};
  if (bytes > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(address))
    throw std::invalid_argument{"retain_chunks: " + std::to_string(bytes) + " bytes from " +
                                detail::address_text(address) +
                                " on reach past the end of all addresses: name fewer"};
  std::vector<retained_chunk> result;
  const char* const end = static_cast<const char*>(address) + bytes;
  for (const char* next = static_cast<const char*>(address); next < end;) {
    result.push_back(retain_chunk(next));
    next = static_cast<const char*>(result.back().address) + result.back().chunk.bytes();
  }
  return result;
}

}  // namespace hipvmm
