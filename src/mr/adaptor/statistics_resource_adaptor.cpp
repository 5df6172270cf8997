// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "core/check.hpp"
#include "core/observers/memory_events.hpp"

namespace hipvmm::mr {
namespace {

using level_counter = statistics_resource_adaptor::counter;
using level_counters = statistics_resource_adaptor::counters;

void count(level_counter& to, std::int64_t amount) noexcept {
  to.value += amount;
  to.total += amount;
  to.peak = std::max(to.peak, to.value);
}

void take_over(level_counter& outer, const level_counter& inner) noexcept {
  outer.peak = std::max(outer.peak, outer.value + inner.peak);
  outer.value += inner.value;
  outer.total += inner.total;
}

// Levels begin at zero, so their values add up to the present sum.
std::int64_t sum_of(const std::vector<level_counters>& levels,
                    level_counter level_counters::*which) noexcept {
  std::int64_t sum = 0;
  for (const level_counters& level : levels) sum += (level.*which).value;
  return sum;
}

std::size_t power_of(std::uint64_t value) noexcept {
  return value == 0 ? 0 : static_cast<std::size_t>(std::bit_width(value) - 1);
}

}  // namespace

statistics_resource_adaptor::statistics_resource_adaptor(memory_resource* upstream,
                                                         latency_timing timing)
    : resource_adaptor{"statistics_resource_adaptor", upstream}, levels_(1), timing_{timing} {}

std::int64_t statistics_resource_adaptor::time_ns() const noexcept {
  return timing_ == latency_timing::off ? 0 : detail::event_time();
}

void statistics_resource_adaptor::note_latency(latencies& to, std::int64_t began) noexcept {
  if (timing_ == latency_timing::off) return;
  const auto took = static_cast<std::uint64_t>(time_ns() - began);
  const std::lock_guard held{lock_};
  ++to[power_of(took)];
}

statistics_resource_adaptor::counters statistics_resource_adaptor::innermost() const noexcept {
  const std::lock_guard held{lock_};
  return levels_.back();
}

statistics_resource_adaptor::counters statistics_resource_adaptor::push_counters() {
  const std::lock_guard held{lock_};
  const counters around = levels_.back();
  levels_.emplace_back();
  return around;
}

statistics_resource_adaptor::counters statistics_resource_adaptor::pop_counters() {
  const std::lock_guard held{lock_};
  if (levels_.size() == 1)
    throw std::out_of_range{
        "statistics_resource_adaptor: pop_counters ends a level that push_counters did not begin; "
        "call them in pairs"};
  const counters ended = levels_.back();
  levels_.pop_back();
  take_over(levels_.back().first, ended.first);
  take_over(levels_.back().second, ended.second);
  return ended;
}

void* statistics_resource_adaptor::do_allocate_any(const request& wanted) {
  const std::int64_t began = time_ns();
  void* const pointer = resource_adaptor::do_allocate_any(wanted);
  note_latency(allocate_latencies_, began);
  const std::lock_guard held{lock_};
  count(levels_.back().first, static_cast<std::int64_t>(wanted.bytes));
  count(levels_.back().second, 1);
  size_class& of = sizes_[power_of(wanted.bytes)];
  ++of.allocations;
  of.bytes += wanted.bytes;
  of.peak_bytes = std::max(of.peak_bytes, of.bytes);
  return pointer;
}

void statistics_resource_adaptor::do_deallocate_any(void* pointer, const request& freed) noexcept {
  goes(freed.bytes);
  const std::int64_t began = time_ns();
  resource_adaptor::do_deallocate_any(pointer, freed);
  note_latency(deallocate_latencies_, began);
}

// First, so that the counters never exceed the upstream's: another thread may get the memory.
void statistics_resource_adaptor::goes(std::size_t bytes) noexcept {
  std::int64_t bytes_out = 0;
  std::int64_t allocations_out = 0;
  {
    const std::lock_guard held{lock_};
    bytes_out = sum_of(levels_, &counters::first);
    allocations_out = sum_of(levels_, &counters::second);
    const bool fits = bytes <= static_cast<std::size_t>(bytes_out);
    levels_.back().first.value -= fits ? static_cast<std::int64_t>(bytes) : bytes_out;
    levels_.back().second.value -= std::min<std::int64_t>(1, allocations_out);
    size_class& of = sizes_[power_of(bytes)];
    of.bytes -= std::min<std::uint64_t>(of.bytes, bytes);  // less after a wrong size
    if (fits && allocations_out > 0) return;
  }
  detail::report_exceptions([&] {
    throw std::logic_error{"statistics_resource_adaptor: " + std::to_string(bytes) +
                           " bytes are freed while " + std::to_string(bytes_out) + " in " +
                           std::to_string(allocations_out) +
                           " allocations were in use: free memory in the resource that "
                           "allocated it, with the size of the request"};
  });
}

}  // namespace hipvmm::mr
