// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/address_reservation.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/check.hpp"
#include "core/driver_calls.hpp"
#include "runtime/host_function.hpp"
#include "runtime/runtime_rules.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/chunk_cache.hpp"
#include "vmm/chunk_limit.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm {
namespace {

// HIP takes the granularity of a reservation from its first device.
constexpr device_ref reference_device{0};

// hipMemAddressFree of clr up to 6.4 frees the addresses before it forgets them: a reservation that
// gets them in between is forgotten in its stead, and mapping there does nothing. So these two
// calls exclude each other in the process. The last lock of all: nothing else is called under it.
std::mutex& address_calls_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::atomic<std::size_t> reserved_count{0};
std::atomic<std::size_t> reserved_bytes{0};

hipError_t count_if(hipError_t result, std::size_t count, std::size_t bytes) noexcept {
  if (result != hipSuccess) return result;
  reserved_count += count;
  reserved_bytes += bytes;
  return result;
}

hipError_t reserve_addresses(void** base, std::size_t bytes, std::size_t alignment, void* hint) {
  const std::lock_guard lock{address_calls_mutex()};
  return count_if(detail::timed{detail::memory_call::address_reserve}(
                      hipMemAddressReserve(base, bytes, alignment, hint, 0)),
                  1, bytes);
}

// Longest wait for HIP's own thread, which a host function of the program may occupy.
constexpr std::chrono::milliseconds handler_patience{1000};

// In clr up to 6.4 a command that used addresses holds their record until HIP's thread of signal
// handlers drops it, which is after events, streams and devices say that it is done. The record is
// dropped by its address: addresses that are freed before and reserved again lose the new one. The
// version decides, because the answer of a probe would be a matter of time.
// Returns whether it was one of these releases, and all was dropped.
bool await_late_records() noexcept {
  bool dropped = false;
  detail::report_exceptions([&dropped] {
    if (!detail::rules_of_runtime().wait_before_address_free) return;
    dropped = detail::outlast_handlers(reference_device, handler_patience);
    if (dropped) return;
    throw std::runtime_error{
        "addresses are freed while a host function has occupied HIP's thread for 1 s: on ROCm 6 "
        "their next reservation may be lost; let host functions end soon"};
  });
  return dropped;
}

// Ends the records of failed maps in freed addresses. Stops if others have the addresses by now.
void drop_failed_maps(void* base, std::size_t bytes, unsigned count) noexcept {
  for (void* again = base; count != 0 && again == base; --count) {
    again = nullptr;
    hipError_t result = hipMemAddressReserve(&again, bytes, 0, base, 0);
    if (result == hipSuccess && again != nullptr) result = hipMemAddressFree(again, bytes);
    if (result != hipSuccess) return detail::clear_last_error();
  }
}

hipError_t free_locked(void* base, std::size_t bytes, unsigned failed_maps) {
  // Modulo 2^64: adds the difference.
  const hipError_t result =
      count_if(detail::timed{detail::memory_call::address_free}(hipMemAddressFree(base, bytes)),
               ~std::size_t{0}, ~bytes + 1);
  if (result == hipSuccess) drop_failed_maps(base, bytes, failed_maps);
  return result;
}

hipError_t free_addresses(void* base, std::size_t bytes, unsigned failed_maps = 0) {
  static_cast<void>(await_late_records());
  const std::lock_guard lock{address_calls_mutex()};
  return free_locked(base, bytes, failed_maps);
}

// Reserves the start of freed addresses once more, in another size: HIP frees that only if it
// has no record of the first size. With such a record a granule stays reserved. Does nothing if
// others have the addresses by now.
void keep_start_if_recorded(void* base, std::size_t bytes) {
  const std::size_t unit = granularity_of(reference_device).minimum;
  const std::size_t other = bytes == unit ? 2 * unit : unit;
  void* again = nullptr;
  if (hipMemAddressReserve(&again, other, 0, base, 0) != hipSuccess) detail::clear_last_error();
  if (again == nullptr || hipMemAddressFree(again, other) == hipSuccess) return;
  detail::clear_last_error();
  detail::warn("hipMemAddressFree",
               format_bytes(other) + " of addresses at " + detail::address_text(again) +
                   " stay reserved, because HIP keeps a record of work there; ROCm 6 does so where "
                   "a stream was destroyed before anything waited for it: wait for a stream before "
                   "hipStreamDestroy");
}

// Linux looks for free addresses here last, or never, on processors with 47 bits of them or more:
// mmap goes down from the stack, and up from a third of the address space if the stack has no
// limit. Above the shadow of AddressSanitizer.
constexpr std::uintptr_t aside_begin = 0x1100'0000'0000;
constexpr std::uintptr_t aside_end = 0x2a00'0000'0000;
constexpr std::size_t aside_step = 1 * GiB;

/// The next of these addresses for so many bytes, not yet given by this function unless all were;
/// null if so many are not there.
void* next_aside(std::size_t bytes) {
  if (bytes > (aside_end - aside_begin) / 2) return nullptr;
  // A gap remains between any two. The first is as random as the stack.
  const std::size_t taken = align_up(bytes, aside_step) + aside_step;
  static std::atomic<std::uintptr_t> next{aside_begin + reinterpret_cast<std::uintptr_t>(&taken) /
                                                            16 % 4096 * aside_step};
  std::uintptr_t at = next.load(std::memory_order_relaxed);
  std::uintptr_t start = 0;
  do {
    start = aside_end - at < taken ? aside_begin : at;
  } while (!next.compare_exchange_weak(at, start + taken, std::memory_order_relaxed));
  return reinterpret_cast<void*>(start);
}

void require_valid(std::size_t bytes, std::size_t alignment) {
  if (alignment != 0 && !is_power_of_two(alignment))
    throw std::invalid_argument{"a reservation with alignment " + std::to_string(alignment) +
                                ": the alignment must be 0 or a power of two"};
  const std::size_t unit = granularity_of(reference_device).minimum;
  if (bytes == 0 || bytes % unit != 0)
    throw std::invalid_argument{"a reservation of " + std::to_string(bytes) +
                                " bytes: the size must be a multiple of the granularity, " +
                                std::to_string(unit) + " bytes, and not zero"};
}

}  // namespace

address_reservation::address_reservation(std::size_t bytes, std::size_t alignment, void* hint)
    : bytes_{bytes} {
  // ROCm 6 answers bad arguments and lack of addresses alike, so the arguments are checked first.
  require_valid(bytes, alignment);
  const hipError_t result = reserve_addresses(&base_, bytes, alignment, hint);
  if (result == hipErrorOutOfMemory) {
    detail::clear_last_error();
    throw out_of_memory{exhausted::addresses, reference_device.ordinal(), bytes, 0, {}};
  }
  detail::check(result, "hipMemAddressReserve");
  // ROCm before 6.1 succeeds on Linux and gives no addresses.
  if (base_ == nullptr)
    throw unsupported{
        "hipMemAddressReserve succeeded and gave no addresses: this HIP runtime "
        "offers no virtual memory management"};
  // ROCm up to 6.4 checks the alignment and then ignores it.
  if (alignment != 0 && reinterpret_cast<std::uintptr_t>(base_) % alignment != 0) {
    detail::report(free_addresses(base_, bytes), "hipMemAddressFree");
    base_ = nullptr;
    throw unsupported{"hipMemAddressReserve ignored the alignment " + std::to_string(alignment) +
                      "; ask for none, or reserve more and align within"};
  }
}

address_reservation::~address_reservation() {
  if (base_ == nullptr) return;
  detail::report(free_addresses(base_, bytes_, failed_maps_), "hipMemAddressFree");
}

address_reservation& address_reservation::operator=(address_reservation&& other) noexcept {
  address_reservation moved{std::move(other)};
  std::swap(base_, moved.base_);
  std::swap(bytes_, moved.bytes_);
  moved.failed_maps_ = failed_maps_.exchange(moved.failed_maps_);
  return *this;
}

void address_reservation::free() {
  if (base_ == nullptr) return;
  detail::check(free_addresses(base_, bytes_, failed_maps_), "hipMemAddressFree");
  failed_maps_ = 0;
  static_cast<void>(release());
}

detail::reserved_addresses detail::all_reserved() noexcept {
  return {reserved_count, reserved_bytes};
}

bool detail::can_reserve(std::size_t bytes) {
  void* base = nullptr;
  const std::lock_guard lock{address_calls_mutex()};
  const hipError_t result =
      timed{memory_call::address_reserve}(hipMemAddressReserve(&base, bytes, 0, nullptr, 0));
  if (result == hipErrorOutOfMemory) clear_last_error();
  if (result == hipErrorOutOfMemory || (result == hipSuccess && base == nullptr)) return false;
  check(result, "hipMemAddressReserve");
  check(timed{memory_call::address_free}(hipMemAddressFree(base, bytes)), "hipMemAddressFree");
  return true;
}

address_reservation detail::reserve_aside(std::size_t bytes) {
  return address_reservation{bytes, 0, next_aside(bytes)};
}

bool detail::free_or_report(address_reservation& addresses, bool is_waited_for) noexcept {
  if (addresses.empty()) return true;
  const bool records_stay = await_late_records() && is_waited_for;
  const std::size_t bytes = addresses.bytes();
  void* const base = addresses.release();
  const unsigned failed_maps = addresses.failed_maps_.exchange(0);
  bool freed = false;
  report_exceptions([&] {
    const std::lock_guard lock{address_calls_mutex()};
    check(free_locked(base, bytes, failed_maps), "hipMemAddressFree");
    freed = true;
    if (records_stay) keep_start_if_recorded(base, bytes);
  });
  return freed;
}

detail::renewal detail::renew(address_reservation& addresses) noexcept {
  static_cast<void>(await_late_records());
  void* const base = addresses.base_;
  const std::size_t bytes = addresses.bytes_;
  hipError_t result = hipSuccess;
  const char* call = "hipMemAddressFree";
  bool freed = false;
  {
    // No other thread of the library can take them meanwhile.
    const std::lock_guard lock{address_calls_mutex()};
    result = free_locked(base, bytes, addresses.failed_maps_);
    freed = result == hipSuccess;
    if (freed) {
      addresses.failed_maps_ = 0;
      call = "hipMemAddressReserve";
      addresses.base_ = nullptr;
      result = count_if(timed{memory_call::address_reserve}(
                            hipMemAddressReserve(&addresses.base_, bytes, 0, base, 0)),
                        1, bytes);
    }
  }
  report(result, call);
  if (addresses.base_ == base) return freed ? renewal::done : renewal::refused;
  if (addresses.base_ != nullptr)
    report(free_addresses(addresses.base_, bytes), "hipMemAddressFree");
  addresses.base_ = nullptr;
  addresses.bytes_ = 0;
  return renewal::lost;
}

void detail::note_failed_map(const address_reservation& addresses) noexcept {
  ++addresses.failed_maps_;
}

bool detail::chunk_pins::add(const physical_chunk& chunk) {
  set_pinned_chunk_keeper([](physical_chunk& dropped) {
    return kept_memory::keep_pinned(chunk_cache::shared(), dropped);
  });
  if (!chunk.charge_ || !charges_.insert(chunk.charge_).second) return false;
  ++chunk.charge_->pins;
  return true;
}

void detail::chunk_pins::remove(const physical_chunk& chunk) noexcept {
  if (charges_.erase(chunk.charge_) != 0) --chunk.charge_->pins;
}

void detail::chunk_pins::end() noexcept {
  if (charges_.empty()) return;
  for (const std::shared_ptr<chunk_charge>& each : charges_) --each->pins;
  charges_.clear();
  kept_memory::release_unpinned();
}

void detail::chunk_pins::stay() noexcept {
  if (charges_.empty()) return;
  // Never destroyed: the limit of the device counts the memory for good.
  struct lost_charges {
    decltype(charges_) charges;
    const lost_charges* before = nullptr;
  };
  static std::atomic<const lost_charges*> last{nullptr};
  if (auto* const lost = new (std::nothrow) lost_charges) {
    for (const auto& each : charges_) --each->pins;
    lost->charges.swap(charges_);
    lost->before = last.exchange(lost);
    kept_memory::release_unpinned();
  }
  end();  // of chunks that no list could take
}

}  // namespace hipvmm
