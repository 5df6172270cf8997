// SPDX-License-Identifier: MIT
#include "mr/pool/backend/upstream_backend.hpp"

#include <new>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/error.hpp"
#include "core/observers/race_checker_calls.hpp"

namespace hipvmm::mr::pool {
// Captures are relaxed for calls of the upstream, because slabs are no part of them.

void upstream_deleter::operator()(void* memory) const noexcept {
  std::optional<detail::relaxed_captures> relaxed;
  detail::report_exceptions([&] { relaxed.emplace(); });
  detail::note_return(memory, bytes);
  upstream->deallocate_sync(memory, bytes);
}

void slab_supply::bring(const slab_needed& wanted, device_ref device) {
  // Its size is of no use any more: other threads have changed the pool.
  slab_.reset();
  const detail::relaxed_captures relaxed;
  try {
    auto refusal = detail::refusal_of([&] {
      void* const memory = wanted.upstream->allocate_sync(wanted.bytes);
      if (memory == nullptr)
        throw out_of_memory{exhausted::device_memory, device.ordinal(), wanted.bytes, 0,
                            "the upstream resource gave nullptr"};
      slab_ = upstream_slab{memory, {wanted.upstream, wanted.bytes}};
    });
    if (!refusal) return;
    refused_ = std::move(refusal);
  } catch (const std::bad_alloc& error) {
    std::size_t free = 0;
    detail::report_exceptions([&] { free = device.free_memory(); });
    refused_.emplace(exhausted::device_memory, device.ordinal(), wanted.bytes, free,
                     std::string{"the upstream resource says "} + error.what());
  }
  refused_bytes_ = wanted.bytes;
}

upstream_slab* slab_supply::find(std::size_t bytes) {
  if (slab_ != nullptr && slab_.get_deleter().bytes == bytes) return &slab_;
  if (refused_ && bytes >= refused_bytes_) throw out_of_memory{*refused_};
  return nullptr;
}

upstream_backend::upstream_backend(memory_resource& upstream, std::size_t address_bytes,
                                   std::size_t least_slab)
    // The upstream promises no larger alignment.
    : addressed_backend{{.address_bytes =
                             align_up(address_bytes, memory_resource::default_alignment),
                         .granularity = memory_resource::default_alignment,
                         .moves_chunks = false,
                         .least_slab = least_slab}},
      upstream_{upstream} {}

void upstream_backend::create(std::size_t offset, std::size_t bytes, std::size_t) {
  upstream_slab* const brought = supply_->find(bytes);
  if (brought == nullptr) throw slab_needed{&upstream_, bytes};
  slabs_.add(offset, *brought, reinterpret_cast<std::uintptr_t>(brought->get()), bytes);
}

std::unique_ptr<pending_release> upstream_backend::detach(std::size_t offset, std::size_t) {
  auto one = std::make_unique<pending_release_of<upstream_slab>>(
      [](upstream_slab& slab) { slab.reset(); });
  one->held = std::move(slabs_.take(offset).mapped().memory);
  return one;
}

std::string upstream_backend::explain() const {
  return "slabs of an upstream resource: free memory of different slabs serves no request "
         "together, and only whole slabs go back";
}

}  // namespace hipvmm::mr::pool
