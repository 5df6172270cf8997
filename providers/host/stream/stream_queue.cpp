// SPDX-License-Identifier: MIT
#include "stream/stream_queue.hpp"

#include <algorithm>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/failure.hpp"
#include "stream/stream_owner.hpp"

namespace hipvmm::host_provider {
namespace {

thread_local bool inside_host_function = false;

struct gate {
  std::mutex mutex;
  std::condition_variable opened;
  std::atomic<unsigned> holds{0};

  void pass() {
    if (holds.load(std::memory_order_acquire) == 0) return;
    std::unique_lock lock{mutex};
    opened.wait(lock, [this] { return holds.load(std::memory_order_relaxed) == 0; });
  }
};

// Never destroyed, because workers outlive main. Not a static variable of the function: fork()
// while another thread makes it would leave its lock held in the child.
constinit std::atomic<gate*> the_gate{nullptr};

gate& worker_gate() {
  gate* found = the_gate.load();
  if (found != nullptr) return *found;
  auto made = std::make_unique<gate>();
  return the_gate.compare_exchange_strong(found, made.get()) ? *made.release() : *found;
}

stream_number next_number() noexcept {
  static std::atomic<stream_number> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool all_reached(const std::vector<position>& positions) noexcept {
  return std::all_of(positions.begin(), positions.end(),
                     [](const position& each) { return each.reached(); });
}

class mark_operation final : public operation {
 public:
  explicit mark_operation(std::shared_ptr<mark> reached) noexcept : reached_{std::move(reached)} {}
  hipError_t execute(stream_queue& /*in*/) const override {
    reached_->when = std::chrono::steady_clock::now();
    return hipSuccess;
  }

 private:
  std::shared_ptr<mark> reached_;
};

}  // namespace

stream_queue::stream_queue(stream_owner& owner, int device, stream_order order, int priority)
    : owner_{owner}, number_{next_number()}, device_{device}, order_{order}, priority_{priority} {}

bool position::reached() const noexcept { return queue->reached(sequence); }
void position::wait() const { queue->wait(sequence); }

position stream_queue::submit(std::unique_ptr<operation> work, std::vector<position> after) {
  std::unique_lock lock{mutex_};
  const std::uint64_t sequence = append(lock, {std::move(work), std::move(after)});
  return {shared_from_this(), sequence};
}

hipError_t stream_queue::run(std::unique_ptr<operation> work, std::vector<position> after) {
  std::unique_lock lock{mutex_};
  if (error_ != hipSuccess) return std::exchange(error_, hipSuccess);
  if (!idle() || !all_reached(after)) {
    require(!inside_host_function, hipErrorIllegalState);
    const std::uint64_t sequence = append(lock, {std::move(work), std::move(after)});
    wait(sequence);
    return take_error();
  }
  require(!closed_, hipErrorInvalidHandle);
  note(after);
  submitted_.fetch_add(1, std::memory_order_release);
  caller_runs_ = true;
  lock.unlock();
  const hipError_t result = work->execute(*this);
  lock.lock();
  caller_runs_ = false;
  completed_.fetch_add(1, std::memory_order_release);
  const bool wake = sleeping_ && (closed_ || !entries_.empty());
  lock.unlock();
  if (wake) work_arrived_.notify_one();
  work_finished_.notify_all();
  return result;
}

std::shared_ptr<mark> stream_queue::put_mark(std::vector<position> after) {
  auto made = std::make_shared<mark>();
  if (stream_observer* const observer = owner_.observer()) made->seen = observer->place(*this);
  std::unique_lock lock{mutex_};
  made->after = clock_behind(after);
  if (idle() && all_reached(after)) {
    note(after);
    made->where = {shared_from_this(), submitted_.load(std::memory_order_relaxed)};
    made->when = std::chrono::steady_clock::now();
    return made;
  }
  made->where = {shared_from_this(), submitted_.load(std::memory_order_relaxed) + 1};
  append(lock, {std::make_unique<mark_operation>(made), std::move(after)});
  return made;
}

void stream_queue::follow(const mark& awaited) {
  if (stream_observer* const observer = owner_.observer()) observer->follow(*this, *awaited.seen);
  const std::lock_guard lock{mutex_};
  clock_.include(awaited.where.queue, awaited.where.sequence);
  clock_.include(awaited.after);
}

bool stream_queue::comes_after(const position& earlier) const {
  const stream_queue& other = *earlier.queue;
  if (&other == this) return true;
  if (other.device_ == device_) {
    if (order_ == stream_order::null && other.order_ == stream_order::blocking) return true;
    if (order_ == stream_order::blocking && other.order_ == stream_order::null) return true;
  }
  const std::lock_guard lock{mutex_};
  return clock_.covers(earlier.queue, earlier.sequence);
}

position stream_queue::end() {
  return {shared_from_this(), submitted_.load(std::memory_order_acquire)};
}

void stream_queue::wait(std::uint64_t sequence) {
  if (reached(sequence)) return;
  require(!inside_host_function, hipErrorIllegalState);
  std::unique_lock lock{mutex_};
  work_finished_.wait(lock, [this, sequence] { return reached(sequence); });
}

hipError_t stream_queue::take_error() noexcept {
  const std::lock_guard lock{mutex_};
  return std::exchange(error_, hipSuccess);
}

hipError_t stream_queue::peek_error() const {
  const std::lock_guard lock{mutex_};
  return error_;
}

bool stream_queue::is_in_host_function() noexcept { return inside_host_function; }
stream_queue::host_function_mark::host_function_mark() noexcept { inside_host_function = true; }
stream_queue::host_function_mark::~host_function_mark() { inside_host_function = false; }

void stream_queue::close() {
  owner_.forget_capture(*this);
  bool started = false;
  {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    started = started_;
  }
  if (started) {
    work_arrived_.notify_one();
  } else {
    owner_.retire(*this);
  }
}

void stream_queue::hold_all() { worker_gate().holds.fetch_add(1, std::memory_order_release); }

void stream_queue::release_all() {
  gate& workers = worker_gate();
  {
    const std::lock_guard lock{workers.mutex};
    const unsigned holds = workers.holds.load(std::memory_order_relaxed);
    if (holds != 0) workers.holds.store(holds - 1, std::memory_order_release);
  }
  workers.opened.notify_all();
}

void stream_queue::leave_workers() {
  inside_host_function = false;
  the_gate = new gate;
}

stream_clock stream_queue::clock_behind(const std::vector<position>& after) const {
  stream_clock clock = clock_;
  for (const position& each : after) clock.include(each.queue, each.sequence);
  return clock;
}

void stream_queue::note(const std::vector<position>& after) {
  if (!after.empty()) clock_ = clock_behind(after);
}

std::uint64_t stream_queue::append(std::unique_lock<std::mutex>& lock, entry next) {
  require(!closed_, hipErrorInvalidHandle);  // destroyed by another thread in the meantime
  // Recorded when nothing can fail any more: work that was never submitted comes after nothing.
  std::optional<stream_clock> clock;
  if (!next.after.empty()) clock = clock_behind(next.after);
  if (!started_) {
    try {
      std::thread{[self = shared_from_this()] { self->work_until_closed(); }}.detach();
    } catch (const std::system_error&) {
      throw failure{hipErrorOutOfMemory};
    }
    started_ = true;
  }
  next.after.erase(std::remove_if(next.after.begin(), next.after.end(),
                                  [](const position& each) { return each.reached(); }),
                   next.after.end());
  entries_.push_back(std::move(next));
  if (clock) clock_ = *std::move(clock);
  const std::uint64_t sequence = submitted_.fetch_add(1, std::memory_order_release) + 1;
  const bool wake = sleeping_;
  lock.unlock();
  if (wake) work_arrived_.notify_one();
  return sequence;
}

void stream_queue::work_until_closed() {
  std::unique_lock lock{mutex_};
  for (;;) {
    sleeping_ = true;
    work_arrived_.wait(lock, [this] { return !caller_runs_ && (closed_ || !entries_.empty()); });
    sleeping_ = false;
    if (entries_.empty()) break;
    {
      entry next = std::move(entries_.front());
      entries_.pop_front();
      lock.unlock();
      for (const position& each : next.after) each.wait();
      worker_gate().pass();
      finish(next.work->execute(*this));
    }
    lock.lock();
  }
  lock.unlock();
  owner_.retire(*this);
}

void stream_queue::finish(hipError_t result) {
  {
    const std::lock_guard lock{mutex_};
    if (error_ == hipSuccess) error_ = result;
    completed_.fetch_add(1, std::memory_order_release);
  }
  work_finished_.notify_all();
}

}  // namespace hipvmm::host_provider
