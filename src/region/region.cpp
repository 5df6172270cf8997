// SPDX-License-Identifier: MIT
#include <hipvmm/region/region.hpp>

#include <algorithm>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/error.hpp"
#include "core/observers/profiler_range.hpp"
#include "core/owner_process.hpp"
#include "region/device_work.hpp"
#include "region/region_state.hpp"
#include "runtime/stream.hpp"
#include "vmm/chunk_placement.hpp"

namespace hipvmm {
namespace {

/// Never unmaps the chunks, because work may still use them.
void keep_mapped(std::unique_ptr<detail::region_state> ended) noexcept {
  static detail::never_destroyed<std::vector<std::unique_ptr<detail::region_state>>> kept;
  static std::mutex mutex;
  const std::lock_guard lock{mutex};
  try {
    kept.get().push_back(std::move(ended));
  } catch (const std::bad_alloc&) {
    static_cast<void>(ended.release());
  }
}

void require_units(const detail::region_state& self, const char* function, std::size_t offset,
                   std::size_t bytes) {
  if (offset % self.granularity != 0 || bytes % self.granularity != 0)
    throw std::invalid_argument{std::string{"region::"} + function + ": offset " +
                                std::to_string(offset) + " and size " + std::to_string(bytes) +
                                " must be multiples of the granularity, " +
                                std::to_string(self.granularity) + " bytes"};
  self.require_within(function, offset, bytes);
}

/// The destructor reports the bytes that the call added or released as an event at `offset`, also
/// if the call failed.
class size_change {
 public:
  size_change(const char* name, detail::region_state& of, std::size_t offset) noexcept
      : range_{name}, of_{of}, offset_{offset}, before_{of.committed} {}
  ~size_change() {
    const std::size_t now = of_.committed;
    if (now > before_) report(memory_event_kind::grow, now - before_);
    if (now < before_) report(memory_event_kind::trim, before_ - now);
  }
  size_change& operator=(size_change&&) = delete;

  /// In a catch block: cleans up, reports a shortage as an event, and rethrows.
  [[noreturn]] void fail(std::size_t bytes) {
    of_.reclaim_pinned_if_empty();
    const auto note = [&](const shortage&) {
      report(memory_event_kind::out_of_memory, bytes);
      return false;
    };
    static_cast<void>(detail::attempt([] { throw; }, note));
    throw;
  }

 private:
  void report(memory_event_kind kind, std::size_t bytes) const noexcept {
    of_.report(kind, {.address = of_.address_of(offset_), .bytes = bytes});
  }

  const detail::events_wait until_done_;
  const detail::profiler_range range_;
  detail::region_state& of_;
  std::size_t offset_;
  std::size_t before_;
};

constexpr const char* growth_range = "hipvmm region: growth";
constexpr const char* trim_range = "hipvmm region: trim";

void report_changes(const detail::region_state& self, const std::vector<access_desc>& changed,
                    detail::event_details details) noexcept {
  for (const access_desc& each : changed) {
    details.peer = each.device.ordinal();
    self.report(
        each.right == access_right::none ? memory_event_kind::revoke : memory_event_kind::grant,
        details);
  }
}

/// Reads while no eviction changes the region; a default value if it was moved from.
template <typename Read>
auto when_still(const detail::region_state* self, Read read) -> decltype(read(*self)) {
  if (self == nullptr) return {};
  const auto still = self->membership.hold_still();
  return read(*self);
}

}  // namespace

region::region(device_ref device, std::size_t max_bytes, const region_options& options)
    : region{device, max_bytes, options, nullptr} {}

region::region(device_ref device, std::size_t max_bytes, const region_options& options,
               void* address) {
  require_device(device);
  if (max_bytes == 0)
    throw std::invalid_argument{"a region of 0 bytes: max_bytes must be at least 1"};
  const capability found = capability_of(device);
  if (found.path() == memory_path::fallback)
    throw unsupported{
        "a region on device " + std::to_string(device.ordinal()) +
        ", which offers no virtual memory management that can be used: " + found.why_fallback() +
        "; use growable_device_vector or vmm_pool_resource, which use hipMalloc there"};
  state_ = std::make_unique<detail::region_state>(device, max_bytes, options, found, address);
}

region::~region() {
  if (state_ && state_->process.is_of_parent()) static_cast<void>(state_.release());
}
region::region(region&& other) noexcept = default;
region& region::operator=(region&& other) noexcept {
  region moved{std::move(other)};
  state_.swap(moved.state_);
  return *this;
}

detail::region_state& region::live() const {
  if (!state_) throw std::invalid_argument{"the region is empty: it was moved from"};
  state_->process.require_own();
  return *state_;
}

detail::region_state& detail::implementation_of(const region& of) { return of.live(); }

bool region::is_asleep() const noexcept { return state_ && state_->membership.is_asleep(); }

void region::commit(std::size_t offset, std::size_t bytes, std::size_t largest_chunk) {
  detail::region_state& self = live().awake("region::commit");
  require_units(self, "commit", offset, bytes);
  if (largest_chunk != one_chunk && (largest_chunk == 0 || largest_chunk % self.granularity != 0))
    throw std::invalid_argument{"region::commit: chunks of " + std::to_string(largest_chunk) +
                                " bytes must have a positive multiple of the granularity, " +
                                std::to_string(self.granularity) + " bytes"};
  size_change added{growth_range, self, offset};
  try {
    self.commit(offset, bytes, largest_chunk);
  } catch (...) {
    added.fail(bytes);
  }
}

void region::adopt(std::size_t offset, physical_chunk&& chunk) {
  std::map<std::size_t, physical_chunk> one;
  physical_chunk& held = one[offset];
  held = std::move(chunk);
  try {
    detail::adopt_chunks(*this, one);
  } catch (...) {
    chunk = std::move(held);
    throw;
  }
}

void detail::adopt_chunks(region& in, std::map<std::size_t, physical_chunk>& chunks) {
  region_state& self = implementation_of(in).awake("region::adopt");
  const std::vector<device_ref> devices = devices_of(self.options.placement, self.device);
  std::size_t bytes = 0;
  for (const auto& [offset, chunk] : chunks) {
    if (chunk.empty())
      throw std::invalid_argument{"region::adopt: the chunk is empty: it was moved from"};
    require_units(self, "adopt", offset, chunk.bytes());
    if (std::ranges::find(devices, chunk.device()) == devices.end()) {
      std::string text = "region::adopt: the chunk is memory of device " +
                         std::to_string(chunk.device().ordinal()) +
                         ", and the region takes chunks of device";
      for (const device_ref each : devices) text.append(" ").append(std::to_string(each.ordinal()));
      throw std::invalid_argument{text};
    }
    bytes += chunk.bytes();
  }
  if (chunks.empty()) return;
  size_change added{growth_range, self, chunks.begin()->first};
  try {
    self.adopt(chunks);
  } catch (...) {
    added.fail(bytes);
  }
}

std::vector<chunk_view> region::chunks() const {
  return when_still(state_.get(), [](const auto& self) { return self.chunks(); });
}

std::vector<exported_chunk> region::export_chunks(std::uint64_t since) {
  return live().awake("region::export_chunks").export_chunks(since);
}

std::vector<exported_fabric_chunk> region::export_fabric_chunks(std::uint64_t since) {
  return live().awake("region::export_fabric_chunks").export_fabric_chunks(since);
}

exported_range region::export_range(std::size_t offset, std::size_t bytes) {
  detail::region_state& self = live().awake("region::export_range");
  self.require_within("export_range", offset, bytes);
  return self.export_range(offset, bytes);
}

void region::prepare(std::size_t bytes, prefetch_level how) {
  detail::region_state& self = live().awake("region::prepare");
  require_units(self, "prepare", 0, bytes);
  self.prepare(bytes, how);
}

std::size_t region::cancel_or_wait() noexcept {
  if (!state_) return 0;
  const auto still = state_->membership.hold_still();
  return state_->prefetch.cancel_or_wait();
}

std::size_t region::decommit(std::size_t offset, std::size_t bytes) {
  detail::region_state& self = live().awake("region::decommit");
  require_units(self, "decommit", offset, bytes);
  const size_change released{trim_range, self, offset};
  return self.decommit(offset, bytes);
}

std::size_t region::decommit(std::size_t offset, std::size_t bytes, stream_ref stream) {
  detail::region_state& self = live().awake("region::decommit");
  require_units(self, "decommit", offset, bytes);
  detail::require_not_captured("region::decommit", stream);
  const size_change released{trim_range, self, offset};
  return self.decommit(offset, bytes, stream);
}

bool region::can_move_chunks() const noexcept { return state_ && state_->strategy->second_address; }

void region::move_chunk(std::size_t from, std::size_t to) {
  detail::region_state& self = live().awake("region::move_chunk");
  require_units(self, "move_chunk", to, 0);
  self.move_chunks({from}, to);
}

void region::end_move(std::size_t from) { live().awake("region::end_move").end_move(from); }

std::size_t region::move_range(std::size_t offset, std::size_t bytes, memory_location to,
                               stream_ref stream) {
  detail::region_state& self = live().awake("region::move_range");
  require_units(self, "move_range", offset, bytes);
  if (to.device()) require_device(*to.device());
  detail::require_not_captured("region::move_range", stream);
  return self.move_range(offset, bytes, to, stream);
}

void region::grant(device_ref device, access_right right) {
  detail::region_state& self = live().awake("region::grant");
  self.grant(device, right);
  self.report(right == access_right::none ? memory_event_kind::revoke : memory_event_kind::grant,
              {.address = self.address_of(0), .peer = device.ordinal()});
}

void region::set_access(const access_list& rights) {
  detail::region_state& self = live().awake("region::set_access");
  report_changes(self, self.set_access(rights), {.address = self.address_of(0)});
}

void region::set_access(std::size_t offset, std::size_t bytes, const access_list& rights) {
  detail::region_state& self = live().awake("region::set_access");
  self.require_within("set_access", offset, bytes);
  report_changes(self, self.set_access(offset, bytes, rights),
                 {.address = self.address_of(offset), .bytes = bytes});
}

const access_map& region::rights_at(std::size_t offset) const {
  return live().awake("region::rights_at").rights_at(offset);
}

std::vector<chunk_access> region::effective_access(std::size_t offset, std::size_t bytes) const {
  detail::region_state& self = live().awake("region::effective_access");
  self.require_within("effective_access", offset, bytes);
  return self.effective_access(offset, bytes);
}

std::size_t region::trim(std::size_t bytes, stream_ref stream, tail_chunk tail) {
  detail::region_state& self = live().awake("region::trim");
  self.require_within("trim", bytes, 0);
  detail::require_not_captured("region::trim", stream);
  const size_change released{trim_range, self, bytes};
  return self.trim(bytes, stream, tail);
}

void region::retire() noexcept {
  std::unique_ptr<detail::region_state> ended = std::move(state_);
  if (ended && ended->process.is_of_parent()) static_cast<void>(ended.release());
  if (!ended || ended->retire_all()) return;
  if (detail::wait_past_captures(ended->users)) return;
  const std::size_t bytes = ended->committed;
  keep_mapped(std::move(ended));
  detail::report_exceptions([bytes] {
    throw std::runtime_error{"region::retire: " + format_bytes(bytes) +
                             " stay mapped until the process ends, because HIP refuses to wait "
                             "for devices, as it does while a stream is being captured; end "
                             "captures before regions"};
  });
}

bool region::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  detail::region_state& self = live().awake("region::extend");
  const std::size_t present = self.max_bytes();
  const std::size_t wanted = align_up(max_bytes, self.granularity);
  const std::size_t least = align_up(commit_bytes, self.granularity);
  if (wanted < present || least > wanted)
    throw std::invalid_argument{"region::extend: cannot hold " + std::to_string(commit_bytes) +
                                " bytes in " + std::to_string(max_bytes) +
                                ", or go below the present " + std::to_string(present) +
                                ": raise max_bytes or commit less"};
  size_change added{growth_range, self, 0};
  try {
    return self.extend(wanted, least);
  } catch (...) {
    added.fail(least);
  }
}

void region::rebase(std::size_t from, std::size_t max_bytes, std::size_t commit_bytes) {
  detail::region_state& self = live().awake("region::rebase");
  require_units(self, "rebase", from, 0);
  const std::size_t wanted = align_up(max_bytes, self.granularity);
  const std::size_t least = align_up(commit_bytes, self.granularity);
  if (wanted == 0 || least > wanted)
    throw std::invalid_argument{"region::rebase: cannot hold " + std::to_string(commit_bytes) +
                                " bytes in " + std::to_string(max_bytes) +
                                ": raise max_bytes or commit less"};
  if (has_backing_within(self.backings, 0, from))
    throw std::invalid_argument{"region::rebase: something is backed before offset " +
                                std::to_string(from) + ": decommit it first"};
  size_change added{growth_range, self, 0};
  try {
    self.rebase(from, wanted, least);
  } catch (...) {
    added.fail(least);
  }
}

access_right region::access(device_ref device) const noexcept {
  return state_ ? state_->rights.get(device) : access_right::none;
}

const access_map& region::rights() const { return live().rights; }

std::size_t region::prepared_bytes() const noexcept {
  return when_still(state_.get(), [](const auto& self) { return self.prefetch.ready_bytes(); });
}

std::size_t region::failed_preparations() const noexcept {
  return state_ ? state_->prefetch.failures() : 0;
}

void* region::base() const noexcept { return state_ ? state_->base() : nullptr; }

std::size_t region::max_bytes() const noexcept { return state_ ? state_->max_bytes() : 0; }

std::size_t region::committed_bytes() const noexcept {
  return when_still(state_.get(), [](const auto& self) { return self.committed; });
}

std::size_t region::committed_from(std::size_t offset) const noexcept {
  return when_still(state_.get(), [&](const auto& self) { return self.committed_from(offset); });
}

std::size_t region::chunk_count() const noexcept {
  return when_still(state_.get(), [](const auto& self) { return self.backings.size(); });
}

std::size_t region::chunk_bytes_at(std::size_t offset) const noexcept {
  return when_still(state_.get(), [&](const auto& self) { return self.chunk_bytes_at(offset); });
}

std::size_t region::granularity() const noexcept { return state_ ? state_->granularity : 0; }

std::uint64_t region::event_id() const noexcept { return state_ ? state_->event_id : 0; }

device_ref region::device() const { return live().device; }

}  // namespace hipvmm
