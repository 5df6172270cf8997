// SPDX-License-Identifier: MIT
#include "core/observers/memory_events.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "core/background_task.hpp"
#include "core/check.hpp"
#include "core/owner_process.hpp"

namespace hipvmm {
namespace {

/// One thread alone adds to it and never waits.
class event_ring {
 public:
  explicit event_ring(std::size_t capacity)
      : slots_{std::make_unique<slot[]>(capacity)}, capacity_{capacity} {}

  void add(const memory_event& event) noexcept {
    const std::uint64_t number = added_.load(std::memory_order_relaxed);
    slot& place = slots_[next_];
    next_ = next_ + 1 == capacity_ ? 0 : next_ + 1;
    // A reader that sees a word of this event sees that the one before is gone.
    place.number.store(being_written, std::memory_order_relaxed);
    const event_words words = words_of(event);
    for (std::size_t i = 0; i < words.size(); ++i)
      place.words[i].store(words[i], std::memory_order_release);
    place.number.store(number, std::memory_order_release);
    added_.store(number + 1, std::memory_order_release);
  }

  /// One thread at a time.
  void take(std::vector<memory_event>& to) {
    const std::uint64_t end = added_.load(std::memory_order_acquire);
    to.reserve(to.size() + std::min<std::uint64_t>(end - taken_, capacity_));
    skip_overwritten(end);
    for (; taken_ != end; ++taken_) {
      const slot& place = slots_[taken_ % capacity_];
      event_words words;
      const bool was_there = place.number.load(std::memory_order_acquire) == taken_;
      for (std::size_t i = 0; i < words.size(); ++i)
        words[i] = place.words[i].load(std::memory_order_acquire);
      if (was_there && place.number.load(std::memory_order_relaxed) == taken_)
        to.push_back(event_of(words));
      else
        lost_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] std::uint64_t lost() const noexcept {
    const std::uint64_t unread = added_.load(std::memory_order_relaxed) - taken_;
    return lost_.load(std::memory_order_relaxed) + (unread > capacity_ ? unread - capacity_ : 0);
  }

 private:
  using event_words = std::array<std::uint64_t, 7>;
  static_assert(sizeof(memory_event) == sizeof(event_words));
  static constexpr std::uint64_t being_written = static_cast<std::uint64_t>(-1);
  struct slot {
    std::atomic<std::uint64_t> number{being_written};
    std::array<std::atomic<std::uint64_t>, std::tuple_size_v<event_words>> words{};
  };

  // By shifts: loading a word right behind stores of its parts stalls.
  static event_words words_of(const memory_event& event) noexcept {
    const std::uint64_t first = static_cast<std::uint64_t>(event.kind) |
                                static_cast<std::uint64_t>(event.source) << 8U |
                                std::uint64_t{static_cast<std::uint16_t>(event.peer)} << 16U |
                                std::uint64_t{static_cast<std::uint32_t>(event.device)} << 32U;
    return {first,
            event.object,
            event.address,
            event.bytes,
            event.stream,
            event.thread,
            static_cast<std::uint64_t>(event.time_ns)};
  }
  static memory_event event_of(const event_words& words) noexcept {
    return {static_cast<memory_event_kind>(words[0] & 0xffU),
            static_cast<memory_event_source>(words[0] >> 8U & 0xffU),
            static_cast<std::int16_t>(words[0] >> 16U & 0xffffU),
            static_cast<std::int32_t>(words[0] >> 32U),
            words[1],
            words[2],
            words[3],
            words[4],
            words[5],
            static_cast<std::int64_t>(words[6])};
  }
  void skip_overwritten(std::uint64_t end) noexcept {
    if (end - taken_ <= capacity_) return;
    lost_.fetch_add(end - taken_ - capacity_, std::memory_order_relaxed);
    taken_ = end - capacity_;
  }

  std::unique_ptr<slot[]> slots_;
  std::size_t capacity_;
  std::size_t next_ = 0;
  std::atomic<std::uint64_t> added_{0};
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> lost_{0};
};

/// Never destroyed: another thread gets it when this one has ended.
struct thread_record {
  std::atomic<bool> is_reporting{false};  // the subscription's end waits for false
  std::atomic<bool> has_thread{true};
  std::uint64_t thread = 0;
  std::uint64_t subscription = 0;  // the ring's owner
  event_ring* ring = nullptr;
  thread_record* next = nullptr;
};

constinit std::atomic<thread_record*> all_records{nullptr};
struct event_thread {
  thread_record* record = nullptr;
  detail::events_wait* open_wait = nullptr;
  void (*at_end)() noexcept = nullptr;  // of `open_wait`
  unsigned pauses = 0;
  bool ends = false;
};
constinit thread_local event_thread this_event_thread;

// A child has no other threads, and nothing else would reset their marks.
[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, [] {
  for (thread_record* each = all_records.load(); each != nullptr; each = each->next)
    if (each != this_event_thread.record) each->is_reporting.store(false);
});

/// Offers the thread's record to others when the thread ends.
struct record_return {
  ~record_return() {
    this_event_thread.ends = true;
    if (thread_record* const mine = std::exchange(this_event_thread.record, nullptr))
      mine->has_thread.store(false, std::memory_order_release);
  }
};

thread_record* vacant_record() noexcept {
  for (thread_record* each = all_records.load(std::memory_order_acquire); each != nullptr;
       each = each->next) {
    bool is_taken = false;
    if (each->has_thread.compare_exchange_strong(is_taken, true, std::memory_order_acquire))
      return each;
  }
  return nullptr;
}

/// Returns nullptr while the thread ends, or without memory for a record.
[[gnu::noinline]] thread_record* make_own_record(event_thread& own) noexcept {
  if (own.ends) return nullptr;
  thread_record* mine = vacant_record();
  if (mine == nullptr) {
    mine = new (std::nothrow) thread_record;
    if (mine == nullptr) return nullptr;
    mine->next = all_records.load(std::memory_order_relaxed);
    while (!all_records.compare_exchange_weak(mine->next, mine, std::memory_order_release)) {
    }
  }
  mine->thread = static_cast<std::uint64_t>(::gettid());
  own.record = mine;
  const thread_local record_return returns;
  static_cast<void>(returns);
  return mine;
}

}  // namespace

class detail::event_receiver {
 public:
  using callback = memory_event_subscription::callback;

  explicit event_receiver(std::size_t events) : events_per_thread_{events} { begin(); }
  explicit event_receiver(callback to) : call_{std::move(to)} { begin(); }

  void stop() noexcept {
    remove_observer(observer::subscription);
    current.store(nullptr);
  }
  static void wait_for_reports() noexcept {
    for (thread_record* each = all_records.load(); each != nullptr; each = each->next)
      while (each->is_reporting.load()) std::this_thread::yield();
  }

  /// Keeps the object for good, reachable for leak checkers.
  void stay() noexcept { stayed_before_ = last_stayed.exchange(this); }

  [[nodiscard]] bool is_of_parent() const noexcept { return process_.is_of_parent(); }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] bool calls() const noexcept { return static_cast<bool>(call_); }

  /// Pre: a `use` of thread `by` has returned this object.
  void take(thread_record& by, const memory_event& event) noexcept {
    if (calls()) return call(event);
    if (by.subscription == number_ || give_ring(by)) by.ring->add(event);
  }
  void count_lost() noexcept { ++lost_; }
  [[nodiscard]] std::vector<memory_event> read() {
    std::vector<memory_event> result;
    const std::lock_guard lock{mutex_};
    for (const auto& each : rings_) each->take(result);
    return result;
  }
  [[nodiscard]] std::uint64_t lost() const noexcept {
    const std::lock_guard lock{mutex_};
    std::uint64_t sum = lost_ + lost_by_threads - lost_before_;
    for (const auto& each : rings_) sum += each->lost();
    return sum;
  }

  /// The receiver in force stays while one lives.
  class use {
   public:
    explicit use(thread_record& mine) noexcept : mine_{mine} {
      // Either wait_for_reports() sees this, or `to_` is nullptr.
      mine_.is_reporting.store(true);
      to_ = current.load();
    }
    ~use() { mine_.is_reporting.store(false, std::memory_order_release); }
    use& operator=(use&&) = delete;
    [[nodiscard]] event_receiver* get() const noexcept { return to_; }

   private:
    thread_record& mine_;
    event_receiver* to_;
  };

  static constinit inline std::atomic<std::uint64_t> lost_by_threads{0};

 private:
  void begin() {
    event_receiver* none = nullptr;
    if (!current.compare_exchange_strong(none, this))
      throw std::logic_error{
          "memory_event_subscription: there is one already, and a process has one at a time: end "
          "that one first"};
    add_observer(observer::subscription);
  }
  void call(const memory_event& event) const noexcept {
    run_callback("memory_event_subscription", [&] { call_(event); });
  }
  bool give_ring(thread_record& to) noexcept {
    if (is_of_parent()) return false;
    try {
      auto made = std::make_unique<event_ring>(events_per_thread_);
      const std::lock_guard lock{mutex_};
      rings_.push_back(std::move(made));
      to.ring = rings_.back().get();
    } catch (const std::bad_alloc&) {
      count_lost();
      return false;
    }
    to.subscription = number_;
    return true;
  }

  static constinit inline std::atomic<event_receiver*> current{nullptr};
  static constinit inline std::atomic<std::uint64_t> last_number{0};
  static constinit inline std::atomic<event_receiver*> last_stayed{nullptr};

  const owner_process process_;
  const std::uint64_t number_ = ++last_number;
  const callback call_ = {};
  const std::size_t events_per_thread_ = 0;
  const std::uint64_t lost_before_ = lost_by_threads;
  std::atomic<std::uint64_t> lost_{0};
  mutable std::mutex mutex_;  // guards `rings_`
  std::vector<std::unique_ptr<event_ring>> rings_;
  event_receiver* stayed_before_ = nullptr;
};

memory_event_subscription::memory_event_subscription(std::size_t events_per_thread) {
  if (events_per_thread == 0)
    throw std::invalid_argument{
        "memory_event_subscription: a ring of 0 events keeps none; events_per_thread must be at "
        "least 1"};
  receiver_ = std::make_unique<detail::event_receiver>(events_per_thread);
}

memory_event_subscription::memory_event_subscription(callback receiver) {
  if (!receiver)
    throw std::invalid_argument{
        "memory_event_subscription: the callback is empty: pass a function"};
  receiver_ = std::make_unique<detail::event_receiver>(std::move(receiver));
}

memory_event_subscription::~memory_event_subscription() {
  receiver_->stop();
  const thread_record* const mine = this_event_thread.record;
  const bool is_in_callback = mine != nullptr && mine->is_reporting.load();
  if (is_in_callback)
    detail::report_exceptions([] {
      detail::warn("memory_event_subscription",
                   "it ends in its own callback, which it cannot wait for, and stays in memory: "
                   "end it outside");
    });
  // In a child of fork() nothing runs that could be waited for.
  if (is_in_callback || receiver_->is_of_parent())
    receiver_.release()->stay();
  else
    detail::event_receiver::wait_for_reports();
}

std::vector<memory_event> memory_event_subscription::read() {
  if (receiver_->is_of_parent()) return {};
  std::vector<memory_event> result = receiver_->read();
  std::ranges::stable_sort(result, {}, &memory_event::time_ns);
  return result;
}

std::uint64_t memory_event_subscription::lost() const noexcept {
  return receiver_->is_of_parent() ? 0 : receiver_->lost();
}

std::uint64_t detail::next_event_id() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::int64_t detail::event_time() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void detail::send_event(const event_origin& from, memory_event_kind kind,
                        const event_details& details) noexcept {
  event_thread& own = this_event_thread;
  if (own.pauses != 0) return;
  const bool explains = kind == memory_event_kind::grow || kind == memory_event_kind::trim ||
                        kind == memory_event_kind::out_of_memory;
  const memory_change_receiver* const changes = explains ? memory_changes.load() : nullptr;
  if (changes == nullptr && !is_observed_by(observer::subscription)) return;
  const std::int64_t time_ns = details.time_ns != 0 ? details.time_ns : event_time();
  memory_event event{kind,
                     from.source,
                     static_cast<std::int16_t>(details.peer),
                     from.device,
                     from.object,
                     details.address,
                     details.bytes,
                     event_address(details.stream),
                     0,
                     time_ns};
  if (changes != nullptr) {
    event.thread = static_cast<std::uint64_t>(::gettid());
    changes->explained(event);
  }
  if (!is_observed_by(observer::subscription)) return;
  thread_record* const mine = own.record != nullptr ? own.record : make_own_record(own);
  if (mine == nullptr || mine->is_reporting.load(std::memory_order_relaxed)) {
    ++event_receiver::lost_by_threads;
    return;
  }
  event.thread = mine->thread;
  const event_receiver::use in_use{*mine};
  event_receiver* const to = in_use.get();
  if (to == nullptr) return;
  if (own.open_wait == nullptr || !to->calls()) return to->take(*mine, event);
  try {
    own.open_wait->waiting_.push_back({to->number(), event});
  } catch (const std::bad_alloc&) {
    to->count_lost();
  }
}

detail::events_wait::events_wait() noexcept
    : is_outermost_{this_event_thread.open_wait == nullptr} {
  if (is_outermost_) this_event_thread.open_wait = this;
}

detail::events_wait::~events_wait() {
  if (!is_outermost_) return;
  this_event_thread.open_wait = nullptr;
  for (const waiting_event& each : waiting_) {
    thread_record& mine = *this_event_thread.record;
    const event_receiver::use in_use{mine};
    event_receiver* const to = in_use.get();
    if (to != nullptr && to->number() == each.subscription) to->take(mine, each.event);
  }
  if (const auto call = std::exchange(this_event_thread.at_end, nullptr)) call();
}

constinit std::atomic<const detail::memory_change_receiver*> detail::memory_changes{nullptr};

void detail::send_memory_change(int device, std::int64_t bytes) noexcept {
  const memory_change_receiver* const to = memory_changes.load();
  if (to != nullptr && this_event_thread.pauses == 0) to->changed(device, bytes);
}

std::optional<bool> detail::call_without_locks(void (*call)() noexcept) noexcept {
  if (this_event_thread.open_wait == nullptr) return std::nullopt;
  return std::exchange(this_event_thread.at_end, call) == nullptr;
}

namespace {

[[maybe_unused]] const bool is_runner_set = [] {
  detail::set_task_runner([](void (*body)(void*), void* of) {
    const detail::callbacks_wait until_idle;
    body(of);
  });
  return true;
}();

}  // namespace

detail::events_pause::events_pause() noexcept { ++this_event_thread.pauses; }

detail::events_pause::~events_pause() { --this_event_thread.pauses; }

const char* to_string(memory_event_kind kind) noexcept {
  constexpr std::array<const char*, memory_event_kind_count> kind_names{
      "allocate", "deallocate", "map", "unmap", "grow", "trim", "grant", "revoke", "out_of_memory"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kind_names.size() ? kind_names[index] : "unknown";
}

}  // namespace hipvmm
