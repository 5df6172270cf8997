// SPDX-License-Identifier: MIT
#include "lockstep.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <stdexcept>

#include "provider_calls.hpp"

namespace hipvmm::test::model {
namespace {

constexpr std::size_t host_bytes = std::size_t{32} << 10U;

// ThreadSanitizer passes mmap a wish for addresses that no process has as one for address 0, which
// root is given, and then ends the process.
#ifdef __SANITIZE_THREAD__
constexpr address end_of_wishes = address{1} << 47U;
#else
constexpr address end_of_wishes = ~address{0};
#endif

}  // namespace

void must(hipError_t given, const char* what) {
  if (given != hipSuccess)
    throw std::runtime_error{std::string{what} + " gave " + hipGetErrorName(given)};
}

address slot_values::resolve(const place& at) const {
  switch (at.where) {
    case space::number:
      return at.offset;
    case space::reservation:
      return reservations[at.slot].start + at.offset;
    case space::allocation:
      return allocations[at.slot].start + at.offset;
    case space::pinned:
      return pinned.start + at.offset;
    case space::pageable:
      return pageable.start + at.offset;
  }
  return 0;
}

lockstep::lockstep(const machine& of, const model_rules& rules, provider_use use)
    : model_{of, rules}, use_{use}, pageable_(host_bytes) {
  for (int device = 0; device < device_count; ++device) {
    use_device(device);
    must(
        hipStreamCreateWithFlags(&streams_[static_cast<std::size_t>(device)], hipStreamNonBlocking),
        "hipStreamCreateWithFlags");
  }
  allocate_pinned();
  slots_.pageable = {address_of(pageable_.data()), host_bytes};
  model_.add_area(slots_.pageable.start, host_bytes, area_kind::pageable, 0);
  null_file_ = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_file_ < 0 || ::pipe2(pipe_.data(), O_CLOEXEC) != 0)
    throw std::runtime_error{"no descriptor is left for the model's own use"};
}

lockstep::~lockstep() {
  for (hipStream_t each : streams_) static_cast<void>(hipStreamDestroy(each));
  static_cast<void>(hipHostFree(pointer_to(slots_.pinned.start)));
  for (const int each : {null_file_, pipe_[0], pipe_[1]}) ::close(each);
}

std::optional<std::string> lockstep::step(const operation& each) {
  const exclusion why = is_left_out(each)               ? exclusion::crash
                        : use_ == provider_use::runtime ? exclusion_of(each)
                                                        : exclusion::none;
  ++left_out_[static_cast<std::size_t>(why)];
  if (why != exclusion::none) return std::nullopt;
  current_ = each.what;
  const address at = slots_.resolve(each.at);
  switch (each.what) {
    case kind::reserve:
      reserve(each);
      break;
    case kind::address_free:
      address_free(each);
      break;
    case kind::create:
      create(each);
      break;
    case kind::release:
      release(each);
      break;
    case kind::map:
      map(each);
      break;
    case kind::unmap:
      unmap(at, each.bytes);
      break;
    case kind::set_access:
      set_access(at, each.bytes, each.has_argument ? each.entries.data() : nullptr,
                 each.entry_count);
      break;
    case kind::get_access:
      get_access(each);
      break;
    case kind::retain:
      retain(each);
      break;
    case kind::properties:
      properties(each);
      break;
    case kind::export_handle:
      export_handle(each);
      break;
    case kind::import_handle:
      import_handle(each);
      break;
    case kind::close_descriptor:
      close_descriptor(each.slot);
      break;
    case kind::allocate:
      allocate(each);
      break;
    case kind::free_allocation:
      free_allocation(each);
      break;
    case kind::enable_peer:
    case kind::disable_peer:
      peer_access(each);
      break;
    case kind::copy:
      copy(each);
      break;
    case kind::peer_copy:
      peer_copy(each);
      break;
    case kind::fill:
      fill(each);
      break;
    case kind::fill_behind_change:
      fill_behind_change(each);
      break;
  }
  if (use_ == provider_use::alone) compare_totals();
  return difference_;
}

bool lockstep::is_left_out(const operation& each) const {
  const model_rules::crash_list& crashes = model_.rules().crashes;
  const address at = slots_.resolve(each.at);
  const auto is_stale = [&](std::uint8_t slot) {
    return crashes.stale_handle && slot != no_slot && !model_.is_usable(handle_of(slot));
  };
  switch (each.what) {
    case kind::reserve:
      return at >= end_of_wishes;
    case kind::create:
      // The model does not know the memory of the host.
      return each.location_type != hipMemLocationTypeDevice &&
             each.bytes > model_.of().device_bytes;
    case kind::address_free:
      return crashes.unknown_address_free && !model_.is_reservation(at);
    case kind::unmap:
      return crashes.unknown_unmap && !model_.mappings().contains(at);
    case kind::retain:
      return crashes.unknown_retain && model_.mapping_at(at) == nullptr;
    case kind::release:
    case kind::map:
    case kind::properties:
      return is_stale(each.slot);
    case kind::export_handle:
      return is_stale(each.source) || (crashes.null_export && !each.has_result);
    case kind::import_handle:
      return crashes.descriptor_by_value && each.how == passed::as_value;
    case kind::set_access:
      return model_.rules().late_grant_corrupts &&
             (each.entry_count > 1 || model_.has_any_rights(at, each.bytes));
    case kind::fill_behind_change:
      return (model_.rules().unmap_waits_for_work && each.then == change::unmapped) ||
             (model_.rules().late_grant_corrupts &&
              (each.then == change::closed || each.then == change::read_only)) ||
             is_left_out_copy(each);
    case kind::copy:
    case kind::peer_copy:
    case kind::fill:
      return is_left_out_copy(each);
    default:
      return false;
  }
}

bool lockstep::loses_addresses(const operation& each) const {
  const address at = slots_.resolve(each.at);
  return (each.what == kind::unmap && model_.unmap_loses(at, each.bytes)) ||
         (each.what == kind::address_free && model_.free_loses(at));
}

bool lockstep::is_left_out_copy(const operation& each) const {
  // Leaves out addresses of unknown owners, because a copy there could change memory of others.
  const auto is_known = [&](address at, std::size_t bytes) {
    return at == 0 || model_.is_hip_memory(at) || model_.is_inside_pageable(at, bytes);
  };
  const address to = slots_.resolve(each.at);
  const std::size_t width = each.what == kind::fill ? static_cast<std::size_t>(each.type) : 1;
  const std::size_t bytes = model_.bytes_filled(each.bytes, width);
  if (bytes == 0) return false;
  if (model_.rules().crashes.misaligned_fill && each.what == kind::fill && to % width != 0)
    return true;
  if (!is_known(to, bytes)) return true;
  if (model_.rules().crashes.work_without_link && ends_without_link(each)) return true;
  if (each.what == kind::fill || each.what == kind::fill_behind_change) return false;
  const address from = slots_.resolve(each.from);
  // Releases differ in which device carries out such a copy: the profiles' questions ask for it.
  const auto is_of_others = [&](address at) {
    const area* const in = model_.area_at(at);
    return model_.is_mapped_of_others(at, bytes, each.device) ||
           (in != nullptr && in->kind != area_kind::pageable && in->device != each.device);
  };
  const bool is_peer_copy = each.what == kind::peer_copy;
  const bool has_mapping = model_.is_reserved(to) || model_.is_reserved(from);
  // Every release refuses a number of no device, whatever the addresses are.
  if (is_peer_copy && (!exists(each.device) || !exists(each.peer))) return false;
  if (model_.rules().owner_copies && is_peer_copy) return true;
  if ((model_.rules().owner_copies || model_.rules().peer_access_grants_mappings) && has_mapping &&
      (is_peer_copy || is_of_others(to) || is_of_others(from)))
    return true;
  const auto is_pageable = [&](address at) { return model_.is_inside_pageable(at, 1); };
  if (model_.rules().crashes.pageable_peer_copy && each.what == kind::peer_copy &&
      (is_pageable(to) || is_pageable(from)))
    return true;
  return !is_known(from, bytes) || model_.is_aliased(to, from, bytes);
}

bool lockstep::ends_without_link(const operation& each) const {
  const auto owner_of = [&](const place& side) {
    const address at = slots_.resolve(side);
    const mapping* const mapped = model_.mapping_at(at);
    if (mapped != nullptr) return model_.find(mapped->of)->device;
    const area* const in = model_.area_at(at);
    return in != nullptr && in->kind == area_kind::device ? in->device : hipInvalidDeviceId;
  };
  const int user = exists(each.device) ? each.device : 0;
  const auto lacks = [user](int owner) { return exists(owner) && !reaches(user, owner); };
  const int to = owner_of(each.at);
  if (each.what == kind::fill || each.what == kind::fill_behind_change) return lacks(to);
  const int from = owner_of(each.from);
  return exists(to) && exists(from) && to != from &&
         (lacks(to) || lacks(from) || !reaches(from, to));
}

bool lockstep::judge(const verdict& expected, hipError_t given) {
  if (!expected.allows(given)) {
    differ(std::string{"the provider gave "} + hipGetErrorName(given) + ", the model says " +
           expected.text());
    return false;
  }
  const hipError_t told = hipGetLastError();
  if (told != given) differ(std::string{"the last error is "} + hipGetErrorName(told));
  ++(expected.takes_effect() ? effects_ : refusals_)[static_cast<std::size_t>(current_)];
  return expected.takes_effect();
}

void lockstep::differ(const std::string& how) {
  if (!difference_) difference_ = how;
}

handle lockstep::handle_of(std::uint8_t slot) const {
  return slot == no_slot ? nullptr : slots_.handles[slot];
}

void lockstep::wait_for_devices() {
  for (int device = 0; device < device_count; ++device) {
    use_device(device);
    must(hipDeviceSynchronize(), "hipDeviceSynchronize");
  }
}

void lockstep::allocate_pinned() {
  use_device(0);
  void* pinned = nullptr;
  must(hipHostMalloc(&pinned, host_bytes, hipHostMallocDefault), "hipHostMalloc");
  std::fill_n(static_cast<std::byte*>(pinned), host_bytes, std::byte{0});
  slots_.pinned = {address_of(pinned), host_bytes};
  model_.add_area(slots_.pinned.start, host_bytes, area_kind::pinned, 0);
}

void lockstep::use_device(int device) { must(hipSetDevice(device), "hipSetDevice"); }

}  // namespace hipvmm::test::model
