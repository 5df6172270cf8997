// SPDX-License-Identifier: MIT
#include <hipvmm/region/sleep/evictable.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <hipvmm/runtime/event.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/error.hpp"
#include "core/observers/memory_events.hpp"
#include "core/owner_process.hpp"
#include "region/sleep/memory_tag.hpp"  // IWYU pragma: keep: tag_state
#include "runtime/event.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm {
namespace {

/// The time for which a use lets waiting requests take the memory first.
constexpr std::chrono::milliseconds use_patience{1000};

struct tag_claim {
  explicit tag_claim(const memory_tag& of) : tag{of} {
    if (!tag.state()->begin_evictions())
      throw std::invalid_argument{"evictable: the tag \"" + tag.name() +
                                  "\" has one already: use that evictable, or end it"};
  }
  ~tag_claim() { tag.state()->end_evictions(); }
  tag_claim& operator=(tag_claim&&) = delete;

  const memory_tag tag;
};

}  // namespace

struct evictable::state final : detail::idle_holder {
  state(const memory_tag& of, device_ref owner, evictable_options chosen)
      : claimed{of},
        device{owner},
        options{std::move(chosen)},
        idle{*this, owner, detail::idle_membership::price::evicted, options.priority} {}
  struct call;

  bool is_unused() {
    return open == 0 && std::ranges::all_of(ends, &event::is_done) &&
           (!filled || filled->is_done());
  }
  /// Whether a use would take the memory from a request that waits for it.
  [[nodiscard]] bool is_awaited() const noexcept {
    return open == 0 && idle.is_awaited() && !claimed.tag.is_asleep();
  }

  /// Makes an event, and room in `ends`, for one more use, so that done() allocates nothing.
  void prepare_end() {
    const detail::relaxed_captures others;
    ends.reserve(ends.size() + open + 1);
    spare.reserve(ends.capacity());
    while (spare.size() <= open) {
      const auto at = std::ranges::find_if(ends, &event::is_done);
      if (at == ends.end()) {
        spare.emplace_back(device);
        continue;
      }
      spare.push_back(std::move(*at));
      *at = std::move(ends.back());
      ends.pop_back();
    }
  }

  /// Throws: as options.fill; hip_error.
  void fill(stream_ref stream) {
    if (!filled) filled.emplace(device);
    stream.wait(*filled);  // for the work of an earlier fill, which may have failed
    const auto note_work = [&] {
      claimed.tag.state()->let_evict(open == 0);
      try {
        if (detail::needs_no_event(stream))
          filled.reset();
        else
          filled->record(stream);
      } catch (...) {
        const detail::relaxed_captures others;
        ++open;  // if the wait below throws this stays, and the memory is never evicted
        claimed.tag.state()->let_evict(false);
        stream.synchronize();
        --open;
        claimed.tag.state()->let_evict(open == 0);
        throw;
      }
    };
    claimed.tag.state()->let_evict(false);  // for calls in `fill` that need the memory
    try {
      options.fill(stream);
    } catch (...) {
      note_work();
      throw;
    }
    note_work();
    lacks_contents = false;
  }

  /// Work in `stream` may use the memory from now on. Throws: as use().
  void bring_back(stream_ref stream, bool may_wait) {
    std::size_t bytes = 0;
    const bool restores_nothing = claimed.tag.state()->restores_nothing();
    const auto refused = detail::refusal_of([&] { bytes = resume(claimed.tag); });
    if (refused && !may_wait) throw out_of_memory{*refused};
    // May wait without limit, because this thread has no lock but this evictable's.
    if (refused) bytes = claimed.tag.state()->resume(std::chrono::steady_clock::time_point::max());
    if (bytes != 0) {
      // A suspend() of the program may have dropped the contents.
      lacks_contents = lacks_contents || (options.fill && restores_nothing);
      is_written = open != 0;
      const std::lock_guard lock{counts_mutex};
      ++counts.returns;
      counts.returned_bytes += bytes;
    }
    if (lacks_contents) fill(stream);
    if (filled) stream.wait(*filled);
    idle.note_use();
  }

  detail::given_memory give_idle(const detail::idle_request&) override {
    detail::given_memory given;
    bool in_use = false;
    try {
      const detail::relaxed_captures others;
      in_use = !is_unused();
      const keep what = options.fill ? keep::nothing : keep::contents;
      const auto released =
          in_use ? std::nullopt : claimed.tag.state()->evict(what, options.storage, !is_written);
      in_use = !released;
      given.released = released.value_or(0);
      if (given.released != 0 && options.fill) lacks_contents = true;
      const std::lock_guard lock{counts_mutex};
      if (in_use && !idle.is_awaited()) ++counts.refused_in_use;
      if (given.released != 0) ++counts.evictions;
      counts.evicted_bytes += given.released;
    } catch (const std::exception& failure) {
      const std::lock_guard lock{counts_mutex};
      ++counts.refused_by_failure;
      counts.reason = failure.what();
    }
    return given;
  }
  std::size_t idle_bytes() override {
    const detail::relaxed_captures others;
    return is_unused() ? idle_bytes_when_done() : 0;
  }
  std::size_t idle_bytes_when_done() override {
    return open == 0 ? claimed.tag.state()->bytes_to_evict(options.storage) : 0;
  }

  const detail::owner_process process;
  const tag_claim claimed;
  const device_ref device;
  const evictable_options options;
  mutable std::mutex counts_mutex;
  evictable_statistics counts{};
  // Under the lock of `idle`.
  std::size_t open = 0;         // uses
  std::vector<event> spare;     // at least one for each open use
  std::vector<event> ends;      // behind the work of ended uses
  std::optional<event> filled;  // behind the last fill
  bool is_written = true;       // since the last return
  bool lacks_contents = false;  // `fill` must write them
  detail::idle_membership idle;
};

/// Excludes other calls and evictions.
struct evictable::state::call {
  call(state& of, const char* function, stream_ref stream)
      : alone{require(of, std::string{"evictable::"} + function, stream)} {}

  static detail::idle_membership& require(state& of, const std::string& function,
                                          stream_ref stream) {
    if (of.idle.is_of_caller())
      throw std::logic_error{function +
                             ": called by the function that fills this evictable, or by a "
                             "registrar of its memory: call it when that has returned"};
    if (stream.is_capturing())
      throw std::invalid_argument{function +
                                  ": the stream is being captured into a graph, which may be "
                                  "launched at any time: begin the use before the capture, and "
                                  "end it when no launch is to come"};
    return of.idle;
  }

  const detail::callbacks_wait until_unlocked;
  const detail::idle_membership::lock alone;
};

evictable::evictable(const memory_tag& tag, device_ref device, evictable_options options) {
  if (options.storage.stream)
    throw std::invalid_argument{
        "evictable: storage.stream is set, and no eviction waits for one: "
        "leave it empty"};
  require_device(device);
  tag.state()->wait_for_work();  // from here on only uses have work
  state_ = std::make_unique<state>(tag, device, std::move(options));
}

evictable::~evictable() {
  if (state_ && state_->process.is_of_parent()) static_cast<void>(state_.release());
}

evictable::evictable(evictable&& other) noexcept = default;

evictable& evictable::operator=(evictable&& other) noexcept {
  evictable moved{std::move(other)};
  state_.swap(moved.state_);
  return *this;
}

evictable::state& evictable::live() const {
  if (!state_) throw std::invalid_argument{"the evictable is empty: it was moved from"};
  state_->process.require_own();
  return *state_;
}

void evictable::use(stream_ref stream, access_right right) {
  state& self = live();
  for (const auto end = std::chrono::steady_clock::now() + use_patience;;) {
    {
      const state::call alone{self, "use", stream};
      if (!self.is_awaited() || std::chrono::steady_clock::now() >= end) {
        self.prepare_end();
        self.bring_back(stream, true);
        ++self.open;
        if (right != access_right::read) self.is_written = true;
        self.claimed.tag.state()->let_evict(false);
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}

void evictable::done(stream_ref stream) {
  state& self = live();
  const state::call alone{self, "done", stream};
  if (self.open == 0)
    throw std::logic_error{"evictable::done: no use() is open: call it once after each"};
  if (!detail::needs_no_event(stream)) {
    self.spare.back().record(stream);
    self.ends.push_back(std::move(self.spare.back()));
    self.spare.pop_back();
  }
  if (--self.open == 0) self.claimed.tag.state()->let_evict(true);
}

void evictable::prefetch(stream_ref stream) {
  state& self = live();
  const state::call alone{self, "prefetch", stream};
  self.bring_back(stream, false);
}

const memory_tag& evictable::tag() const { return live().claimed.tag; }

device_ref evictable::device() const { return live().device; }

evictable_statistics evictable::statistics() const {
  const state& self = live();
  const std::lock_guard lock{self.counts_mutex};
  return self.counts;
}

scoped_use::~scoped_use() {
  detail::report_exceptions([this] { of_.done(stream_); });
}

}  // namespace hipvmm
