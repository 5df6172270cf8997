// SPDX-License-Identifier: MIT
#include "container/malloc_storage.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "capability/capability.hpp"
#include "core/check.hpp"
#include "core/error.hpp"
#include "region/retirement.hpp"
#include "runtime/stream.hpp"

namespace hipvmm::detail {

std::string why_no_chunks(device_ref owner, const mr::memory_resource* resource) {
  return why_no_chunks(owner, resource != nullptr
                                  ? "growth_options::resource is set"
                                  : "growth_options::fallback is without_vmm::always");
}

malloc_storage::malloc_storage(device_ref owner, std::size_t max_bytes,
                               const region_options& chosen, mr::memory_resource* resource)
    : rights_{owner},
      resource_{resource},
      granularity_{resource == nullptr ? unit_of(capability_of(owner)).minimum
                                       : mr::memory_resource::default_alignment},
      limit_{align_up(max_bytes, granularity_)} {
  require_not_shareable(chosen.shareable, "growth_options::chunks.shareable", owner,
                        why_no_chunks(owner, resource));
  if (!chosen.placement.is_one_device())
    throw unsupported{"growth_options::chunks.placement on device " +
                      std::to_string(owner.ordinal()) +
                      ": only chunks can be placed, and the memory is one allocation of " +
                      (resource != nullptr ? "growth_options::resource" : "hipMalloc") +
                      "; use chunk_placement::one_device()"};
  if (chosen.memory != chunk_memory::standard)
    throw unsupported{"growth_options::chunks.memory on device " + std::to_string(owner.ordinal()) +
                      ": only chunks can be uncached, and the memory is one allocation of " +
                      (resource != nullptr ? "growth_options::resource" : "hipMalloc") +
                      "; use chunk_memory::standard"};
  set_access(chosen.access);
}

malloc_storage::~malloc_storage() {
  if (process_.is_of_parent()) {
    static_cast<void>(memory_.release());
  } else {
    drop(std::move(memory_));
  }
}

device_allocation malloc_storage::allocate(std::size_t bytes) const {
  process_.require_own();
  if (resource_ == nullptr) return device_allocation{device(), bytes};
  const scoped_device scope{device()};
  return device_allocation{resource_->allocate_sync(bytes), device(), bytes};
}

void malloc_storage::drop(device_allocation unused, device_list devices) const noexcept {
  if (resource_ == nullptr) return release_when_unused(std::move(unused), std::move(devices));
  const std::size_t bytes = unused.bytes();
  mr::deallocate_sync_under(device(), resource_, unused.release(), bytes);
}

void malloc_storage::require_grantable(device_ref to, access_right right) const {
  if (resource_ != nullptr && to != device() && right != access_right::none)
    throw unsupported{"a grant to device " + std::to_string(to.ordinal()) +
                      " of a vector whose memory comes from growth_options::resource; grant "
                      "access to the memory of that resource instead"};
}

void malloc_storage::grant(device_ref to, access_right right) {
  require_grantable(to, right);
  rights_.grant(to, right);
}

void malloc_storage::set_access(const access_list& wanted) {
  for (const access_desc& each : wanted.entries()) require_grantable(each.device, each.right);
  rights_.set_access(wanted);
}

region& malloc_storage::chunk_region() {
  throw unsupported{"the chunks of a vector on device " + std::to_string(device().ordinal()) +
                    " whose memory is one allocation of " +
                    (resource_ != nullptr ? "growth_options::resource" : "hipMalloc") +
                    ": it has none; see explain()"};
}

void malloc_storage::commit(std::size_t offset, std::size_t bytes) {
  const std::size_t needed = offset + bytes;
  if (bytes == 0 || needed <= committed_bytes()) return;
  // Made here, because the handler must not throw.
  device_list users = devices_of(rights_.users());
  device_allocation larger = allocate_or_explain(align_up(needed - erased_bytes_, granularity_));
  if (!memory_.empty()) {
    try {
      const stream own{device()};
      // Work in flight may write to the old bytes.
      wait_for_users(rights_.users());
      copy_to(larger, committed_bytes() - erased_bytes_, own);
    } catch (...) {
      drop(std::move(larger), std::move(users));
      throw;
    }
  }
  replace(std::move(larger));
}

std::size_t malloc_storage::trim(std::size_t bytes, stream_ref stream, tail_chunk tail) {
  require_not_captured("a vector's trim", stream);
  const std::size_t before = committed_bytes();
  if (bytes == 0) {
    release_all(stream);
  } else if (tail == tail_chunk::replace) {
    const std::size_t kept = align_up(bytes - erased_bytes_, granularity_);
    if (before > kept && before - kept > kept / 8) shorten_to(kept, stream);
  }
  return before - committed_bytes();
}

void malloc_storage::release_all(stream_ref stream) {
  if (memory_.empty()) return;
  if (resource_ != nullptr) {
    const std::size_t bytes = memory_.bytes();
    mr::deallocate_under(device(), resource_, stream, memory_.release(), bytes);
    return replace({});
  }
  std::optional<event> mark;
  device_list devices;
  if (!stream.is_done()) {
    devices = devices_of(rights_.users());
    mark = record_event_in(stream, devices);
    if (!mark) stream.synchronize();
  }
  if (!retire_allocation(memory_, std::move(mark), std::move(devices))) stream.synchronize();
  replace({});
}

void malloc_storage::shorten_to(std::size_t kept, stream_ref stream) {
  device_list users = devices_of(rights_.users());
  device_allocation smaller;
  if (!attempt([&] { smaller = allocate(kept); })) return;
  try {
    copy_to(smaller, std::min(kept, committed_bytes() - erased_bytes_), stream);
  } catch (...) {
    drop(std::move(smaller), std::move(users));
    throw;
  }
  replace(std::move(smaller));
}

bool malloc_storage::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  const void* const before = memory_.get();
  commit(0, align_up(commit_bytes, granularity_));
  limit_ = align_up(max_bytes, granularity_);
  return memory_.get() != before;
}

void malloc_storage::retire() noexcept {
  if (process_.is_of_parent()) static_cast<void>(memory_.release());
  if (resource_ != nullptr) return replace({});
  if (memory_.empty()) return;
  // Without memory of the host for a record the caller waits.
  try {
    if (retire_allocation(memory_, std::nullopt, devices_of(rights_.users()))) return;
  } catch (const std::bad_alloc&) {
  }
  if (wait_past_captures(rights_.users())) return replace({});
  // Work may still use the memory: it leaks.
  const std::size_t bytes = memory_.bytes();
  static_cast<void>(memory_.release());
  report_exceptions([bytes] {
    throw std::runtime_error{"a growable vector's end: " + format_bytes(bytes) +
                             " stay allocated until the process ends, because a stream is being "
                             "captured and HIP forbids to wait for devices meanwhile; end "
                             "captures before vectors"};
  });
}

device_allocation malloc_storage::allocate_or_explain(std::size_t bytes) const {
  return with_advice([&] { return acquire_with_retry([&] { return allocate(bytes); }); },
                     [&] {
                       return "the vector holds " + format_bytes(committed_bytes()) +
                              (resource_ == nullptr ? " of hipMalloc" : " of a resource") +
                              ", which must stay until they are copied to a larger "
                              "allocation, and stays as it was: reserve() all at the start";
                     });
}

void malloc_storage::copy_to(const device_allocation& to, std::size_t bytes,
                             stream_ref stream) const {
  if (bytes != 0) copy_async(stream, to.get(), base(), bytes);
  stream.synchronize();
}

void malloc_storage::replace(device_allocation next) noexcept {
  std::swap(memory_, next);
  erased_bytes_ = 0;
  drop(std::move(next));
}

}  // namespace hipvmm::detail
