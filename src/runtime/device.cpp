// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/device.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/hip_compat.hpp"
#include "runtime/device.hpp"
#include "runtime/device_gate.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm {

using detail::check;

namespace {

int attribute_of(device_ref device, hipDeviceAttribute_t attribute) {
  require_device(device);
  int value = 0;
  check(hipDeviceGetAttribute(&value, attribute, device.ordinal()), "hipDeviceGetAttribute");
  return value;
}

bool has(device_ref device, hipDeviceAttribute_t attribute) {
  return attribute_of(device, attribute) != 0;
}

}  // namespace

namespace detail {
const char HIPVMM_DETAIL_INTERFACE = 0;
}  // namespace detail

int device_count() {
  static const int count = [] {
    int value = 0;
    const hipError_t result = hipGetDeviceCount(&value);
    if (result == hipErrorNoDevice) {
      detail::clear_last_error();
      return 0;
    }
    check(result, "hipGetDeviceCount");
    return value;
  }();
  return count;
}

void require_device(device_ref device) {
#ifdef HIPVMM_ON_HOST_PROVIDER
  constexpr auto advice =
      "HIPVMM_HOST_DEVICES says how many the host provider has; HIP_VISIBLE_DEVICES, "
      "CUDA_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES hide some of them";
#else
  constexpr auto advice =
      "Make a GPU visible to this process, or build with -DHIPVMM_PROVIDER=host to run without one";
#endif
  const int count = device_count();
  if (count == 0)
    throw unsupported{std::string{"no HIP device: hipGetDeviceCount found none. "} + advice};
  if (device.ordinal() < 0 || device.ordinal() >= count)
    throw std::invalid_argument{"device " + std::to_string(device.ordinal()) +
                                " does not exist: this process sees " + std::to_string(count) +
                                " device" + (count == 1 ? "" : "s") + ", numbered from 0"};
}

device_ref device_ref::current() {
  require_device(device_ref{0});
  int ordinal = 0;
  check(hipGetDevice(&ordinal), "hipGetDevice");
  return device_ref{ordinal};
}

std::pair<std::size_t, std::size_t> available_device_memory() {
  return available_device_memory(device_ref::current());
}

std::pair<std::size_t, std::size_t> available_device_memory(device_ref device) {
  const scoped_device scope{device};
  std::size_t free = 0;
  std::size_t total = 0;
  check(hipMemGetInfo(&free, &total), "hipMemGetInfo");
  return {free, total};
}

std::size_t percent_of_free_device_memory(int percent) {
  return percent_of_free_device_memory(device_ref::current(), percent);
}

std::size_t percent_of_free_device_memory(device_ref device, int percent) {
  if (percent < 0 || percent > 100)
    throw std::invalid_argument{std::to_string(percent) + " % of the free memory of device " +
                                std::to_string(device.ordinal()) + ": ask for 0 to 100 %"};
  const std::size_t free = available_device_memory(device).first;
  const auto share = static_cast<std::size_t>(percent);
  // In two parts, so that no product overflows.
  return align_down(free / 100 * share + free % 100 * share / 100, 256);
}

std::string device_ref::name() const {
  require_device(*this);
  std::array<char, 256> text{};
  check(hipDeviceGetName(text.data(), static_cast<int>(text.size()), ordinal_), "hipDeviceGetName");
  return text.data();
}

std::string to_string(const device_uuid& uuid) {
  // Not isalnum, which depends on the locale.
  const auto is_letter_or_digit = [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  std::string text{"GPU-"};
  if (std::all_of(uuid.bytes.begin(), uuid.bytes.end(), is_letter_or_digit))
    return text.append(uuid.bytes.begin(), uuid.bytes.end());
  constexpr const char* digits = "0123456789abcdef";
  for (std::size_t at = 0; at < uuid.bytes.size(); ++at) {
    if (at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += digits[uuid.bytes[at] / 16];
    text += digits[uuid.bytes[at] % 16];
  }
  return text;
}

device_uuid device_ref::uuid() const {
  if (const std::optional<device_uuid> found = detail::find_uuid(*this)) return *found;
  throw unsupported{"device " + std::to_string(ordinal_) +
                    " has no UUID: hipDeviceGetUuid reports none. Name it by its ordinal, in "
                    "processes with the same HIP_VISIBLE_DEVICES"};
}

namespace {

template <class Predicate>
std::optional<device_ref> find_device(Predicate has_uuid) {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const std::optional<device_uuid> uuid = detail::find_uuid(device_ref{ordinal});
    if (uuid && has_uuid(*uuid)) return device_ref{ordinal};
  }
  return std::nullopt;
}

}  // namespace

std::optional<device_ref> device_with_uuid(const device_uuid& uuid) {
  return find_device([&](const device_uuid& each) { return each == uuid; });
}

std::optional<device_ref> device_with_uuid(std::string_view uuid) {
  return find_device([&](const device_uuid& each) { return to_string(each) == uuid; });
}

std::size_t device_ref::total_memory() const {
  require_device(*this);
  std::size_t bytes = 0;
  check(hipDeviceTotalMem(&bytes, ordinal_), "hipDeviceTotalMem");
  return bytes;
}

std::size_t device_ref::free_memory() const { return available_device_memory(*this).first; }

bool device_ref::can_access_peer(device_ref peer) const {
  require_device(*this);
  require_device(peer);
  // HIP answers no for a device and itself.
  if (*this == peer) return true;
  int can = 0;
  check(hipDeviceCanAccessPeer(&can, ordinal_, peer.ordinal_), "hipDeviceCanAccessPeer");
  return can != 0;
}

void device_ref::enable_peer_access(device_ref peer) const {
  const scoped_device scope{*this};
  require_device(peer);
  if (*this == peer) return;
  const hipError_t result = hipDeviceEnablePeerAccess(peer.ordinal_, 0);
  if (result == hipErrorPeerAccessAlreadyEnabled) return detail::clear_last_error();
  check(result, "hipDeviceEnablePeerAccess");
}

bool device_ref::supports_virtual_memory() const {
  require_device(*this);
  int value = 0;
  const hipError_t result =
      hipDeviceGetAttribute(&value, hip_compat::virtual_memory_management_supported, ordinal_);
  if (result == hipErrorInvalidValue) {
    detail::clear_last_error();
    return true;
  }
  check(result, "hipDeviceGetAttribute");
  return value != 0;
}

bool device_ref::supports_memory_pools() const {
  return has(*this, hipDeviceAttributeMemoryPoolsSupported);
}

bool device_ref::supports_managed_memory() const {
  return has(*this, hipDeviceAttributeManagedMemory);
}

bool device_ref::supports_concurrent_managed_access() const {
  return has(*this, hipDeviceAttributeConcurrentManagedAccess);
}

bool device_ref::supports_pageable_access() const {
  return has(*this, hipDeviceAttributePageableMemoryAccess);
}

void device_ref::synchronize() const {
  if (!detail::has_context(*this)) return;
  const bool waits = detail::rules_of_runtime().frees_wait;
  if (detail::frees_wait().value_or(waits)) {
    try {
      if (detail::wait_by_free(*this) || (waits && detail::wait_by_host_free(*this))) return;
    } catch (const hip_error&) {
      // synchronize_device() fails as well, or waits.
    }
  }
  detail::synchronize_device(*this);
}

namespace detail {

void synchronize_device(device_ref device) {
  const scoped_device scope{device};
  const device_wait counted{device.ordinal()};
  check(hipDeviceSynchronize(), "hipDeviceSynchronize");
}

bool wait_by_release(device_ref device, hipError_t (*allocate)(void** pointer),
                     const char* allocates, hipError_t (*release)(void* pointer),
                     const char* releases) {
  const relaxed_captures relaxed;
  const scoped_device scope{device};
  void* pointer = nullptr;
  const hipError_t made = allocate(&pointer);
  if (made == hipErrorOutOfMemory) {
    clear_last_error();
    return false;
  }
  check(made, allocates);
  const auto release_it = [=] {
    const device_wait counted{device.ordinal()};
    return release(pointer);
  };
  const hipError_t released = release_it();
  if (!is_released(released)) static_cast<void>(release_or_keep(release_it, releases, true));
  check(released, releases);
  return true;
}

std::optional<device_uuid> find_uuid(device_ref device) {
  require_device(device);
  hipUUID reported{};
  const hipError_t result = hipDeviceGetUuid(&reported, device.ordinal());
  if (result == hipErrorNotSupported) {
    clear_last_error();
    return std::nullopt;
  }
  check(result, "hipDeviceGetUuid");
  device_uuid uuid;
  static_assert(sizeof(reported.bytes) == sizeof(uuid.bytes));
  std::memcpy(uuid.bytes.data(), reported.bytes, sizeof(reported.bytes));
  return names_device(uuid) ? std::optional{uuid} : std::nullopt;
}

bool names_device(const device_uuid& uuid) {
  // For a GPU without one ROCr writes "GPU-XX", of which HIP keeps the part behind the dash.
  constexpr device_uuid none_of_rocr{{'X', 'X'}};
  return uuid != device_uuid{} && uuid != none_of_rocr;
}

int driver_version() {
  int version = 0;
  check(hipDriverGetVersion(&version), "hipDriverGetVersion");
  return version;
}

std::size_t usable_memory(device_ref device) {
  const std::size_t total = device.total_memory();
  return has(device, hipDeviceAttributeIntegrated) ? std::max(total, device.free_memory()) : total;
}

std::size_t most_memory(device_ref device) {
  const std::size_t usable = usable_memory(device);
  if (!has(device, hipDeviceAttributeIntegrated)) return usable;
  const auto pages = static_cast<std::size_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L));
  return std::max(usable, pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

// Deprecated on AMD, but HIP has no other such query.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
bool has_context(device_ref device) noexcept {
  // On AMD the answer would be which device is current.
  try {
    if (!rules_of_runtime().has_contexts) return true;
  } catch (const hip_error&) {
    return true;  // asked again next time
  }
  unsigned flags = 0;
  int active = 0;
  if (hipDevicePrimaryCtxGetState(device.ordinal(), &flags, &active) == hipSuccess)
    return active != 0;
  clear_last_error();
  return true;
}
#pragma GCC diagnostic pop

void bind_context() {
  if (!rules_of_runtime().has_contexts) return;
  check(hipSetDevice(device_ref::current().ordinal()), "hipSetDevice");
}

void make_current(device_ref device) {
  require_device(device);
  check(hipSetDevice(device.ordinal()), "hipSetDevice");
}

int warp_size_of(device_ref device) { return attribute_of(device, hipDeviceAttributeWarpSize); }

}  // namespace detail

scoped_device::scoped_device(device_ref device)
    : previous_{device_ref::current()}, changed_{previous_ != device} {
  if (!changed_) return;
  require_device(device);
  check(hipSetDevice(device.ordinal()), "hipSetDevice");
}

scoped_device::~scoped_device() {
  if (changed_) detail::report(hipSetDevice(previous_.ordinal()), "hipSetDevice");
}

}  // namespace hipvmm
