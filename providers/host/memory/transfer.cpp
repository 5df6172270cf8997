// SPDX-License-Identifier: MIT
#include "memory/transfer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "base/failure.hpp"
#include "memory/address.hpp"
#include "memory/managed_pages.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr std::size_t slice_bytes = std::size_t{1} << 20U;

access_request request_for(const device_access& by, const endpoint& side, right needed) {
  return {needed, side.device,
          side.staged ? ~device_set{0} : only(side.device) | by.peers.enabled_by(side.device)};
}

struct use {
  right needed;
  int device;
};

void touch(const device_access& access, managed_pages& pages, address start, std::size_t bytes,
           const use& by) {
  const device_set reach = access.peers.linked_to(by.device);
  try {
    pages.change(start, bytes,
                 [&by, reach](page_state& page) { page.touch(by.device, reach, by.needed); });
  } catch (const std::bad_alloc&) {
    throw failure{hipErrorOutOfMemory};
  }
}

address_map::pin hold(const device_access& by, const endpoint& side, right needed,
                      std::size_t offset, std::size_t bytes, bool from_end = false) {
  // The caller keeps memory that was pageable at submission until the work has run.
  if (side.where == memory_class::pageable) {
    return {by.memory, nullptr, needed, bytes};
  }
  address_map::pin held =
      by.memory.hold(side.start + offset, bytes, request_for(by, side, needed), from_end);
  if (managed_pages* const pages = held.managed()) {
    // Managed memory is one tracked_range, so all requested bytes are held.
    touch(by, *pages, side.start + offset, bytes, {needed, side.device});
  }
  return held;
}

/// Makes the pages of a range by one call, because a fault for each of them takes longer. If the
/// call is refused, as before Linux 5.14, a touch makes each.
void make_present(address start, std::size_t bytes, int advice) noexcept {
  constexpr std::size_t worth_a_call = std::size_t{16} << 10U;
  if (bytes < worth_a_call) return;
  static const auto page_bytes = static_cast<address>(sysconf(_SC_PAGESIZE));
  const address first = start - start % page_bytes;
  static_cast<void>(madvise(pointer_to(first), start + bytes - first, advice));
}

void move_bytes(const address_map::pin& to, address destination, const address_map::pin& from,
                address source) {
  if (!to.seen()) return;
  to.write_at(destination, [&](address target) {
    make_present(target, from.bytes(), MADV_POPULATE_WRITE);
    if (from.seen()) {
      make_present(from.read_at(source), from.bytes(), MADV_POPULATE_READ);
      std::memmove(pointer_to(target), pointer_to(from.read_at(source)), from.bytes());
    } else {
      std::memset(pointer_to(target), 0, from.bytes());
    }
  });
}

struct piece_copy {
  endpoint destination;
  endpoint source;
  std::size_t bytes;
};

void copy_forwards(const device_access& by, const piece_copy& work) {
  for (std::size_t done = 0; done < work.bytes;) {
    const std::size_t wanted = std::min(slice_bytes, work.bytes - done);
    const address_map::pin to = hold(by, work.destination, right::write, done, wanted);
    const address_map::pin from = hold(by, work.source, right::read, done, to.bytes());
    move_bytes(to, work.destination.start + done, from, work.source.start + done);
    done += from.bytes();
  }
}

void copy_backwards(const device_access& by, const piece_copy& work) {
  for (std::size_t left = work.bytes; left > 0;) {
    const std::size_t wanted = std::min(slice_bytes, left);
    const address_map::pin to =
        hold(by, work.destination, right::write, left - wanted, wanted, true);
    const address_map::pin from =
        hold(by, work.source, right::read, left - to.bytes(), to.bytes(), true);
    left -= from.bytes();
    move_bytes(to, work.destination.start + left, from, work.source.start + left);
  }
}

void copy_piece(const device_access& by, const piece_copy& work) {
  const address to = work.destination.start;
  const address from = work.source.start;
  if (to > from && to - from < work.bytes) {
    copy_backwards(by, work);
  } else {
    copy_forwards(by, work);
  }
}

template <class Element>
void fill_elements(address start, std::uint32_t pattern, std::size_t count) {
  std::fill_n(static_cast<Element*>(pointer_to(start)), count, static_cast<Element>(pattern));
}

void fill_slice(address start, const fill_request& work, std::size_t bytes) {
  switch (work.width) {
    case 1:
      std::memset(pointer_to(start), static_cast<int>(work.pattern & 0xFFU), bytes);
      break;
    case 2:
      fill_elements<std::uint16_t>(start, work.pattern, bytes / 2);
      break;
    default:
      fill_elements<std::uint32_t>(start, work.pattern, bytes / 4);
      break;
  }
}

void fill_piece(const device_access& by, const endpoint& side, const fill_request& work) {
  const std::size_t bytes = work.count * work.width;
  for (std::size_t done = 0; done < bytes;) {
    const address_map::pin held =
        hold(by, side, right::write, done, std::min(slice_bytes, bytes - done));
    if (held.seen()) {
      held.write_at(side.start + done, [&](address target) {
        make_present(target, held.bytes(), MADV_POPULATE_WRITE);
        fill_slice(target, work, held.bytes());
      });
    }
    done += held.bytes();
  }
}

template <class Number>
std::uint64_t number_at(address at) noexcept {
  if (at % sizeof(Number) == 0) {
    return std::atomic_ref{*static_cast<Number*>(pointer_to(at))}.load(std::memory_order_acquire);
  }
  Number value{};
  std::memcpy(&value, pointer_to(at), sizeof(value));
  return value;
}

template <class Number>
void put_number(address at, std::uint64_t number) noexcept {
  const auto value = static_cast<Number>(number);
  if (at % sizeof(Number) == 0) {
    std::atomic_ref{*static_cast<Number*>(pointer_to(at))}.store(value, std::memory_order_release);
  } else {
    std::memcpy(pointer_to(at), &value, sizeof(value));
  }
}

std::uint64_t read_number(const device_access& by, const value_wait_request& work) {
  const address_map::pin held = hold(by, work.memory, right::read, 0, work.width);
  require(held.bytes() == work.width, hipErrorIllegalAddress);
  if (!held.seen()) return 0;
  const address at = held.read_at(work.memory.start);
  return work.width == 4 ? number_at<std::uint32_t>(at) : number_at<std::uint64_t>(at);
}

bool ends_in_memory(const endpoint& side, std::size_t bytes, const piece_grid& pieces) noexcept {
  address rows = 0;
  address slices = 0;
  address end = side.start;
  return !__builtin_mul_overflow(pieces.rows - 1, side.apart.row, &rows) &&
         !__builtin_mul_overflow(pieces.slices - 1, side.apart.slice, &slices) &&
         !__builtin_add_overflow(end, rows, &end) && !__builtin_add_overflow(end, slices, &end) &&
         !__builtin_add_overflow(end, bytes, &end);
}

}  // namespace

bool is_met(const value_wait_request& wait, std::uint64_t found) noexcept {
  switch (wait.condition) {
    case value_condition::at_least:
      return (found & wait.mask) >= wait.value;
    case value_condition::not_behind:
      return (((found & wait.mask) - wait.value) >> (8 * wait.width - 1) & 1U) == 0;
    case value_condition::equal:
      return (found & wait.mask) == wait.value;
    case value_condition::any_bit:
      return (found & wait.mask & wait.value) != 0;
    default:
      return (~(found | wait.value) & wait.mask) != 0;
  }
}

hipError_t perform(const device_access& by, const value_wait_request& work) {
  constexpr std::chrono::microseconds pause{50};
  try {
    while (!is_met(work, read_number(by, work))) std::this_thread::sleep_for(pause);
  } catch (const failure& error) {
    return error.code();
  }
  return hipSuccess;
}

hipError_t perform(const device_access& by, const value_write_request& work) {
  try {
    const address_map::pin held = hold(by, work.memory, right::write, 0, work.width);
    require(held.bytes() == work.width, hipErrorIllegalAddress);
    if (!held.seen()) return hipSuccess;
    held.write_at(work.memory.start, [&work](address at) {
      if (work.width == 4) {
        put_number<std::uint32_t>(at, work.value);
      } else {
        put_number<std::uint64_t>(at, work.value);
      }
    });
  } catch (const failure& error) {
    return error.code();
  }
  return hipSuccess;
}

bool allowed(const device_access& by, const endpoint& side, right needed, std::size_t bytes,
             const piece_grid& pieces) {
  if (!ends_in_memory(side, bytes, pieces)) return false;
  for (std::size_t slice = 0; slice < pieces.slices; ++slice) {
    for (std::size_t row = 0; row < pieces.rows; ++row) {
      const endpoint piece = side.at_piece(row, slice);
      // Memory after the end of HIP's memory is not the host's.
      if (side.where != memory_class::pageable &&
          by.memory.classify(piece.start) == memory_class::pageable)
        return false;
      if (!by.memory.allows(piece.start, bytes, request_for(by, piece, needed))) return false;
    }
  }
  return true;
}

hipError_t perform(const device_access& by, const copy_request& work) {
  try {
    for_each_piece(work.pieces, [&](std::size_t row, std::size_t slice) {
      copy_piece(by, {work.destination.at_piece(row, slice), work.source.at_piece(row, slice),
                      work.bytes});
    });
  } catch (const failure& error) {
    return error.code();
  }
  return hipSuccess;
}

hipError_t perform(const device_access& by, const fill_request& work) {
  try {
    for_each_piece(work.pieces, [&](std::size_t row, std::size_t slice) {
      fill_piece(by, work.destination.at_piece(row, slice), work);
    });
  } catch (const failure& error) {
    return error.code();
  }
  return hipSuccess;
}

}  // namespace hipvmm::host_provider
