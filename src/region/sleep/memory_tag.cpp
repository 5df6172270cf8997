// SPDX-License-Identifier: MIT
#include "region/sleep/memory_tag.hpp"

#include <iterator>
#include <stdexcept>

#include "core/capture_mode.hpp"
#include "core/observers/memory_events.hpp"
#include "region/sleep/parallel_copies.hpp"

namespace hipvmm {
namespace detail {
namespace {

std::size_t bytes_of(const std::vector<sleeping_range>& ranges) noexcept {
  std::size_t sum = 0;
  for (const sleeping_range& each : ranges) sum += each.bytes;
  return sum;
}

}  // namespace

void tag_state::require_awake(const char* function) const {
  if (!is_asleep()) return;
  throw std::logic_error{std::string{function} + ": the memory sleeps" +
                         (name_.empty() ? "" : " under the tag \"" + name_ + "\"") +
                         ": call resume() of its tag first"};
}

tag_state::member_list::iterator tag_state::join(sleeper& who) {
  member_list one;
  one.push_back({&who});
  const std::lock_guard lock{mutex_};
  members_.splice(members_.end(), one);
  return std::prev(members_.end());
}

void tag_state::leave(member_list::iterator at) noexcept {
  member_list ended;
  const std::lock_guard lock{mutex_};
  ended.splice(ended.end(), members_, at);
}

tag_statistics tag_state::statistics() {
  const std::lock_guard lock{mutex_};
  tag_statistics result{is_asleep(), members_.size(), 0, 0};
  for (const member& each : members_) {
    if (result.is_asleep) result.bytes_asleep += bytes_of(each.who->ranges());
    result.bytes_on_host += each.saved.bytes();
  }
  return result;
}

void tag_state::save_contents(sleep_storage storage) {
  std::vector<parallel_copy> copies;
  for (member& each : members_) {
    const std::vector<sleeping_range> ranges = each.who->ranges();
    each.saved = host_bytes{bytes_of(ranges), storage == sleep_storage::pinned};
    std::byte* to = each.saved.get();
    for (const sleeping_range& one : ranges) {
      copies.push_back({one.device, to, one.address, one.bytes});
      to += one.bytes;
    }
  }
  bool may_be_running = false;
  try {
    copy_in_parallel(copies, may_be_running);
  } catch (...) {
    if (may_be_running)
      for (member& each : members_) each.saved.abandon();
    throw;
  }
}

std::size_t tag_state::suspend(keep what, const suspend_options& options) {
  if (options.stream && options.stream->is_capturing())
    throw std::invalid_argument{
        "suspend: the stream is being captured into a graph, whose work no wait covers; name a "
        "stream that is not captured, or suspend when the capture has ended"};
  const events_wait later;
  const relaxed_captures others;
  const std::lock_guard lock{mutex_};
  if (is_asleep()) return 0;
  try {
    for (member& each : members_) each.who->prepare_to_sleep(what);
    if (options.stream) options.stream->synchronize();
    for (member& each : members_)
      if (!options.stream) each.who->wait_for_work();
    if (what == keep::contents) save_contents(options.storage);
    auto at = members_.begin();
    try {
      for (; at != members_.end(); ++at) at->who->unmap_to_sleep();
    } catch (...) {
      while (at != members_.begin()) (--at)->who->map_again();
      throw;
    }
  } catch (...) {
    for (member& each : members_) each.saved = {};
    throw;
  }
  asleep_.store(true, std::memory_order_release);
  std::size_t bytes = 0;
  for (member& each : members_) {
    bytes += bytes_of(each.who->ranges());
    each.who->fall_asleep();
  }
  return bytes;
}

std::size_t tag_state::resume() {
  const events_wait later;
  const relaxed_captures others;
  const std::lock_guard lock{mutex_};
  if (!is_asleep()) return 0;
  // Before anything is made, which might come to be there.
  for (member& each : members_) each.who->take_addresses_back();
  std::size_t bytes = 0;
  auto at = members_.begin();
  try {
    std::vector<parallel_copy> copies;
    for (; at != members_.end(); ++at) {
      const std::vector<sleeping_range> ranges = at->who->ranges();
      bytes += bytes_of(ranges);
      const std::byte* from = at->saved.get();
      for (const sleeping_range& one : ranges) {
        if (from == nullptr) break;
        copies.push_back({one.device, one.address, from, one.bytes});
        from += one.bytes;
      }
      at->who->begin_to_wake();
    }
    bool may_be_running = false;  // what is copied from stays; sleep_on() waits once more
    copy_in_parallel(copies, may_be_running);
  } catch (...) {
    while (at != members_.begin()) (--at)->who->sleep_on();
    throw;
  }
  for (member& each : members_) {
    each.who->finish_waking();
    each.saved = {};
  }
  asleep_.store(false, std::memory_order_release);
  return bytes;
}

}  // namespace detail

memory_tag::memory_tag(std::string name)
    : state_{std::make_shared<detail::tag_state>(std::move(name))} {}

const std::string& memory_tag::name() const noexcept { return state_->name(); }

bool memory_tag::is_asleep() const noexcept { return state_->is_asleep(); }

tag_statistics memory_tag::statistics() const { return state_->statistics(); }

std::size_t suspend(const memory_tag& tag, keep what, const suspend_options& options) {
  return tag.state()->suspend(what, options);
}

std::size_t suspend(const memory_tag& tag, keep what, stream_ref stream, sleep_storage storage) {
  return suspend(tag, what, suspend_options{storage, stream});
}

std::size_t resume(const memory_tag& tag) { return tag.state()->resume(); }

}  // namespace hipvmm
