// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/region.hpp>

#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/capability.hpp>
#include "core/check.hpp"
#include "vmm/device_work.hpp"
#include "vmm/region_allocation.hpp"
#include "vmm/region_state.hpp"

namespace hipvmm {
namespace {

/// Keeps what work may still use until the process ends.
template <typename State>
void keep_mapped(std::unique_ptr<State> ended) noexcept {
  // Never destroyed.
  static auto& kept = *new std::vector<std::unique_ptr<State>>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock{mutex};
  try {
    kept.push_back(std::move(ended));
  } catch (const std::bad_alloc&) {
    static_cast<void>(ended.release());
  }
}

}  // namespace

region::region(device_ref device, std::size_t max_bytes, region_options options) {
  require_device(device);
  if (max_bytes == 0)
    throw std::invalid_argument{"a region of 0 bytes: max_bytes must be at least 1"};
  const capability found = capability_of(device);
  if (found.path() != memory_path::fallback) {
    state_ = std::make_unique<mapped>(device, max_bytes, options, found);
  } else if (options.fallback == without_vmm::use_hip_malloc) {
    state_ = std::make_unique<allocated>(device, max_bytes, options, found);
  } else {
    throw unsupported{
        "region_options::fallback is refuse, and device " + std::to_string(device.ordinal()) +
        " offers no virtual memory management that can be used: " + found.why_fallback() +
        "; set it to without_vmm::use_hip_malloc for a region that copies when it grows"};
  }
}

region::~region() = default;
region::region(region&& other) noexcept = default;
region& region::operator=(region&& other) noexcept = default;

region::state& region::live() const {
  if (!state_) throw std::invalid_argument{"the region is empty: it was moved from"};
  return *state_;
}

void region::state::require_units(const char* function, std::size_t offset,
                                  std::size_t bytes) const {
  if (offset % granularity != 0 || bytes % granularity != 0)
    throw std::invalid_argument{std::string{"region::"} + function + ": offset " +
                                std::to_string(offset) + " and size " + std::to_string(bytes) +
                                " must be multiples of the granularity, " +
                                std::to_string(granularity) + " bytes"};
  require_within(function, offset, bytes);
}

void region::state::require_within(const char* function, std::size_t offset,
                                   std::size_t bytes) const {
  if (offset > max_bytes() || bytes > max_bytes() - offset)
    throw std::out_of_range{std::string{"region::"} + function + ": " + std::to_string(bytes) +
                            " bytes at offset " + std::to_string(offset) +
                            " exceed the region of " + std::to_string(max_bytes()) + " bytes"};
}

void region::commit(std::size_t offset, std::size_t bytes) {
  state& self = live();
  self.require_units("commit", offset, bytes);
  self.commit(offset, bytes);
}

void region::prepare(std::size_t bytes, ahead how) {
  state& self = live();
  self.require_units("prepare", 0, bytes);
  self.prepare(bytes, how);
}

std::size_t region::settle() noexcept {
  if (state_) state_->settle();
  return prepared_bytes();
}

std::size_t region::decommit(std::size_t offset, std::size_t bytes) {
  state& self = live();
  self.require_units("decommit", offset, bytes);
  return self.decommit(offset, bytes);
}

bool region::can_move_chunks() const noexcept { return state_ && state_->can_move_chunks(); }

void region::move_chunk(std::size_t from, std::size_t to) {
  state& self = live();
  self.require_units("move_chunk", to, 0);
  self.move_chunk(from, to);
}

void region::end_move(std::size_t from) { live().end_move(from); }

void region::grant(device_ref device, access_right right) { live().grant(device, right); }

std::size_t region::trim(std::size_t bytes, stream_ref stream, straddling_chunk straddling) {
  state& self = live();
  self.require_within("trim", bytes, 0);
  if (stream.is_capturing())
    throw std::invalid_argument{
        "region::trim: the stream is being captured into a graph, whose work no event tells of; "
        "name a stream that is not captured, or trim when the capture has ended"};
  return self.trim(bytes, stream, straddling);
}

void region::retire() noexcept {
  std::unique_ptr<state> ended = std::move(state_);
  if (!ended || ended->retire_all()) return;
  if (detail::outlast_captures([&] { return detail::wait_for(ended->rights); })) return;
  // Work may still use what would be unmapped.
  const std::size_t bytes = ended->committed;
  keep_mapped(std::move(ended));
  detail::report_exceptions([bytes] {
    throw std::runtime_error{"region::retire: " + format_bytes(bytes) +
                             " stay mapped until the process ends, because a stream is being "
                             "captured and HIP forbids to wait for devices meanwhile; end "
                             "captures before regions"};
  });
}

bool region::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  state& self = live();
  const std::size_t present = self.max_bytes();
  const std::size_t wanted = align_up(max_bytes, self.granularity);
  const std::size_t least = align_up(commit_bytes, self.granularity);
  if (wanted < present || least > wanted)
    throw std::invalid_argument{"region::extend: cannot hold " + std::to_string(commit_bytes) +
                                " bytes in " + std::to_string(max_bytes) +
                                ", or go below the present " + std::to_string(present)};
  return self.extend(wanted, least);
}

access_right region::access(device_ref device) const noexcept {
  return state_ ? state_->rights.get(device) : access_right::none;
}

const access_map& region::rights() const { return live().rights; }

std::size_t region::prepared_bytes() const noexcept {
  return state_ ? state_->prepared_bytes() : 0;
}

std::size_t region::failed_preparations() const noexcept {
  return state_ ? state_->failed_preparations() : 0;
}

bool region::is_address_stable() const noexcept {
  return state_ != nullptr && state_->is_address_stable();
}

void* region::base() const noexcept { return state_ ? state_->base() : nullptr; }

std::size_t region::max_bytes() const noexcept { return state_ ? state_->max_bytes() : 0; }

std::size_t region::committed_bytes() const noexcept { return state_ ? state_->committed : 0; }

std::size_t region::committed_from(std::size_t offset) const noexcept {
  return state_ ? state_->committed_from(offset) : 0;
}

std::size_t region::chunk_count() const noexcept { return state_ ? state_->chunk_count() : 0; }

std::size_t region::granularity() const noexcept { return state_ ? state_->granularity : 0; }

device_ref region::device() const { return live().device; }

}  // namespace hipvmm
