// SPDX-License-Identifier: MIT
#include "tool/replay/replay_job.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "tool/replay/replay_checker.hpp"
#include "tool/replay/replay_clock.hpp"
#include "tool/replay/replay_failures.hpp"

namespace hipvmm::tool {
namespace {

/// Collects the library's reports while it lives, from any thread; reports that were not taken go
/// to the former handler. At most one exists at a time.
class report_recorder {
 public:
  report_recorder() : previous_{set_error_handler(record)} {}
  ~report_recorder() {
    set_error_handler(previous_);
    for (const report& each : take()) previous_(each.call, each.code, each.message.c_str());
  }
  report_recorder& operator=(report_recorder&&) = delete;

  void move_to(replay_failures& failures) {
    for (const report& each : take())
      failures.add(std::string{each.call} + " failed: " + each.message + " (" +
                   std::to_string(each.code) + ")");
  }

  static void record(const char* call, int code, const char* message) noexcept {
    const std::lock_guard lock{mutex};
    reports.push_back({call, code, message});
  }

 private:
  struct report {
    const char* call;
    int code;
    std::string message;
  };

  static std::vector<report> take() {
    const std::lock_guard lock{mutex};
    return std::exchange(reports, {});
  }

  // The handler is a plain function: its target cannot belong to one recorder.
  static inline std::mutex mutex;
  static inline std::vector<report> reports;

  error_handler previous_;
};

constexpr std::size_t events_between_progress = 256;

/// The highest and the last event of each window, so that no peak is lost.
std::vector<std::size_t> events_to_sample(const trace& recorded, std::size_t windows) {
  std::vector<std::size_t> result;
  const std::size_t width =
      (recorded.events.size() + windows - 1) / std::max<std::size_t>(windows, 1);
  std::size_t requested = 0;
  std::size_t highest = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; windows != 0 && i < recorded.events.size(); ++i) {
    const trace_event& event = recorded.events[i];
    const std::size_t bytes = recorded.blocks[event.block].bytes;
    requested = event.what == trace_event::action::allocate ? requested + bytes : requested - bytes;
    if (i % width == 0 || requested > most) {
      highest = i;
      most = requested;
    }
    if ((i + 1) % width != 0 && i + 1 != recorded.events.size()) continue;
    result.push_back(highest);
    if (highest != i) result.push_back(i);
  }
  return result;
}

class replayer {
 public:
  replayer(const trace& recorded, replay_subject& subject, const replay_options& options)
      : trace_{recorded},
        subject_{subject},
        options_{options},
        sampled_events_{events_to_sample(recorded, options.sample_windows)},
        blocks_(recorded.blocks.size()),
        hand_over_{options.device} {
    const std::size_t count = options.streams == replay_streams::one ? 1 : recorded.streams;
    for (std::size_t i = 0; i < count; ++i) streams_.emplace_back(options.device);
    if (options.check_bytes)
      checker_.emplace(options.device, *options.check_bytes, result_.failures);
    result_.pair_ns.reserve(recorded.blocks.size());
    allocate_ns_.reserve(recorded.blocks.size());
    deallocate_ns_.reserve(recorded.blocks.size());
  }
  ~replayer() {
    for (block& each : blocks_)
      if (each.pointer != nullptr) deallocate(each);
    for (const stream& each : streams_) {
      try {
        subject_.forget(each);
      } catch (const std::exception& error) {
        report_recorder::record("forget", 0, error.what());
      }
    }
  }
  replayer& operator=(replayer&&) = delete;

  replay_result run();

 private:
  struct block {
    void* pointer = nullptr;
    std::size_t bytes = 0;
    std::uint64_t nanoseconds = 0;
    std::uint32_t stream = 0;
  };

  void run_epoch(std::size_t number);
  void step(const trace_event& event);
  void allocate(const trace_event& event);
  void free(const trace_event& event);
  void free_rest();
  void deallocate(block& freed) noexcept;
  void keep_busy(const block& made);
  void sample(std::size_t index);
  [[nodiscard]] checked_block seen_by_checker(std::uint32_t number) const {
    const block& seen = blocks_[number];
    const auto blocks = static_cast<std::uint32_t>(blocks_.size());
    return {seen.pointer, seen.bytes, epoch_ * blocks + number, trace_.blocks[number].row};
  }
  [[nodiscard]] std::uint32_t stream_of(const trace_event& event) const {
    return options_.streams == replay_streams::one ? 0 : event.stream;
  }

  const trace& trace_;
  replay_subject& subject_;
  const replay_options& options_;
  replay_result result_;
  report_recorder reports_;
  std::vector<std::size_t> sampled_events_;
  std::size_t next_sample_ = 0;
  std::vector<block> blocks_;
  std::vector<stream> streams_;
  event hand_over_;
  std::optional<block_checker> checker_;
  std::size_t requested_ = 0;
  std::uint32_t epoch_ = 0;
  std::vector<std::uint64_t> allocate_ns_;    // of this epoch
  std::vector<std::uint64_t> deallocate_ns_;  // without blocks freed after the rows
};

replay_result replayer::run() {
  subject_.begin();
  const stopwatch watch;
  for (std::size_t i = 0; i < options_.epochs; ++i) run_epoch(i);
  if (checker_) {
    checker_->finish();
    result_.checked = {checker_->blocks(), checker_->bytes(), checker_->bytes_looked_at()};
  }
  for (const stream& each : streams_) each.synchronize();
  result_.seconds = watch.seconds();
  result_.streams = streams_.size();
  for (const replay_epoch& each : result_.epochs) {
    result_.peak_requested = std::max(result_.peak_requested, each.peak_requested);
    result_.peak_physical = std::max(result_.peak_physical, each.peak_physical);
  }
  result_.calls = subject_.calls();
  reports_.move_to(result_.failures);
  std::sort(result_.pair_ns.begin(), result_.pair_ns.end());
  return std::move(result_);
}

void replayer::run_epoch(std::size_t number) {
  epoch_ = static_cast<std::uint32_t>(number);
  if (number != 0) subject_.begin_epoch();
  allocate_ns_.clear();
  deallocate_ns_.clear();
  replay_epoch& epoch = result_.epochs.emplace_back();
  const std::size_t before = number * trace_.events.size();
  const stopwatch watch;
  for (std::size_t i = 0; i < trace_.events.size(); ++i) {
    step(trace_.events[i]);
    if (number == 0) sample(i);
    if (options_.on_progress && i % events_between_progress == 0) options_.on_progress(before + i);
  }
  free_rest();
  epoch.seconds = watch.seconds();
  for (const stream& each : streams_) each.synchronize();
  epoch.seconds_until_done = watch.seconds();
  epoch.peak_physical = subject_.peak_physical();
  epoch.allocate = summarize_calls(allocate_ns_);
  epoch.deallocate = summarize_calls(deallocate_ns_);
}

void replayer::step(const trace_event& event) {
  try {
    event.what == trace_event::action::allocate ? allocate(event) : free(event);
  } catch (const std::exception& error) {
    throw std::runtime_error{"row " + std::to_string(event.row) + " of the trace '" + trace_.name +
                             "': " + error.what()};
  }
}

void replayer::allocate(const trace_event& event) {
  block& made = blocks_[event.block];
  made.bytes = trace_.blocks[event.block].bytes;
  made.stream = stream_of(event);
  const stream_ref stream = streams_[made.stream];
  try {
    const stopwatch watch;
    made.pointer = subject_.resource().allocate(stream, made.bytes);
    made.nanoseconds = watch.nanoseconds();
    allocate_ns_.push_back(made.nanoseconds);
  } catch (const std::bad_alloc& error) {
    result_.failures.add("row " + std::to_string(event.row) + ": " + error.what());
    return;
  }
  requested_ += made.bytes;
  if (std::size_t& peak = result_.epochs.back().peak_requested; requested_ > peak) {
    peak = requested_;
    subject_.look();
  }
  if (checker_) checker_->fill(stream, seen_by_checker(event.block));
  if (options_.busy_bytes) keep_busy(made);
}

void replayer::free(const trace_event& event) {
  block& freed = blocks_[event.block];
  if (freed.pointer == nullptr) return;  // its allocation failed
  const std::uint32_t used_in = freed.stream;
  if (stream_of(event) != used_in) {
    hand_over_.record(streams_[used_in]);
    streams_[stream_of(event)].wait(hand_over_);
    freed.stream = stream_of(event);
  }
  if (checker_) checker_->copy_aside(streams_[freed.stream], seen_by_checker(event.block));
  const stopwatch watch;
  deallocate(freed);
  deallocate_ns_.push_back(watch.nanoseconds());
  result_.pair_ns.push_back(freed.nanoseconds + deallocate_ns_.back());
}

void replayer::free_rest() {
  for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].pointer == nullptr) continue;
    if (checker_) checker_->copy_aside(streams_[blocks_[i].stream], seen_by_checker(i));
    deallocate(blocks_[i]);
  }
}

void replayer::deallocate(block& freed) noexcept {
  subject_.resource().deallocate(streams_[freed.stream], std::exchange(freed.pointer, nullptr),
                                 freed.bytes);
  requested_ -= freed.bytes;
}

void replayer::keep_busy(const block& made) {
  // One value for all: on AMD's runtime 6.4.3 a fill may write the pattern of a later one.
  constexpr unsigned char value = 0xA5;
  fill_async(streams_[made.stream], made.pointer, value,
             std::min(made.bytes, *options_.busy_bytes));
}

void replayer::sample(std::size_t index) {
  if (next_sample_ == sampled_events_.size() || sampled_events_[next_sample_] != index) return;
  ++next_sample_;
  result_.samples.push_back(
      {static_cast<double>(trace_.events[index].microseconds) / 1e6, requested_, subject_.held()});
}

}  // namespace

std::uint64_t replay_result::pair_percentile(double part) const {
  return percentile_of(pair_ns, part);
}

std::uint64_t replay_result::driver_call_count() const {
  return std::accumulate(
      calls.begin(), calls.end(), std::uint64_t{0},
      [](std::uint64_t sum, const driver_calls& each) { return sum + each.count; });
}

double replay_result::driver_seconds() const {
  return std::accumulate(calls.begin(), calls.end(), 0.0,
                         [](double sum, const driver_calls& each) { return sum + each.seconds; });
}

replay_result replay(const trace& recorded, replay_subject& subject,
                     const replay_options& options) {
  return replayer{recorded, subject, options}.run();
}

}  // namespace hipvmm::tool
