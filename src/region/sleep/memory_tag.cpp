// SPDX-License-Identifier: MIT
#include "region/sleep/memory_tag.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include <hipvmm/core/bytes.hpp>
#include "core/capture_mode.hpp"
#include "core/hip_compat.hpp"
#include "core/observers/memory_events.hpp"
#include "region/sleep/parallel_copies.hpp"
#include "runtime/device.hpp"

namespace hipvmm {
namespace detail {
namespace {

std::size_t bytes_of(const std::vector<sleeping_range>& ranges) noexcept {
  std::size_t sum = 0;
  for (const sleeping_range& each : ranges) sum += each.bytes;
  return sum;
}

}  // namespace

std::string tag_state::refusal(const char* function) const {
  return std::string{function} + ": the memory sleeps" +
         (name_.empty() ? "" : " under the tag \"" + name_ + "\"") +
         ": call resume() of its tag first";
}

void tag_state::require_awake(const char* function) const {
  if (is_asleep()) throw std::logic_error{refusal(function)};
}

class tag_state::turn {
 public:
  explicit turn(tag_state& of) : of_{of} {
    const auto lock = of_.lock_when_still();
    of_.is_turn_ = true;
  }
  ~turn() {
    {
      const std::lock_guard lock{of_.mutex_};
      for (member& each : of_.members_) {
        each.bytes_asleep = of_.is_asleep() ? each.who->sleeping_bytes() : 0;
        each.bytes_on_host = each.saved.bytes();
        each.bytes_on_disk = each.file.bytes();
      }
      of_.is_turn_ = false;
    }
    of_.turn_ended_.notify_all();
  }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

  void enter(tag_phase next) noexcept { of_.phase_.store(next, std::memory_order_release); }

 private:
  tag_state& of_;
};

std::unique_lock<std::mutex> tag_state::lock_when_still() {
  std::unique_lock lock{mutex_};
  turn_ended_.wait(lock, [this] { return !is_turn_; });
  return lock;
}

tag_state::member_list::iterator tag_state::join(sleeper& who) {
  member_list one;
  one.push_back({&who});
  const auto lock = lock_when_still();
  if (is_asleep()) who.begin_asleep();
  members_.splice(members_.end(), one);
  return std::prev(members_.end());
}

void tag_state::leave(member_list::iterator at) noexcept {
  member_list ended;
  parallel_copies streams;
  const auto lock = lock_when_still();
  ended.splice(ended.end(), members_, at);
  if (members_.empty()) streams.swap(copies_);
}

tag_statistics tag_state::statistics() {
  const std::lock_guard lock{mutex_};
  tag_statistics result{is_asleep(), members_.size(), 0, 0, 0};
  for (const member& each : members_) {
    result.bytes_asleep += each.bytes_asleep;
    result.bytes_on_host += each.bytes_on_host;
    result.bytes_on_disk += each.bytes_on_disk;
  }
  return result;
}

/// Copies that are made beside the calls for chunks.
struct tag_state::slow_copies {
  file_copies files;
  copy_jobs jobs;  // last: they use the files
};

template <class Copy>
void tag_state::member::cut(Copy copy) const {
  std::size_t offset = bytes_of(contents);
  for (auto one = contents.rbegin(); one != contents.rend(); ++one) {
    for (std::size_t left = one->bytes; left != 0;) {
      const std::size_t part = std::min(left, parallel_copies::piece_bytes);
      left -= part;
      offset -= part;
      copy(one->device, static_cast<const std::byte*>(one->address) + left, part, offset);
    }
  }
}

void tag_state::member::submit(parallel_copies& copies) {
  // Behind fewer bytes an event costs more than what is unmapped the sooner.
  constexpr std::size_t least_bytes = 8 * MiB;
  const std::byte* marked_end = nullptr;
  std::size_t unmarked = 0;
  const bool is_told = !hip_compat::events_pass_before_copies(runtime_version());
  const auto mark = [&] {
    if (unmarked != 0 && is_told) marks.push_back({marked_end, copies.mark()});
    unmarked = 0;
  };
  cut([&](device_ref device, const std::byte* from, std::size_t bytes, std::size_t offset) {
    if (unmarked == 0) marked_end = from + bytes;
    copies.add(device, saved.get() + offset, from, bytes);
    unmarked += bytes;
    if (unmarked >= least_bytes) mark();
  });
  mark();
}

void tag_state::member::wait_for_copies(const void* address, copy_jobs& jobs) {
  for (; !marks.empty() && marks.front().end > address; marks.pop_front()) {
    for (const event& each : marks.front().events) each.synchronize();
    jobs.wait_for(marks.front().jobs);
  }
}

void tag_state::save_contents(sleep_storage storage, copy_jobs& jobs) {
  for (member& each : members_) {
    each.contents = each.who->contents();
    const std::size_t bytes = bytes_of(each.contents);
    const bool may_reuse = storage != sleep_storage::pageable && each.saved.is_pinned();
    if (may_reuse && each.saved.bytes() >= bytes) continue;
    each.saved = {};  // before there is more
    each.keeps_host_bytes = false;
    each.saved = host_bytes{bytes, storage != sleep_storage::pageable};
  }
  if (storage != sleep_storage::pageable) {
    for (member& each : members_) each.submit(copies_);
    wait_where_events_pass_early(jobs);
    return;
  }
  for (member& each : members_) {
    each.cut([&](device_ref device, const std::byte* from, std::size_t bytes, std::size_t offset) {
      jobs.add([this, device, to = each.saved.get() + offset, from, bytes] {
        copies_.add(device, to, from, bytes);
        for (const event& behind : copies_.mark()) behind.synchronize();
      });
      each.marks.push_back({from + bytes, {}, jobs.added()});
    });
  }
  wait_where_events_pass_early(jobs);
}

void tag_state::wait_where_events_pass_early(copy_jobs& jobs) {
  if (!hip_compat::events_pass_before_copies(runtime_version())) return;
  jobs.wait_for(jobs.added());
  copies_.finish();
  for (member& each : members_) each.marks.clear();
}

void tag_state::save_to_files(const std::string& folder, slow_copies& slow) {
  // All room first.
  for (member& each : members_) {
    each.saved = {};
    each.contents = each.who->contents();
    each.file = backup_file{folder, bytes_of(each.contents)};
  }
  for (member& each : members_) {
    each.cut([&](device_ref device, const std::byte* from, std::size_t bytes, std::size_t offset) {
      slow.jobs.add([&to = slow.files, &file = each.file, device, from, bytes, offset] {
        to.save(device, from, bytes, file, offset);
      });
      // It is written when its buffer serves the next copy but one.
      each.marks.push_back({from + bytes, {}, slow.jobs.added() + 2});
    });
  }
  slow.jobs.add([&to = slow.files] { to.finish(); });
}

void tag_state::unmap_all(copy_jobs& jobs) {
  auto at = members_.begin();
  try {
    for (; at != members_.end(); ++at)
      at->who->unmap_to_sleep([&](const void* address) { at->wait_for_copies(address, jobs); });
    jobs.wait_for(jobs.added());
    copies_.finish();
  } catch (...) {
    jobs.cancel();
    while (at != members_.begin()) (--at)->who->map_again();
    throw;
  }
}

std::size_t tag_state::suspend(keep what, const suspend_options& options) {
  if (options.stream && options.stream->is_capturing())
    throw std::invalid_argument{
        "suspend: the stream is being captured into a graph, whose work no wait covers; name a "
        "stream that is not captured, or suspend when the capture has ended"};
  const callbacks_wait later;
  const relaxed_captures others;
  turn mine{*this};
  if (is_asleep()) return 0;
  mine.enter(tag_phase::falling_asleep);
  const bool keeps_host_bytes = options.storage == sleep_storage::pinned_kept;
  for (member& each : members_) each.keeps_host_bytes = keeps_host_bytes && each.saved.is_pinned();
  keeps_streams_ = what == keep::contents && keeps_host_bytes;
  slow_copies slow;
  auto prepared = members_.begin();
  try {
    for (; prepared != members_.end(); ++prepared) prepared->who->prepare_to_sleep(what);
    if (options.stream) options.stream->synchronize();
    for (member& each : members_)
      if (!options.stream) each.who->wait_for_work();
    if (what == keep::contents && options.storage == sleep_storage::file) {
      save_to_files(options.folder, slow);
    } else if (what == keep::contents) {
      save_contents(options.storage, slow.jobs);
    } else {
      for (member& each : members_) each.saved = {};
    }
    unmap_all(slow.jobs);
  } catch (...) {
    slow.jobs.cancel();
    static_cast<void>(slow.files.drain());
    if (!copies_.drain())
      for (member& each : members_) each.saved.abandon();
    copies_.end_streams();
    while (prepared != members_.begin()) (--prepared)->who->stay_awake();
    for (member& each : members_) each.forget();
    mine.enter(tag_phase::awake);
    throw;
  }
  mine.enter(tag_phase::asleep);
  std::size_t bytes = 0;
  for (member& each : members_) {
    each.keeps_host_bytes = keeps_host_bytes;
    bytes += each.who->sleeping_bytes();
    each.who->fall_asleep();
  }
  if (!keeps_streams_) copies_.end_streams();
  return bytes;
}

void tag_state::wake(member& one, slow_copies& slow) {
  // Contents and parts both come by address.
  auto next = one.contents.begin();
  std::size_t from = 0;  // in what is saved
  std::size_t done = 0;  // of *next
  one.who->begin_to_wake([&](void* address, std::size_t bytes) {
    const auto* const end = static_cast<const std::byte*>(address) + bytes;
    while (next != one.contents.end()) {
      std::byte* const to = static_cast<std::byte*>(next->address) + done;
      if (to >= end) return;
      const std::size_t here = std::min(next->bytes - done, static_cast<std::size_t>(end - to));
      if (one.saved.is_pinned())
        copies_.add(next->device, to, one.saved.get() + from, here);
      else
        slow.jobs.add([this, &one, &files = slow.files, device = next->device, to, from, here] {
          if (one.file.empty())
            copies_.add(device, to, one.saved.get() + from, here);
          else
            files.load(device, to, here, one.file, from);
        });
      from += here;
      done += here;
      if (done < next->bytes) return;
      done = 0;
      ++next;
    }
  });
}

std::size_t tag_state::resume() {
  const callbacks_wait later;
  const relaxed_captures others;
  turn mine{*this};
  if (!is_asleep()) return 0;
  mine.enter(tag_phase::waking);
  std::size_t bytes = 0;
  slow_copies slow;
  auto at = members_.begin();
  try {
    // Before anything is made, which might come to be there.
    for (member& each : members_) each.who->take_addresses_back();
    while (at != members_.end()) {
      member& one = *at++;
      bytes += one.who->sleeping_bytes();
      wake(one, slow);
    }
    slow.jobs.wait_for(slow.jobs.added());
    slow.files.finish();
    copies_.finish();
    for (member& each : members_) each.who->apply_rights();
  } catch (...) {
    slow.jobs.cancel();
    const bool from_file_ended = slow.files.drain();
    const bool may_be_in_use = !copies_.drain() || !from_file_ended;
    while (at != members_.begin()) (--at)->who->sleep_on(may_be_in_use);
    copies_.end_streams();
    mine.enter(tag_phase::asleep);
    throw;
  }
  for (member& each : members_) {
    each.who->finish_waking();
    each.forget();
  }
  if (!keeps_streams_) copies_.end_streams();
  mine.enter(tag_phase::awake);
  return bytes;
}

}  // namespace detail

memory_tag::memory_tag(std::string name)
    : state_{std::make_shared<detail::tag_state>(std::move(name))} {}

const std::string& memory_tag::name() const noexcept { return state_->name(); }

tag_phase memory_tag::phase() const noexcept { return state_->phase(); }

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
