// SPDX-License-Identifier: MIT
#include "region/sleep/memory_tag.hpp"

#include <iterator>
#include <stdexcept>

#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/observers/memory_events.hpp"
#include "runtime/stream.hpp"

namespace hipvmm {
namespace detail {
namespace {

/// For require_awake_at().
struct sleeping_tags {
  std::mutex mutex;
  std::vector<tag_state*> all;
  std::atomic<std::size_t> count{0};
  owner_process process;  // of the tags

  void note(tag_state& tag, bool sleeps) {
    const std::lock_guard lock{mutex};
    if (process.is_of_parent()) {
      all.clear();
      process = {};
    }
    const auto at = std::ranges::find(all, &tag);
    if (sleeps && at == all.end()) all.push_back(&tag);
    if (!sleeps && at != all.end()) all.erase(at);
    count.store(all.size(), std::memory_order_release);
  }
};

}  // namespace

void require_awake_at(const void* address, const char* function) {
  sleeping_tags& tags = only<sleeping_tags>();
  if (tags.count.load(std::memory_order_acquire) == 0) return;
  tags.process.require_own();
  const std::lock_guard lock{tags.mutex};
  for (tag_state* const each : tags.all)
    if (each->has(address)) each->require_awake(function);
}

tag_state::~tag_state() {
  if (!process_.is_of_parent()) only<sleeping_tags>().note(*this, false);
}

bool tag_state::has(const void* address) {
  const std::lock_guard lock{mutex_};
  return std::ranges::any_of(members_, [address](const member& each) {
    return has_address(each.who->addresses_of(), address) &&
           std::ranges::none_of(each.staying.ranges, [address](const auto& one) {
             return has_address({one.address, one.bytes}, address);
           });
  });
}

std::string tag_state::refusal(const char* function) const {
  return std::string{function} + ": the memory sleeps" +
         (name_.empty() ? "" : " under the tag \"" + name_ + "\"") +
         ": call resume() of its tag first";
}

void tag_state::require_awake(const char* function) const {
  if (is_asleep()) throw std::logic_error{refusal(function)};
  if (eviction_.load(std::memory_order_relaxed) == eviction::possible)
    throw std::logic_error{std::string{function} +
                           ": the memory may be evicted: call use() of its evictable first"};
}

class tag_state::turn {
 public:
  explicit turn(tag_state& of) : turn{of, of.lock_when_still()} {}
  /// Pre: `lock` holds the mutex, and no turn is under way.
  turn(tag_state& of, const std::unique_lock<std::mutex>& lock) : of_{of} {
    static_cast<void>(lock);
    of_.is_turn_ = true;
  }
  ~turn() {
    // Without host memory for this, require_awake_at() does not refuse the memory.
    report_exceptions([this] { only<sleeping_tags>().note(of_, of_.is_asleep()); });
    {
      const std::lock_guard lock{of_.mutex_};
      for (member& each : of_.members_) {
        each.bytes_asleep = of_.is_asleep() ? each.who->sleeping_bytes() : 0;
        each.bytes_on_host = each.saved.bytes();
        each.bytes_on_disk = each.file.bytes();
        if (!of_.is_asleep()) each.staying = {};
      }
      of_.is_turn_ = false;
    }
    of_.turn_ended_.notify_all();
  }
  turn& operator=(turn&&) = delete;

  void enter(tag_phase next) noexcept { of_.phase_.store(next, std::memory_order_release); }

 private:
  const callbacks_wait later_;
  const relaxed_captures others_;
  tag_state& of_;
};

std::unique_lock<std::mutex> tag_state::lock_when_still() {
  process_.require_own();
  std::unique_lock lock{mutex_};
  turn_ended_.wait(lock, [this] { return !is_turn_; });
  return lock;
}

std::unique_lock<std::mutex> tag_state::hold_still() {
  return process_.is_of_parent() ? std::unique_lock<std::mutex>{} : lock_when_still();
}

tag_state::member_list::iterator tag_state::join(sleep_participant& who) {
  member_list one;
  one.push_back({&who});
  const auto lock = lock_when_still();
  if (is_asleep()) who.begin_asleep();
  members_.splice(members_.end(), one);
  return std::prev(members_.end());
}

void tag_state::leave(member_list::iterator at) noexcept {
  if (process_.is_of_parent()) return;
  member_list ended;
  parallel_copies streams;
  const auto lock = lock_when_still();
  ended.splice(ended.end(), members_, at);
  if (members_.empty()) streams.swap(copies_);
}

tag_statistics tag_state::statistics() {
  process_.require_own();
  const std::lock_guard lock{mutex_};
  tag_statistics result{is_asleep(), members_.size(), 0, 0, 0, 0};
  for (const member& each : members_) {
    result.bytes_asleep += each.bytes_asleep;
    result.bytes_on_host += each.bytes_on_host;
    result.bytes_on_disk += each.bytes_on_disk;
    if (result.is_asleep) result.bytes_mapped += each.staying.bytes;
  }
  return result;
}

void tag_state::unmap_all(copy_jobs& jobs) {
  for (member& each : members_)
    each.who->unmap_to_sleep([&](const void* address) { each.wait_for_copies(address, jobs); });
  jobs.wait_for(jobs.added());
  copies_.finish();
}

void tag_state::map_all_again(turn& mine, const std::exception_ptr& cause) {
  try {
    for (const member& each : members_) each.who->map_again();
    is_torn_ = false;
  } catch (...) {
    is_torn_ = true;
    mine.enter(tag_phase::asleep);
    // The handler gets the failure of the suspend, once; the exception has that of the undo.
    if (cause) report_exceptions([&] { std::rethrow_exception(cause); });
    throw_with_context("the tag" + (name_.empty() ? "" : " \"" + name_ + "\"") +
                       " sleeps and holds all of its memory: resume() maps the rest");
  }
}

std::size_t tag_state::end_torn_sleep(turn& mine) {
  map_all_again(mine, nullptr);
  std::size_t bytes = 0;
  for (const member& each : members_) {
    bytes += each.who->sleeping_bytes();
    each.who->be_awake();
  }
  mine.enter(tag_phase::awake);
  return bytes;
}

std::size_t tag_state::prepare_suspend(keep what, const suspend_options& options) {
  if (options.storage != sleep_storage::pinned && options.storage != sleep_storage::pinned_kept)
    throw std::invalid_argument{
        "prepare_suspend: it makes only pinned memory ahead, which takes longer to make than to "
        "fill; suspend() itself makes pageable memory and files"};
  const sleep_plan plan{what, options.ranges};
  turn mine{*this};
  if (is_asleep()) throw std::logic_error{refusal("prepare_suspend")};
  require_members_have(plan.ranges());
  return pin_host_memory(plan);
}

std::size_t tag_state::suspend(keep what, const suspend_options& options) {
  if (options.stream) require_not_captured("suspend", *options.stream);
  const sleep_plan plan{what, options.ranges};
  turn mine{*this};
  return finish_suspend(mine, plan, options, false);
}

std::optional<std::size_t> tag_state::evict(keep what, const suspend_options& options,
                                            bool is_unchanged) {
  const sleep_plan plan{what, options.ranges, false};
  std::unique_lock lock{mutex_};
  if (is_turn_) return std::nullopt;
  turn mine{*this, lock};
  lock.unlock();
  return finish_suspend(mine, plan, options, is_unchanged);
}

void tag_state::read_awake(const char* function, const std::optional<stream_ref>& stream,
                           const std::function<void(const member_list&)>& body) {
  if (stream) require_not_captured(function, *stream);
  const turn mine{*this};
  if (is_asleep()) throw std::logic_error{refusal(function)};
  const sleep_plan plan = sleep_plan::to_read();
  const auto awake = [](sleep_participant* who) { who->be_awake(); };
  std::vector<std::unique_ptr<sleep_participant, decltype(awake)>> prepared;
  prepared.reserve(members_.size());
  for (const member& each : members_) {
    prepared.emplace_back(each.who, awake);
    each.who->prepare_to_sleep(plan);
  }
  if (stream) stream->synchronize();
  for (const member& each : members_)
    if (!stream) each.who->wait_for_work();
  body(members_);
}

void tag_state::wait_for_work() {
  const turn mine{*this};
  if (is_asleep()) return;
  for (const member& each : members_) each.who->wait_for_work();
}

std::size_t tag_state::bytes_to_evict(const suspend_options& options) {
  const sleep_plan plan{keep::contents, options.ranges, false};
  std::unique_lock lock{mutex_};
  // Memory that a failed suspend() or resume() left can be released too.
  const bool is_there = !is_asleep() || is_torn_ || is_half_resumed_;
  if (is_turn_ || !is_there) return 0;
  const turn mine{*this, lock};
  lock.unlock();
  std::size_t sum = 0;
  for (const member& each : members_) {
    const std::size_t held = is_half_resumed_ ? each.who->sleeping_bytes() : each.who->held_bytes();
    sum += held - std::min(held, each.who->staying(plan).bytes);
  }
  return sum;
}

std::size_t tag_state::finish_suspend(turn& mine, const sleep_plan& plan,
                                      const suspend_options& options, bool is_unchanged) {
  if (is_torn_) static_cast<void>(end_torn_sleep(mine));
  if (is_half_resumed_) static_cast<void>(wake_all(mine));
  if (is_asleep()) return 0;
  require_members_have(plan.ranges());
  mine.enter(tag_phase::falling_asleep);
  const bool keeps_host_bytes = options.storage == sleep_storage::pinned_kept;
  for (member& each : members_) each.bytes_kept = each.saved.bytes();
  keeps_streams_ = plan.may_copy() && keeps_host_bytes;
  slow_copies slow;
  auto prepared = members_.begin();
  bool may_be_unmapped = false;
  try {
    while (prepared != members_.end()) (prepared++)->who->prepare_to_sleep(plan);
    if (options.stream) options.stream->synchronize();
    for (member& each : members_)
      if (plan.waits() && !options.stream) each.who->wait_for_work();
    choose_contents(plan);
    if (plan.may_copy() && options.storage == sleep_storage::file) {
      save_to_files(options.folder, slow);
    } else if (plan.may_copy()) {
      save_contents(options.storage, is_unchanged, slow.jobs);
    }
    may_be_unmapped = true;
    unmap_all(slow.jobs);
  } catch (...) {
    slow.jobs.cancel();
    static_cast<void>(slow.files.drain());
    if (!copies_.drain())
      for (member& each : members_) each.saved.abandon();
    copies_.end_streams();
    for (member& each : members_) {
      each.copied.clear();
      each.forget();
    }
    if (may_be_unmapped) map_all_again(mine, std::current_exception());
    while (prepared != members_.begin()) (--prepared)->who->be_awake();
    mine.enter(tag_phase::awake);
    throw;
  }
  mine.enter(tag_phase::asleep);
  restores_nothing_ = plan.restores_nothing();
  std::size_t bytes = 0;
  for (member& each : members_) {
    if (!plan.may_copy() || options.storage == sleep_storage::file) {
      each.saved = {};
      each.copied.clear();
    }
    each.bytes_kept = keeps_host_bytes ? each.saved.bytes() : 0;
    bytes += each.who->sleeping_bytes();
    each.who->finish_suspend();
  }
  if (!keeps_streams_) copies_.end_streams();
  return bytes;
}

void tag_state::wake(member& one, slow_copies& slow, memory_to_make& left) {
  auto next = one.contents.begin();  // by address, as the calls of `fill`
  std::size_t from = 0;              // in the saved bytes
  std::size_t done = 0;              // of *next
  const std::size_t all = bytes_of(one.contents);
  // In the thread of slow.jobs: copies that block, and copies from pinned memory that free_copied()
  // frees, because a driver waits at each free for all submitted copies. The copies to several
  // devices are submitted at once instead, to use all of their links.
  const bool in_thread = !one.saved.is_pinned() || (slow.is_one_device && one.bytes_kept == 0);
  one.marks.clear();
  auto zeros = one.zeros.begin();
  const auto fill_zeros = [&](std::byte* address, const std::byte* end) {
    for (; zeros != one.zeros.end(); ++zeros) {
      std::byte* const start = std::max(static_cast<std::byte*>(zeros->address), address);
      const std::byte* const zeros_end = static_cast<std::byte*>(zeros->address) + zeros->bytes;
      const std::byte* const until = std::min(end, zeros_end);
      if (start < until)
        slow.zeros.fill_zeros(zeros->device, start, static_cast<std::size_t>(until - start));
      if (zeros_end > end) return;
    }
  };
  const auto fill = [&](void* address, std::size_t bytes) {
    const auto* const end = static_cast<const std::byte*>(address) + bytes;
    fill_zeros(static_cast<std::byte*>(address), end);
    while (next != one.contents.end()) {
      std::byte* const to = static_cast<std::byte*>(next->address) + done;
      if (to >= end) return;
      const std::size_t here = std::min(
          {next->bytes - done, static_cast<std::size_t>(end - to), one.saved.longest_at(from)});
      const bool is_there = from < one.saved.freed();
      if (!is_there && !in_thread)
        copies_.add(next->device, to, one.saved.at(from), here);
      else if (!is_there)
        slow.jobs.add([this, &one, &files = slow.files, device = next->device, to, from, here] {
          if (one.file.empty())
            copies_.add(device, to, one.saved.at(from), here);
          else
            files.load(device, to, here, one.file, from);
        });
      from += here;
      done += here;
      const bool ends_block = from == all || one.saved.ends_at(from);
      if (ends_block && !is_there && in_thread && one.file.empty()) {
        slow.jobs.add([this] { copies_.finish(); });
        one.marks.push_back({nullptr, {}, slow.jobs.added(), from});
      }
      if (done < next->bytes) continue;
      done = 0;
      ++next;
    }
  };
  if (!is_half_resumed_) return one.who->map_for_resume(fill, left);
  for (const sleeping_range& each : one.contents) fill(each.address, each.bytes);
  zeros = one.zeros.begin();
  for (const sleeping_range& each : one.zeros) {
    auto* const start = static_cast<std::byte*>(each.address);
    fill_zeros(start, start + each.bytes);
  }
}

void tag_state::free_copied(member& one, slow_copies& slow) {
  for (; !one.marks.empty(); one.marks.pop_front()) {
    copies_mark& mark = one.marks.front();
    slow.jobs.wait_for(mark.jobs);
    is_half_resumed_ = true;
    one.saved.free_until(mark.until);
  }
}

std::size_t tag_state::resume(std::chrono::steady_clock::time_point evicts_until) {
  turn mine{*this};
  if (!is_asleep()) return 0;
  return is_torn_ ? end_torn_sleep(mine) : wake_all(mine, evicts_until);
}

std::size_t tag_state::wake_all(turn& mine, std::chrono::steady_clock::time_point evicts_until) {
  mine.enter(tag_phase::waking);
  std::size_t bytes = 0;
  slow_copies slow;
  std::optional<device_ref> device;
  for (const member& each : members_)
    for (const sleeping_range& part : each.contents) {
      if (!device) device = part.device;
      if (part.device != *device) slow.is_one_device = false;
    }
  auto at = members_.begin();
  try {
    // First, because new memory might get these addresses.
    if (!is_half_resumed_)
      for (member& each : members_) each.who->reacquire_addresses();
    memory_to_make left{.evicts_until = evicts_until};
    for (const member& each : members_)
      each.who->each_asleep([&](memory_location where, std::size_t size) {
        left.bytes[where.device()] += size;
        bytes += size;
      });
    while (at != members_.end()) {
      member& one = *at++;
      wake(one, slow, left);
    }
    // After all memory is made: until here a failure leaves all contents on the host.
    for (member& each : members_) free_copied(each, slow);
    slow.jobs.wait_for(slow.jobs.added());
    slow.files.finish();
    copies_.finish();
    slow.zeros.finish();
    for (member& each : members_) each.who->apply_rights();
  } catch (...) {
    slow.jobs.cancel();
    const bool from_file_ended = slow.files.drain();
    const bool zeros_ended = slow.zeros.drain();
    const bool may_be_in_use = !copies_.drain() || !from_file_ended || !zeros_ended;
    while (!is_half_resumed_ && at != members_.begin()) (--at)->who->stay_asleep(may_be_in_use);
    copies_.end_streams();
    mine.enter(tag_phase::asleep);
    if (is_half_resumed_)
      throw_with_context(
          "the tag sleeps, and all of its memory is on the device, because some contents are no "
          "longer on the host: resume() goes on");
    throw;
  }
  is_half_resumed_ = false;
  for (member& each : members_) {
    each.who->finish_waking();
    each.who->be_awake();
    if (each.bytes_kept != 0) each.copied = std::move(each.contents);
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

std::size_t prepare_suspend(const memory_tag& tag, keep what, const suspend_options& options) {
  return tag.state()->prepare_suspend(what, options);
}

std::size_t resume(const memory_tag& tag) { return tag.state()->resume(); }

}  // namespace hipvmm
