// SPDX-License-Identifier: MIT
#include <hipvmm/mr/pool/binning_resource.hpp>

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/check.hpp"
#include "mr/address_table.hpp"

namespace hipvmm::mr {
namespace {

void require_same_device(std::optional<device_ref> ours, std::optional<device_ref> theirs) {
  if (ours && theirs && *ours != *theirs)
    throw std::invalid_argument{"binning_resource::add_bin: the bin's memory is of device " +
                                std::to_string(theirs->ordinal()) +
                                ", the upstream's or another bin's of device " +
                                std::to_string(ours->ordinal()) + "; use one device for all"};
}

}  // namespace

struct binning_resource::owner_table : detail::address_table<memory_resource*> {};

binning_resource::binning_resource(memory_resource* upstream)
    : resource_adaptor{"binning_resource", upstream},
      device_{upstream->device()},
      owners_{new owner_table} {}

binning_resource::binning_resource(memory_resource* upstream, std::int8_t min_size_exponent,
                                   std::int8_t max_size_exponent)
    : binning_resource{upstream} {
  constexpr int largest = 40;
  if (min_size_exponent < 0 || min_size_exponent > max_size_exponent || max_size_exponent > largest)
    throw std::invalid_argument{
        "binning_resource: bins of 2^" + std::to_string(min_size_exponent) + " to 2^" +
        std::to_string(max_size_exponent) +
        " bytes; the exponents must be 0 <= min <= max <= " + std::to_string(largest)};
  for (int exponent = min_size_exponent; exponent <= max_size_exponent; ++exponent)
    add_bin(std::size_t{1} << exponent);
}

binning_resource::~binning_resource() = default;

std::optional<device_ref> binning_resource::do_device() const noexcept {
  const std::shared_lock lock{mutex_};
  return device_;
}

void binning_resource::add_bin(std::size_t allocation_size, memory_resource* bin_resource) {
  if (allocation_size == 0 || allocation_size > TiB)
    throw std::invalid_argument{"binning_resource::add_bin: a bin for requests of up to " +
                                std::to_string(allocation_size) +
                                " bytes; it must be some, and at most 1 TiB"};
  const std::size_t bytes = align_up(allocation_size, default_alignment);
  // Without the lock, because the bin may be an adaptor of this resource, which takes it again.
  std::optional<device_ref> theirs;
  if (bin_resource != nullptr) theirs = bin_resource->device();
  {
    const std::shared_lock lock{mutex_};
    require_same_device(device_, theirs);
    if (bins_.count(bytes) != 0) return;
  }
  // Without the lock, because making and destroying it call the upstream.
  std::unique_ptr<fixed_size_resource> made;
  if (bin_resource == nullptr) {
    std::optional<scoped_device> scope;
    if (const std::optional<device_ref> ours = device()) scope.emplace(*ours);
    made = std::make_unique<fixed_size_resource>(get_upstream_resource(), bytes);
    bin_resource = made.get();
    theirs = made->device();
  }
  const std::unique_lock lock{mutex_};
  if (bins_.count(bytes) != 0) return;
  require_same_device(device_, theirs);
  owned_.reserve(owned_.size() + 1);
  bins_.emplace(bytes, bin_resource);
  if (!device_) device_ = theirs;
  if (made) owned_.push_back(std::move(made));
}

void binning_resource::forget_stream(stream_ref stream) {
  std::vector<fixed_size_resource*> own;  // bins stay
  {
    const std::shared_lock lock{mutex_};
    for (const auto& each : owned_) own.push_back(each.get());
  }
  for (fixed_size_resource* const each : own) each->forget_stream(stream);
}

// The result stays valid, because bins are never removed.
memory_resource& binning_resource::resource_for(std::size_t bytes, std::size_t alignment) const {
  const std::shared_lock lock{mutex_};
  const auto bin = alignment <= default_alignment ? bins_.lower_bound(bytes) : bins_.end();
  return bin != bins_.end() ? *bin->second : *get_upstream_resource();
}

void* binning_resource::do_allocate_any(const request& wanted) {
  memory_resource& owner = resource_for(wanted.bytes, wanted.alignment);
  auto noted = owners_->prepare(&owner);
  void* const pointer = wanted.allocate_from(owner);
  bool was_out = false;
  try {
    was_out = !owners_->put(std::move(noted), pointer).empty();
  } catch (...) {
    wanted.deallocate_to(owner, pointer);
    throw;
  }
  if (was_out)
    detail::report_exceptions([&] {
      throw std::logic_error{"binning_resource: memory at " + detail::address_text(pointer) +
                             " is allocated again while it is in use: it was freed in its bin or "
                             "the upstream; free in the binning_resource all that it allocated"};
    });
  return pointer;
}

void binning_resource::do_deallocate_any(void* pointer, const request& freed) noexcept {
  const auto owner = owners_->take(pointer);
  if (!owner.empty()) return freed.deallocate_to(*owner.mapped(), pointer);
  detail::report_exceptions([&] {
    throw std::logic_error{"binning_resource: " + std::to_string(freed.bytes) + " bytes at " +
                           detail::address_text(pointer) +
                           " are freed that are not allocated: they were freed before, or are from "
                           "elsewhere; free memory once, in the resource that allocated it"};
  });
}

}  // namespace hipvmm::mr
