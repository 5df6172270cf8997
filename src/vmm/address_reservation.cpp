// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/address_reservation.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/check.hpp"
#include "core/driver_calls.hpp"
#include "core/error.hpp"
#include "runtime/ends/refused_ends.hpp"
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

// hipMemAddressFree of clr up to 6.4 frees addresses before it forgets them, and then forgets a
// reservation that got them in between: the two calls exclude each other. The last lock of all:
// under it only hipRuntimeGetVersion is called, once.
constinit std::mutex address_calls_mutex;

std::atomic<std::size_t> reserved_count{0};
std::atomic<std::size_t> reserved_bytes{0};

// The longest wait for HIP's own thread, which a host function of the program may occupy.
constexpr std::chrono::milliseconds handler_patience{1000};

// In clr up to 6.4 a command holds the record of its addresses until HIP's thread of signal
// handlers drops it, later than the command is reported as done. HIP finds the record by its
// address, and drops that of a new reservation. The version decides, because a probe's answer would
// be a matter of time. Returns whether it was one of these releases, and all was dropped.
bool wait_for_address_records() noexcept {
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

bool is_forgotten(hipError_t refusal) noexcept {
  if (refusal != hipErrorUnknown) return false;
  try {
    return detail::rules_of_runtime().forgets_refused_addresses;
  } catch (...) {
    return true;  // then they stay reserved
  }
}

class refused_addresses final : public detail::refused_end {
 public:
  explicit refused_addresses(address_reservation&& refused) noexcept
      : addresses_{std::move(refused)} {}

 private:
  bool end(bool /*reports*/) noexcept override;

  address_reservation addresses_;
};

// If the host's memory is short, the addresses stay reserved.
void keep_refused(address_reservation&& addresses) noexcept {
  if (addresses.empty()) return;
  if (auto* const kept = new (std::nothrow) refused_addresses{std::move(addresses)})
    detail::refused_end::keep(std::unique_ptr<detail::refused_end>{kept});
  else  // without memory nothing was moved: NOLINTNEXTLINE(bugprone-use-after-move)
    static_cast<void>(addresses.release());
}

// Reserves the start of freed addresses in another size, which HIP frees only if it has no record
// of the first size. Else a granule stays reserved, unless others have the addresses.
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

// Linux looks here last, or never, on processors with 47 bits of addresses or more: mmap goes down
// from the stack, or up from a third of the space. Above the shadow of AddressSanitizer.
constexpr std::uintptr_t aside_begin = 0x1100'0000'0000;
constexpr std::uintptr_t aside_end = 0x2a00'0000'0000;
constexpr std::size_t aside_step = 1 * GiB;

/// Starts as random as the stack.
std::atomic<std::uintptr_t>& next_free_aside() noexcept {
  const char here = 0;
  static std::atomic<std::uintptr_t> next{aside_begin + reinterpret_cast<std::uintptr_t>(&here) /
                                                            16 % 4096 * aside_step};
  return next;
}

/// Leaves a gap between any two.
std::size_t step_aside(std::size_t bytes) noexcept {
  return align_up(bytes, aside_step) + aside_step;
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

/// Under address_calls_mutex.
struct detail::address_calls {
  /// Pre: `into` is empty.
  static hipError_t reserve(address_reservation& into, std::size_t bytes, std::size_t alignment,
                            void* hint) noexcept {
    const hipError_t result = timed{memory_call::address_reserve}(
        hipMemAddressReserve(&into.base_, bytes, alignment, hint, 0));
    if (result != hipSuccess) into.base_ = nullptr;
    if (into.base_ == nullptr) return result;
    into.bytes_ = bytes;
    ++reserved_count;
    reserved_bytes += bytes;
    return result;
  }
  /// If HIP has lost its record, `addresses` are empty and still counted.
  static hipError_t free(address_reservation& addresses) noexcept {
    const std::size_t bytes = addresses.bytes_;
    const hipError_t result =
        timed{memory_call::address_free}(hipMemAddressFree(addresses.base_, bytes));
    if (result != hipSuccess) {
      if (is_forgotten(result)) static_cast<void>(addresses.release());
      return result;
    }
    --reserved_count;
    reserved_bytes -= bytes;
    drop_failed_maps(addresses.release(), bytes, addresses.failed_maps_.exchange(0));
    return result;
  }

 private:
  // For note_failed_map(). Stops if others have the addresses by now.
  static void drop_failed_maps(void* base, std::size_t bytes, unsigned count) noexcept {
    for (void* at = base; count != 0 && at == base; --count) {
      address_reservation again;
      hipError_t result = reserve(again, bytes, 0, base);
      at = again.get();
      if (!again.empty()) result = free(again);
      keep_refused(std::move(again));
      if (result != hipSuccess) return clear_last_error();
    }
  }
};

namespace {

hipError_t free_addresses(address_reservation& addresses) noexcept {
  // HIP would refuse too, but AMD's runtime would lose its record of them.
  if (detail::refused_end::any_maps(addresses.get(), addresses.bytes()))
    return hipErrorInvalidValue;
  static_cast<void>(wait_for_address_records());
  const std::lock_guard lock{address_calls_mutex};
  return detail::address_calls::free(addresses);
}

bool refused_addresses::end(bool /*reports*/) noexcept {
  if (detail::refused_end::any_maps(addresses_.get(), addresses_.bytes())) return false;
  const hipError_t result = free_addresses(addresses_);
  if (result != hipSuccess) detail::clear_last_error();
  return addresses_.empty();
}

}  // namespace

address_reservation::address_reservation(std::size_t bytes, std::size_t alignment, void* hint) {
  // ROCm 6 answers bad arguments and lack of addresses alike, so the arguments are checked first.
  require_valid(bytes, alignment);
  detail::retry_refused_ends(detail::refusals::stop);
  address_reservation made;
  hipError_t result = hipSuccess;
  {
    const std::lock_guard lock{address_calls_mutex};
    result = detail::address_calls::reserve(made, bytes, alignment, hint);
  }
  // CUDA's driver calls an alignment that it cannot give an invalid value.
  const auto is_aligned = [&] { return alignment > granularity_of(reference_device).minimum; };
  if (result == hipErrorOutOfMemory || (result == hipErrorInvalidValue && is_aligned())) {
    detail::clear_last_error();
    shortage why{.cause = exhausted::addresses,
                 .device = reference_device.ordinal(),
                 .requested = bytes,
                 .alignment = alignment};
    if (is_aligned()) {
      const address_reservation unaligned{bytes};  // throws if the addresses are too few
      why.cause = exhausted::alignment;
    }
    throw out_of_memory{std::move(why)};
  }
  detail::check(result, "hipMemAddressReserve");
  // ROCm before 6.1 succeeds on Linux and gives no addresses.
  if (made.empty())
    throw unsupported{
        "hipMemAddressReserve succeeded and gave no addresses: this HIP runtime "
        "offers no virtual memory management; use a vector or pool, which stand on hipMalloc "
        "there, or mr::hip_resource"};
  // ROCm up to 6.4 ignores the alignment.
  if (alignment != 0 && reinterpret_cast<std::uintptr_t>(made.get()) % alignment != 0)
    throw unsupported{"hipMemAddressReserve ignored the alignment " + std::to_string(alignment) +
                      "; ask for none, or reserve more and align within"};
  *this = std::move(made);
}

address_reservation::~address_reservation() {
  if (empty() || process_.is_of_parent()) return;
  const hipError_t result = free_addresses(*this);
  detail::report(result, "hipMemAddressFree");
  keep_refused(std::move(*this));
  if (result == hipSuccess) detail::retry_refused_ends(detail::refusals::stop);
}

address_reservation& address_reservation::operator=(address_reservation&& other) noexcept {
  address_reservation moved{std::move(other)};
  std::swap(base_, moved.base_);
  std::swap(bytes_, moved.bytes_);
  std::swap(process_, moved.process_);
  moved.failed_maps_ = failed_maps_.exchange(moved.failed_maps_);
  return *this;
}

void address_reservation::free() {
  if (empty()) return;
  process_.require_own();
  detail::check(free_addresses(*this), "hipMemAddressFree");
}

detail::reserved_addresses detail::all_reserved() noexcept {
  return {reserved_count, reserved_bytes};
}

bool detail::can_reserve(std::size_t bytes) {
  address_reservation made;
  const std::lock_guard lock{address_calls_mutex};
  hipError_t result = address_calls::reserve(made, bytes, 0, nullptr);
  if (result == hipErrorOutOfMemory) clear_last_error();
  if (result == hipErrorOutOfMemory || (result == hipSuccess && made.empty())) return false;
  check(result, "hipMemAddressReserve");
  result = address_calls::free(made);
  keep_refused(std::move(made));
  check(result, "hipMemAddressFree");
  return true;
}

void detail::note_taken_aside(const void* address, std::size_t bytes) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  if (start < aside_begin || start >= aside_end) return;
  std::atomic<std::uintptr_t>& next = next_free_aside();
  const std::uintptr_t behind =
      std::min(align_up(start, aside_step) + step_aside(bytes), aside_end);
  std::uintptr_t at = next.load(std::memory_order_relaxed);
  while (at < behind && !next.compare_exchange_weak(at, behind, std::memory_order_relaxed))
    continue;
}

void* detail::next_aside(std::size_t bytes) {
  if (bytes > (aside_end - aside_begin) / 2) return nullptr;
  const std::size_t taken = step_aside(bytes);
  std::atomic<std::uintptr_t>& next = next_free_aside();
  std::uintptr_t at = next.load(std::memory_order_relaxed);
  std::uintptr_t start = 0;
  do {
    start = aside_end - at < taken ? aside_begin : at;
  } while (!next.compare_exchange_weak(at, start + taken, std::memory_order_relaxed));
  return reinterpret_cast<void*>(start);
}

address_reservation detail::reserve_private_range(std::size_t bytes) {
  address_reservation made;
  void* const aside = next_aside(bytes);
  if (aside == nullptr || !attempt([&] { made = address_reservation{bytes, 0, aside}; }))
    made = address_reservation{bytes};
  return made;
}

bool detail::free_or_report(address_reservation& addresses, bool is_waited_for,
                            bool reports) noexcept {
  if (addresses.empty()) return true;
  if (refused_end::any_maps(addresses.get(), addresses.bytes())) {
    if (reports) report(hipErrorInvalidValue, "hipMemAddressFree");
    return false;
  }
  const bool records_stay = wait_for_address_records() && is_waited_for;
  const std::size_t bytes = addresses.bytes();
  void* const base = addresses.get();
  hipError_t result = hipSuccess;
  report_exceptions([&] {
    held_reports told;
    const reports_wait wait{told};
    const std::lock_guard lock{address_calls_mutex};
    result = address_calls::free(addresses);
    if (result == hipSuccess && records_stay) keep_start_if_recorded(base, bytes);
  });
  if (reports)
    report(result, "hipMemAddressFree");
  else if (result != hipSuccess)
    clear_last_error();
  return result == hipSuccess;
}

detail::reclaim_result detail::reclaim_pinned(address_reservation& addresses) noexcept {
  if (refused_end::any_maps(addresses.get(), addresses.bytes())) return reclaim_result::refused;
  static_cast<void>(wait_for_address_records());
  void* const base = addresses.get();
  const std::size_t bytes = addresses.bytes();
  hipError_t result = hipSuccess;
  const char* call = "hipMemAddressFree";
  bool freed = false;
  {
    // Under this lock no other thread of the library can take the addresses.
    const std::lock_guard lock{address_calls_mutex};
    result = address_calls::free(addresses);
    freed = result == hipSuccess;
    if (freed) {
      call = "hipMemAddressReserve";
      result = address_calls::reserve(addresses, bytes, 0, base);
    }
  }
  report(result, call);
  if (addresses.get() == base) return freed ? reclaim_result::done : reclaim_result::refused;
  addresses = {};
  return freed ? reclaim_result::lost : reclaim_result::forgotten;
}

void detail::note_failed_map(const address_reservation& addresses) noexcept {
  ++addresses.failed_maps_;
}

bool detail::chunk_pins::add(const physical_chunk& chunk) {
  set_pinned_chunk_keeper([](physical_chunk& dropped) {
    return cache_registry::keep_pinned(chunk_cache::shared(), dropped);
  });
  if (!chunk.charge_ || !charges_.insert(chunk.charge_).second) return false;
  ++chunk.charge_->pins;
  bytes_ += chunk.charge_->bytes();
  return true;
}

void detail::chunk_pins::remove(const physical_chunk& chunk) noexcept {
  if (charges_.erase(chunk.charge_) == 0) return;
  --chunk.charge_->pins;
  bytes_ -= chunk.charge_->bytes();
}

void detail::chunk_pins::end() noexcept {
  if (charges_.empty()) return;
  for (const std::shared_ptr<chunk_charge>& each : charges_) --each->pins;
  charges_.clear();
  bytes_ = 0;
  cache_registry::release_unpinned();
}

void detail::chunk_pins::stay() noexcept {
  for (const std::shared_ptr<chunk_charge>& each : charges_) each->stay();
  end();
}

}  // namespace hipvmm
