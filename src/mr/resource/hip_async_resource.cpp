// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/hip_async_resource.hpp>

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/error.hpp"
#include "mr/resource/misaligned.hpp"
#include "mr/resource/pending_frees.hpp"
#include "mr/resource/pool_sharing.hpp"
#include "mr/stream_wait.hpp"
#include "region/retirement.hpp"
#include "runtime/check_resources.hpp"
#include "runtime/peer_copies.hpp"
#include "runtime/pool/hip_pool.hpp"
#include "runtime/runtime_rules.hpp"
#include "runtime/stream.hpp"
#include "strategy/memory_strategy.hpp"

namespace hipvmm::mr {

using detail::check;

namespace {

static_assert(sizeof(exported_pointer) == sizeof(hipMemPoolPtrExportData));

shareable_handle duplicate(const shareable_handle& handle, device_ref device) {
  const int copy = ::fcntl(handle.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0)
    throw out_of_memory{exhausted::descriptors, device.ordinal(), 0, device.free_memory(),
                        "the export of a pool needs two"};
  return shareable_handle{copy, 0};
}

/// deallocate_sync() waits for all work: HIP then frees a block that it refuses now.
void free_in_stream(memory_resource& of, stream_ref stream, void* pointer,
                    std::size_t bytes) noexcept {
  if (!detail::free_unless_gone(stream, pointer, bytes)) of.deallocate_sync(pointer, bytes);
}

struct reuse_switch {
  hipMemPoolAttr attribute;
  bool pool_reuse::*member;
};

constexpr std::array reuse_switches{
    reuse_switch{hipMemPoolReuseFollowEventDependencies, &pool_reuse::follow_event_dependencies},
    reuse_switch{hipMemPoolReuseAllowOpportunistic, &pool_reuse::allow_opportunistic},
    reuse_switch{hipMemPoolReuseAllowInternalDependencies,
                 &pool_reuse::allow_internal_dependencies}};

std::size_t bytes_of(hipMemPool_t pool, hipMemPoolAttr which) {
  std::uint64_t value = 0;
  check(hipMemPoolGetAttribute(pool, which, &value), "hipMemPoolGetAttribute");
  return value;
}

// HIP keeps switches as int and bytes as 64 bits.
template <typename Value>
hipError_t set_attribute(hipMemPool_t pool, hipMemPoolAttr which, Value value) {
  return hipMemPoolSetAttribute(pool, which, &value);
}

hipError_t set_switch(hipMemPool_t pool, reuse_switch which, pool_reuse reuse) {
  return set_attribute(pool, which.attribute, reuse.*which.member ? 1 : 0);
}

/// Whether pools of HIP's reuse memory in another order than that of streams, or block the host.
bool needs_guard(device_ref device) {
  // CUDA's pools do neither, and are not probed at first use.
  if (detail::rules_of_runtime().pools_reuse_in_order) return false;
  return !detail::memory_strategy{device}.hip_pools_keep_order;
}

/// Those with a right, and those that the library copied to or from. All if HIP reports no rights.
detail::device_list users_of(const hip_async_resource& resource) {
  detail::device_list users{resource.device()};
  const bool known = detail::report_exceptions([&] {
    for (const device_ref other : detail::all_devices())
      if (other != resource.device() && resource.access(other) != access_right::none)
        users.push_back(other);
  });
  if (!known) return detail::all_devices();
  for (auto other = detail::next_copied_with(resource.device(), -1); other;
       other = detail::next_copied_with(resource.device(), other->ordinal()))
    if (std::find(users.begin(), users.end(), *other) == users.end()) users.push_back(*other);
  return users;
}

const hip_async_options& require_valid(const hip_async_options& options) {
  if (options.initial_bytes > options.release_threshold)
    throw std::invalid_argument{
        "hip_async_resource: initial_bytes " + format_bytes(options.initial_bytes) +
        " beyond the release_threshold " + format_limit(options.release_threshold) +
        " would go back at once; raise the threshold or ask for less"};
  if (can_export(options.shareable, handle_type::fabric))
    throw std::invalid_argument{
        "hip_async_resource: HIP's pools have no fabric handles: set hip_async_options::shareable "
        "to handle_type::posix_fd, or use vmm_pool_resource"};
  return options;
}

}  // namespace

hip_async_resource::used_pool::used_pool(device_ref device, handle_type shareable)
    : is_owned{true} {
  value = detail::create_pool(device, shareable == handle_type::posix_fd
                                          ? hipMemHandleTypePosixFileDescriptor
                                          : hipMemHandleTypeNone);
}

hip_async_resource::used_pool::used_pool(device_ref device, ihipMemPoolHandle_t* viewed)
    : value{viewed} {
  detail::require_pools(device);
  if (viewed == nullptr)
    throw std::invalid_argument{
        "hip_async_resource: the pool is nullptr; pass default_pool(), current_pool() or one that "
        "hipMemPoolCreate gave"};
}

hip_async_resource::used_pool::~used_pool() {
  if (is_owned) detail::destroy_pool(value);
}

hip_async_resource::hip_async_resource(device_ref device, const hip_async_options& options)
    : shareable_{require_valid(options).shareable},
      pool_{device, options.shareable},
      sync_stream_{device},
      pending_{detail::pending_frees::of(pool_.value, device)},
      is_guarded_{needs_guard(device)} {
  keep_to_process();
  set_release_threshold(options.release_threshold);
  if (!(options.reuse == pool_reuse{})) set_reuse(options.reuse);
  if (options.initial_bytes != 0)
    deallocate(sync_stream_, allocate(sync_stream_, options.initial_bytes), options.initial_bytes);
  pending_->free_all();
}

hip_async_resource::hip_async_resource(device_ref device, ihipMemPoolHandle_t* pool)
    : pool_{device, pool},
      sync_stream_{device},
      pending_{detail::pending_frees::of(pool, device)},
      is_guarded_{needs_guard(device)} {
  keep_to_process();
}

hip_async_resource::~hip_async_resource() {
  if (!is_of_parent()) return;
  // A child of fork() destroys nothing: HIP does not work there.
  pool_.is_owned = false;
  static_cast<void>(new (std::nothrow) std::shared_ptr{std::move(pending_)});
}

ihipMemPoolHandle_t* hip_async_resource::default_pool(device_ref device) {
  detail::require_pools(device);
  hipMemPool_t pool = nullptr;
  check(hipDeviceGetDefaultMemPool(&pool, device.ordinal()), "hipDeviceGetDefaultMemPool");
  return pool;
}

ihipMemPoolHandle_t* hip_async_resource::current_pool(device_ref device) {
  detail::require_pools(device);
  hipMemPool_t pool = nullptr;
  check(hipDeviceGetMemPool(&pool, device.ordinal()), "hipDeviceGetMemPool");
  return pool;
}

void hip_async_resource::make_current() const {
  require_own_process();
  check(hipDeviceSetMemPool(device().ordinal(), get()), "hipDeviceSetMemPool");
}

std::size_t hip_async_resource::release_threshold() const {
  require_own_process();
  return bytes_of(get(), hipMemPoolAttrReleaseThreshold);
}

void hip_async_resource::set_release_threshold(std::size_t bytes) {
  require_own_process();
  check(set_attribute(get(), hipMemPoolAttrReleaseThreshold, std::uint64_t{bytes}),
        "hipMemPoolSetAttribute");
}

pool_reuse hip_async_resource::reuse() const {
  require_own_process();
  pool_reuse result;
  for (const reuse_switch each : reuse_switches) {
    int value = 0;
    check(hipMemPoolGetAttribute(get(), each.attribute, &value), "hipMemPoolGetAttribute");
    result.*each.member = value != 0;
  }
  return result;
}

void hip_async_resource::set_reuse(pool_reuse reuse) {
  const pool_reuse before = this->reuse();
  for (std::size_t i = 0; i < reuse_switches.size(); ++i) {
    const hipError_t result = set_switch(get(), reuse_switches[i], reuse);
    if (result == hipSuccess) continue;
    while (i-- > 0)
      detail::report(set_switch(get(), reuse_switches[i], before), "hipMemPoolSetAttribute");
    check(result, "hipMemPoolSetAttribute");
  }
}

pool_usage hip_async_resource::statistics() const {
  require_own_process();
  pending_->free_passed();
  pool_usage result{bytes_of(get(), hipMemPoolAttrReservedMemCurrent),
                    bytes_of(get(), hipMemPoolAttrReservedMemHigh),
                    bytes_of(get(), hipMemPoolAttrUsedMemCurrent),
                    bytes_of(get(), hipMemPoolAttrUsedMemHigh)};
  result.used_current -= std::min(result.used_current, pending_->bytes());
  // AMD resets a high to zero, not to the present number.
  result.reserved_high = std::max(result.reserved_high, result.reserved_current);
  result.used_high = std::max(result.used_high, result.used_current);
  return result;
}

void hip_async_resource::reset_peaks() {
  require_own_process();
  for (const hipMemPoolAttr each : {hipMemPoolAttrReservedMemHigh, hipMemPoolAttrUsedMemHigh})
    check(set_attribute(get(), each, std::uint64_t{0}), "hipMemPoolSetAttribute");
}

void hip_async_resource::trim_to(std::size_t bytes_to_keep) {
  require_own_process();
  pending_->free_passed();
  pending_->wait_for_frees();
  check(hipMemPoolTrimTo(get(), bytes_to_keep), "hipMemPoolTrimTo");
}

// If HIP's pools reuse out of order (is_guarded_), they get blocks only when those are idle. Blocks
// freed without a stream are kept from every pool until then.
void* hip_async_resource::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  const bool may_keep = is_guarded_ || pending_->has_any_without_stream();
  const bool takes_kept = may_keep && !detail::is_captured(stream);
  void* pointer = nullptr;
  if (takes_kept) {
    pending_->free_passed(is_guarded_ ? std::optional{stream} : std::nullopt);
    if (is_guarded_) pointer = pending_->take(stream, bytes, alignment);
    if (pointer != nullptr) return pointer;
  }
  if (!detail::attempt([&] { pointer = allocate_from_pool(stream, bytes); },
                       [&](const shortage&) { return takes_kept; })) {
    if (is_guarded_ && reuse().allow_internal_dependencies)
      if (void* const other = pending_->take_of_any(stream, bytes, alignment)) return other;
    pending_->free_all();
    pending_->wait_for_frees();
    pointer = allocate_from_pool(stream, bytes);
  }
  if (is_guarded_) pending_->note_new(pointer);
  if (detail::is_aligned(pointer, alignment)) return pointer;
  // In the stream of the allocation: no other stream is ordered behind it.
  free_in_stream(*this, stream, pointer, bytes);
  detail::throw_misaligned("hip_async_resource", "hipMallocFromPoolAsync", alignment);
}

void* hip_async_resource::allocate_from_pool(stream_ref stream, std::size_t bytes) {
  return detail::acquire_with_retry([&] {
    void* pointer = nullptr;
    const hipError_t result = detail::allocate_from(get(), stream, bytes, pointer);
    if (result == hipErrorInvalidValue && !pool_.is_owned)
      detail::throw_failure(result, "hipMallocFromPoolAsync",
                            "the resource is a view of a pool that allocates nothing, as CUDA's "
                            "pools that were imported from another process: let that process "
                            "allocate, and export_pointer() the block");
    detail::check_resources(result, "hipMallocFromPoolAsync", device(), bytes);
    return pointer;
  });
}

void hip_async_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                       std::size_t) noexcept {
  if (!is_guarded_) return free_in_stream(*this, stream, pointer, bytes);
  bool is_there = false;
  bool is_captured = false;
  const bool is_known = detail::report_exceptions([&] {
    const std::optional<bool> captured = detail::captured_unless_gone(stream, bytes);
    is_there = captured.has_value();
    is_captured = captured.value_or(false);
    if (!is_there || is_captured) return is_there;
    pending_->free_passed(stream);
    pending_->add(stream, pointer, bytes);
    return true;
  });
  if (is_known) return is_captured ? detail::free_async(stream, pointer) : void();
  // No event could be recorded, which was reported: the host waits instead.
  const bool is_idle =
      is_there && detail::report_exceptions([&] { return detail::wait_for_work(stream, bytes); });
  is_idle ? pending_->free_idle(pointer, bytes)
          : do_deallocate_sync(pointer, bytes, default_alignment);
}

void* hip_async_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  pending_->free_fitting_without_stream(bytes);
  return detail::allocate_and_wait(*this, sync_stream_, bytes, alignment);
}

void hip_async_resource::do_deallocate_sync(void* pointer, std::size_t bytes,
                                            std::size_t) noexcept {
  if (detail::report_exceptions([&] {
        pending_->free_passed();
        return pending_->add_without_stream(pointer, bytes, users_of(*this));
      }))
    return;
  // No thread waits for the work, as while the process exits: the caller does.
  detail::report_exceptions([&] {
    detail::wait_for_users(pointer, detail::all_devices());
    pending_->free_idle(pointer, bytes);
  });
}

bool hip_async_resource::do_is_equal(const memory_resource& other) const noexcept {
  const auto* const same = dynamic_cast<const hip_async_resource*>(&other);
  return same != nullptr && same->get() == get();
}

void hip_async_resource::grant(device_ref device, access_right right) {
  require_own_process();
  detail::set_pool_right(get(), this->device(), {device, right});
}

access_right hip_async_resource::access(device_ref device) const {
  require_own_process();
  return detail::pool_right(get(), device);
}

void hip_async_resource::require_shareable() const {
  require_own_process();
  if (shareable_ != handle_type::posix_fd)
    throw std::invalid_argument{
        "the export of a pool that this hip_async_resource did not make to be shared: set "
        "hip_async_options::shareable to handle_type::posix_fd; views export nothing"};
}

shareable_handle hip_async_resource::export_handle() {
  require_shareable();
  const std::lock_guard lock{exporting_};
  if (exported_.empty()) {
    // ROCm gives the same descriptor each time and never closes it, CUDA a new one: asked once.
    int descriptor = -1;
    detail::check_resources(hipMemPoolExportToShareableHandle(
                                &descriptor, get(), hipMemHandleTypePosixFileDescriptor, 0),
                            "hipMemPoolExportToShareableHandle", device(), 0);
    exported_ = shareable_handle{descriptor, 0};
  }
  return duplicate(exported_, device());
}

exported_pointer hip_async_resource::export_pointer(void* pointer) const {
  require_shareable();
  hipMemPoolPtrExportData data{};
  const hipError_t result = hipMemPoolExportPointer(&data, pointer);
  // ROCm says "out of memory" of an address that it does not know.
  if (result == hipErrorInvalidValue || result == hipErrorOutOfMemory) {
    detail::clear_last_error();
    throw std::invalid_argument{
        "hip_async_resource: " + detail::address_text(pointer) +
        " is not the start of a block of this pool that is in use (hipMemPoolExportPointer: " +
        detail::error_name(result) +
        "); export what allocate() gave. Memory of hipMalloc belongs to no pool: copy it into one"};
  }
  check(result, "hipMemPoolExportPointer");
  exported_pointer exported;
  std::memcpy(exported.data.data(), &data, sizeof(data));
  return exported;
}

}  // namespace hipvmm::mr
