// SPDX-License-Identifier: MIT
#include "vmm/region_allocation.hpp"

#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/copy.hpp>
#include <hipvmm/core/error.hpp>
#include "vmm/device_work.hpp"
#include "vmm/retirement.hpp"

namespace hipvmm {
region::allocated::allocated(device_ref owner, std::size_t max_bytes, const region_options& chosen,
                             const capability& found)
    : state{owner, unit_of(found).minimum}, limit{align_up(max_bytes, granularity)} {
  if (chosen.shareable != handle_type::none)
    throw unsupported{"region_options::shareable: the memory of device " +
                      std::to_string(owner.ordinal()) +
                      " comes from hipMalloc and has no chunks to export, for " +
                      found.why_fallback() + "; set it to handle_type::none and share copies"};
}

region::allocated::~allocated() { detail::give_back(std::move(memory)); }

void region::allocated::commit(std::size_t offset, std::size_t bytes) {
  const std::size_t needed = offset + bytes;
  if (bytes == 0 || needed <= committed) return;
  device_allocation larger = allocate_or_explain(needed);
  if (!memory.empty()) {
    try {
      const stream own{device};
      // Work in flight may write to the old bytes.
      detail::wait_for_users(rights);
      carry_over(larger, committed, own);
    } catch (...) {
      detail::give_back(std::move(larger), detail::devices_of(rights));
      throw;
    }
  }
  replace(std::move(larger));
}

std::size_t region::allocated::decommit(std::size_t offset, std::size_t bytes) {
  if (offset != 0 || bytes < committed) return 0;
  const std::size_t returned = committed;
  replace({});
  return returned;
}

void region::allocated::move_chunk(std::size_t, std::size_t) {
  throw unsupported{"region::move_chunk: the memory of device " + std::to_string(device.ordinal()) +
                    " comes from hipMalloc and has no chunks"};
}

void region::allocated::end_move(std::size_t) {
  throw std::invalid_argument{"region::end_move: nothing moves in memory of hipMalloc"};
}

void region::allocated::grant(device_ref to, access_right right) {
  access_map next = rights;
  next.set(to, right);
  if (right == access_right::read || (to == device && right == access_right::none))
    throw unsupported{
        "region::grant: the memory of device " + std::to_string(device.ordinal()) +
        " comes from hipMalloc, which its own device may always read and write and "
        "others may both read and write or neither; ask for access_right::read_write, or "
        "leave the right as it is"};
  if (right == access_right::read_write) to.enable_peer_access(device);
  rights = std::move(next);
}

std::size_t region::allocated::trim(std::size_t bytes, stream_ref stream,
                                    straddling_chunk straddling) {
  const std::size_t kept = align_up(bytes, granularity);
  const std::size_t before = committed;
  if (kept == 0) {
    give_all_back(stream);
  } else if (straddling == straddling_chunk::replace && committed > kept &&
             committed - kept > kept / 8) {
    shorten_to(kept, stream);
  }
  return before - committed;
}

void region::allocated::give_all_back(stream_ref stream) {
  if (memory.empty()) return;
  std::optional<event> mark;
  detail::device_list devices;
  if (!stream.is_done()) {
    devices = detail::devices_of(rights);
    mark = detail::mark_in(stream, devices);
    if (!mark) stream.synchronize();
  }
  if (!detail::retire_allocation(memory, std::move(mark), std::move(devices))) stream.synchronize();
  replace({});
}

void region::allocated::shorten_to(std::size_t kept, stream_ref stream) {
  device_allocation smaller;
  try {
    smaller = device_allocation{device, kept};
  } catch (const out_of_memory&) {
    return;
  }
  try {
    carry_over(smaller, kept, stream);
  } catch (...) {
    detail::give_back(std::move(smaller), detail::devices_of(rights));
    throw;
  }
  replace(std::move(smaller));
}

bool region::allocated::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  const void* const before = memory.get();
  commit(0, commit_bytes);
  limit = max_bytes;
  return memory.get() != before;
}

bool region::allocated::retire_all() noexcept {
  if (memory.empty()) return true;
  try {
    return detail::retire_allocation(memory, std::nullopt, detail::devices_of(rights));
  } catch (const std::bad_alloc&) {
    return false;
  }
}

device_allocation region::allocated::allocate_or_explain(std::size_t bytes) const {
  try {
    return detail::make_with_reclaim([&] { return device_allocation{device, bytes}; });
  } catch (const out_of_memory& error) {
    throw out_of_memory{error, "the region holds " + format_bytes(committed) +
                                   " of hipMalloc, which must stay until they are copied to a "
                                   "larger allocation, and stays as it was"};
  }
}

void region::allocated::carry_over(const device_allocation& to, std::size_t bytes,
                                   stream_ref stream) const {
  copy_async(stream, to.get(), memory.get(), bytes);
  stream.synchronize();
}

void region::allocated::replace(device_allocation next) noexcept {
  std::swap(memory, next);
  committed = memory.bytes();
  detail::give_back(std::move(next));
}

}  // namespace hipvmm
