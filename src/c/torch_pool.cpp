// SPDX-License-Identifier: MIT
#include "c/torch_pool.hpp"

#include <algorithm>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/error.hpp"
#include "core/owner_process.hpp"
#include "runtime/device.hpp"

namespace hipvmm::c {

using mr::pool::graph_blocks;

namespace {

/// `stream` may be of any device. HIP before 6 does not report its device, but refuses events of
/// another. Returns false if no device has the stream.
bool wait_for(stream_ref waiter, stream_ref stream, device_ref likely) {
  const int count = device_count();
  for (int tried = 0; tried < count; ++tried) {
    const device_ref device{(likely.ordinal() + tried) % count};
    if (!detail::has_context(device)) continue;  // without a context a device has no stream
    const scoped_device scope{device};
    event passed{device};
    try {
      passed.record(stream);
    } catch (const hip_error&) {
      continue;
    }
    waiter.wait(passed);
    return true;
  }
  return false;
}

using filtering = detail::thread_mark<struct filtering_kind>;

mr::pool_options without_waits(mr::pool_options options) {
  options.reuse.allow_internal_dependencies = false;
  return options;
}

}  // namespace

torch_pool::torch_pool(device_ref device, const mr::pool_options& options)
    : pool_{device, without_waits(options)} {}

void* torch_pool::allocate(std::size_t bytes, stream_ref stream) {
  void* pointer = nullptr;
  const auto serve = [&] {
    require_below_limit(bytes);
    if (entries_ != 0 && !filtering::is_set()) pointer = allocate_in_graphs(bytes, stream);
    if (pointer != nullptr) return;
    pointer = pool_.allocate(stream, bytes);
    count(bytes);
  };
  const auto count_refusal = [this](const shortage&) {
    ++refusals_;
    return false;
  };
  static_cast<void>(detail::attempt(serve, count_refusal));
  return pointer;
}

void torch_pool::require_below_limit(std::size_t bytes) const {
  const std::size_t limit = limit_;
  if (limit == no_limit) return;
  const std::size_t before = allocated();
  if (before <= limit && bytes <= limit - before) return;
  throw out_of_memory{shortage{.cause = exhausted::limit,
                               .device = pool_.device().ordinal(),
                               .requested = bytes,
                               .available = limit - std::min(before, limit),
                               .owner = "the memory fraction",
                               .most = limit,
                               .used = before,
                               .context = "the memory fraction that was set allows " +
                                          format_limit(limit) + ", of which " +
                                          format_bytes(before) + " are allocated"}};
}

torch_pool::usage torch_pool::in_use() const noexcept {
  // Reads the smaller sums first: a difference is then never negative.
  const std::uint64_t freed_bytes = deallocations_.bytes;
  const std::uint64_t freed = deallocations_.count;
  return {static_cast<std::size_t>(allocations_.bytes - freed_bytes), allocations_.count - freed};
}

hipvmm_torch_statistics torch_pool::statistics() const noexcept {
  const usage now = in_use();
  return {sizeof(hipvmm_torch_statistics),
          now.bytes,
          peak_,
          allocations_.bytes,
          now.count,
          allocations_.count,
          refusals_};
}

void torch_pool::reset_peaks() {
  peak_ = allocated();
  pool_.reset_peaks();
}

void torch_pool::count(std::size_t bytes) noexcept {
  allocations_.add(bytes);
  const std::size_t now = allocated();
  std::size_t most = peak_;
  while (most < now && !peak_.compare_exchange_weak(most, now)) {
  }
}

std::optional<torch_pool::graphs_id> torch_pool::graphs_of(stream_ref stream) {
  std::vector<pool_choice> asked;
  {
    const locked here{*this};
    asked = pool_choices_;
  }
  const filtering no_graphs;
  for (const pool_choice& each : asked)
    if (!each.filter || (*each.filter)(stream.get())) return each.id;
  return std::nullopt;
}

void* torch_pool::allocate_in_graphs(std::size_t bytes, stream_ref stream) {
  const std::optional<graphs_id> taken = graphs_of(stream);
  const locked here{*this};
  retry_put_off();
  // Another thread may have ended the graphs meanwhile.
  if (!taken || find_pool_choice(*taken) == pool_choices_.end()) return nullptr;
  const auto owner = graphs_.find(*taken);
  void* const pointer =
      owner->second.blocks.allocate(bytes, mr::memory_resource::default_alignment, stream);
  try {
    // An existing entry is stale: its use was recorded after the deallocation.
    const auto [entry, made] = recorded_uses_.try_emplace(pointer);
    if (made) ++entries_;
    entry->second = {owner, {}};
  } catch (...) {
    owner->second.blocks.deallocate(pointer, graph_blocks::reuse::at_once);
    throw;
  }
  count(bytes);
  return pointer;
}

void torch_pool::deallocate(void* pointer, std::size_t bytes, stream_ref stream) noexcept {
  detail::report_exceptions([&] {
    if (deallocate_now(pointer, bytes, stream)) deallocations_.add(bytes);
    if (entries_ == 0) return;
    const locked here{*this};
    retry_put_off();
  });
}

bool torch_pool::deallocate_now(void* pointer, std::size_t bytes, stream_ref stream) {
  if (entries_ == 0) return pool_.try_deallocate(stream, pointer, bytes);
  const locked here{*this};
  const auto found = recorded_uses_.find(pointer);
  if (found != recorded_uses_.end()) return deallocate_recorded(found, bytes, stream);
  // A stream that is being captured may not get the memory before the capture has ended.
  if (!pool_choices_.empty()) return deallocate_after(pointer, bytes, stream, {});
  return pool_.try_deallocate(stream, pointer, bytes);
}

bool torch_pool::deallocate_recorded(use_map::iterator found, std::size_t bytes,
                                     stream_ref stream) {
  use_map::node_type taken = recorded_uses_.extract(found);
  --entries_;
  recorded_use& what = taken.mapped();
  std::erase(what.users, stream);
  if (what.owner == graphs_.end()) return deallocate_after(taken.key(), bytes, stream, what.users);
  graph_blocks& blocks = what.owner->second.blocks;
  if (what.users.empty())
    blocks.deallocate(taken.key(), graph_blocks::reuse::at_once);
  else if (any_captures(stream, what.users))
    blocks.deallocate(taken.key(), graph_blocks::reuse::after_the_capture);
  else
    blocks.deallocate_after(taken.key(), last_use(stream, what.users));
  if (what.owner->second.users == 0) release_unused(what.owner);
  return true;
}

bool torch_pool::wait_for_users(stream_ref stream, const std::vector<stream_ref>& users) {
  const device_ref device = pool_.device();
  const scoped_device scope{device};
  if (!waiting_) waiting_.emplace(device);
  return wait_for(*waiting_, stream, device) && std::ranges::all_of(users, [&](stream_ref user) {
           return wait_for(*waiting_, user, device);
         });
}

std::optional<event> torch_pool::last_use(stream_ref stream,
                                          const std::vector<stream_ref>& users) noexcept {
  std::optional<event> passed;
  detail::report_exceptions([&] {
    if (!wait_for_users(stream, users)) return;
    event recorded{pool_.device()};
    recorded.record(*waiting_);
    passed = std::move(recorded);
  });
  return passed;
}

bool torch_pool::deallocate_after(void* pointer, std::size_t bytes, stream_ref stream,
                                  const std::vector<stream_ref>& users) {
  if (any_captures(stream, users)) {
    if (std::ranges::find(deferred_frees_, pointer, &deferred_free::pointer) !=
        deferred_frees_.end()) {
      detail::warn("hipvmm_torch_free",
                   "memory that was freed before in a capture is freed again: nothing was done");
      return false;
    }
    // If there is no memory for the entry, the block stays allocated, and is reported.
    deferred_frees_.push_back({pointer, bytes, stream, users});
    ++entries_;
    return true;
  }
  if (users.empty()) return pool_.try_deallocate(stream, pointer, bytes);
  if (detail::report_exceptions([&] { return wait_for_users(stream, users); }))
    return pool_.try_deallocate(*waiting_, pointer, bytes);
  // Reused after the devices have finished their present work.
  pool_.deallocate_sync(pointer, bytes);
  return true;
}

bool torch_pool::any_captures(stream_ref stream, const std::vector<stream_ref>& users) {
  const auto captures = [](stream_ref each) {
    try {
      return each.is_capturing();
    } catch (const hip_error&) {
      return false;  // there is no such stream, or the null stream beside a capture
    }
  };
  return captures(stream) || std::ranges::any_of(users, captures);
}

void torch_pool::retry_put_off() {
  for (std::size_t index = deferred_frees_.size(); index-- > 0;) {
    if (any_captures(deferred_frees_[index].stream, deferred_frees_[index].users)) continue;
    const deferred_free ready = std::move(deferred_frees_[index]);
    deferred_frees_.erase(deferred_frees_.begin() + static_cast<std::ptrdiff_t>(index));
    --entries_;
    deallocate_after(ready.pointer, ready.bytes, ready.stream, ready.users);
  }
}

void torch_pool::record_stream(void* pointer, stream_ref stream) {
  const locked here{*this};
  const auto [found, made] = recorded_uses_.try_emplace(pointer, recorded_use{graphs_.end(), {}});
  if (made) ++entries_;
  std::vector<stream_ref>& users = found->second.users;
  if (std::ranges::find(users, stream) == users.end()) users.push_back(stream);
}

void torch_pool::erase_stream(void* pointer, stream_ref stream) noexcept {
  const locked here{*this};
  const auto found = recorded_uses_.find(pointer);
  if (found == recorded_uses_.end()) return;
  std::vector<stream_ref>& users = found->second.users;
  std::erase(users, stream);
  if (!users.empty() || found->second.owner != graphs_.end()) return;
  recorded_uses_.erase(found);
  --entries_;
}

void torch_pool::begin_graphs(graphs_id id, stream_filter filter) {
  std::shared_ptr<const stream_filter> kept;
  if (filter) kept = std::make_shared<const stream_filter>(std::move(filter));
  const locked here{*this};
  pool_choices_.reserve(pool_choices_.size() + 1);
  const auto owner = graphs_.try_emplace(id, pool_).first;
  ++owner->second.users;
  pool_choices_.push_back({id, std::move(kept)});
  ++entries_;
}

void torch_pool::end_graphs(graphs_id id) noexcept {
  detail::report_exceptions([&] {
    const locked here{*this};
    const auto ended = find_pool_choice(id);
    if (ended == pool_choices_.end()) return;
    pool_choices_.erase(ended);
    --entries_;
    const auto owner = graphs_.find(id);
    // Another capture may use them too.
    if (owner != graphs_.end() && find_pool_choice(id) == pool_choices_.end())
      owner->second.blocks.end_capture();
    retry_put_off();
  });
}

std::vector<torch_pool::pool_choice>::iterator torch_pool::find_pool_choice(graphs_id id) noexcept {
  return std::ranges::find(pool_choices_, id, &pool_choice::id);
}

void torch_pool::release_graphs(graphs_id id) noexcept {
  const locked here{*this};
  const auto owner = graphs_.find(id);
  if (owner == graphs_.end() || owner->second.users == 0) return;
  if (--owner->second.users != 0) return;
  // Routes that were not ended, for example after an error, would send requests to freed memory.
  for (auto left = find_pool_choice(id); left != pool_choices_.end(); left = find_pool_choice(id)) {
    pool_choices_.erase(left);
    --entries_;
  }
  release_unused(owner);
}

void torch_pool::release_unused(graphs_map::iterator owner) noexcept {
  if (owner->second.blocks.release_idle()) graphs_.erase(owner);
}

void torch_pool::release_idle() {
  {
    const locked here{*this};
    retry_put_off();
  }
  pool_.trim_to(0);
}

}  // namespace hipvmm::c
