// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/device_allocation.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"
#include "core/driver_calls.hpp"
#include "core/logger.hpp"
#include "core/observers/memory_events.hpp"
#include "runtime/check_resources.hpp"
#include "runtime/device.hpp"
#include "runtime/device_gate.hpp"
#include "runtime/ends/refused_ends.hpp"

namespace hipvmm {

device_allocation::device_allocation(device_ref device, std::size_t bytes)
    : device_{device}, bytes_{bytes} {
  if (bytes == 0)
    throw std::invalid_argument{"an allocation of 0 bytes on device " +
                                std::to_string(device.ordinal()) + ": the size must be at least 1"};
  const scoped_device scope{device};
  void* pointer = nullptr;
  detail::check_resources(detail::timed{detail::memory_call::malloc}(hipMalloc(&pointer, bytes)),
                          "hipMalloc", device, bytes);
  pointer_ = pointer;
  detail::note_memory_change(device.ordinal(), static_cast<std::int64_t>(bytes));
  detail::log<log_level::trace>([&] {
    return "hipMalloc gave " + format_bytes(bytes) + " of device " +
           std::to_string(device.ordinal());
  });
}

device_allocation::~device_allocation() {
  if (pointer_ == nullptr || process_.is_of_parent()) return;
  const auto free_it = [pointer = pointer_, device = device_.ordinal(), bytes = bytes_] {
    hipError_t freed = hipSuccess;
    {
      const detail::device_wait counted{device};
      freed = detail::timed{detail::memory_call::free}(hipFree(pointer));
    }
    if (!detail::is_released(freed)) return freed;
    detail::note_memory_change(device, -static_cast<std::int64_t>(bytes));
    detail::log<log_level::trace>([&] {
      return "hipFree took " + format_bytes(bytes) + " of device " + std::to_string(device) +
             " back";
    });
    return freed;
  };
  // Lost memory stays counted.
  static_cast<void>(detail::release_or_keep(free_it, "hipFree", true));
}

device_allocation& device_allocation::operator=(device_allocation&& other) noexcept {
  device_allocation moved{std::move(other)};
  std::swap(pointer_, moved.pointer_);
  std::swap(device_, moved.device_);
  std::swap(process_, moved.process_);
  std::swap(bytes_, moved.bytes_);
  return *this;
}

namespace {

struct wait_counts {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> ended{0};
};

std::array<wait_counts, 64> waits_of_devices;  // devices whose ordinals differ by 64 share one
std::atomic<std::uint64_t> waits_ended{0};     // of all

wait_counts& waits_of(int ordinal) noexcept {
  return waits_of_devices[static_cast<unsigned>(ordinal) % waits_of_devices.size()];
}

class counted_wait {
 public:
  explicit counted_wait(device_ref device) noexcept : counts_{waits_of(device.ordinal())} {
    ++counts_.begun;
  }
  ~counted_wait() {
    ++waits_ended;
    ++counts_.ended;
    counts_.ended.notify_all();
  }
  counted_wait& operator=(counted_wait&&) = delete;

 private:
  wait_counts& counts_;
};

}  // namespace

bool detail::wait_by_free(device_ref device) {
  const counted_wait known{device};
  return wait_by_release(
      device, [](void** pointer) { return hipMalloc(pointer, bytes_of_wait_by_free); }, "hipMalloc",
      [](void* pointer) { return hipFree(pointer); }, "hipFree");
}

std::uint64_t detail::waits_by_free() noexcept { return waits_ended; }

bool detail::outlast_wait_by_free(const shortage& of) noexcept {
  constexpr std::size_t most_of_a_wait = 2 * MiB;  // a driver's granule
  if (of.cause != exhausted::device_memory || of.requested == 0 ||
      of.requested > of.available + most_of_a_wait)
    return false;
  const wait_counts& counts = waits_of(of.device);
  const std::uint64_t ended = counts.ended;
  if (ended == counts.begun) return false;
  counts.ended.wait(ended);
  return true;
}

}  // namespace hipvmm
