// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/stream_timeline.hpp"

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/error.hpp>

namespace hipvmm::mr::pool {

namespace {

/// HIP refuses events of a capture by these codes, even of an invalidated one.
bool means_capture(int code) noexcept {
  return code == hipErrorCapturedEvent || code == hipErrorStreamCaptureUnsupported ||
         code == hipErrorStreamCaptureInvalidated || code == hipErrorInvalidValue;
}

}  // namespace

std::uint64_t this_thread_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

stream_timeline::stream_timeline(fence_source& source, detail::ranked_mutex& state_mutex)
    : source_{source},
      state_mutex_{state_mutex},
      idle_{states_.emplace_back(stream_state::kind::idle, stream_ref::legacy_default(), 0,
                                 next_id())},
      all_streams_{states_.emplace_back(stream_state::kind::all_streams,
                                        stream_ref::legacy_default(), 1, next_id())} {}

std::size_t stream_timeline::next_id() noexcept {
  // Later streams share the number.
  if (last_id_ != block_map::nobody) ++last_id_;
  return last_id_;
}

stream_state& stream_timeline::state_of(stream_ref stream, std::uint64_t thread) {
  const bool may_vanish = thread == 0 && source_.may_vanish(stream);
  const state_lock lock{state_mutex_};
  stream_state* vacant = nullptr;
  for (stream_state& each : states_) {
    if (each.is_vacant()) vacant = &each;
    if (each.is_stream() && each.is_in_use() && each.stream() == stream && each.thread() == thread)
      return each;
  }
  if (vacant != nullptr) {
    vacant->begin_anew(stream, next_id(), thread, may_vanish);
    return *vacant;
  }
  return states_.emplace_back(stream_state::kind::stream, stream, states_.size(), next_id(), thread,
                              may_vanish);
}

stream_state* stream_timeline::find(stream_ref stream) {
  const state_lock lock{state_mutex_};
  for (stream_state& each : states_) {
    if (each.is_stream() && each.is_in_use() && each.stream() == stream &&
        (each.thread() == 0 || each.thread() == this_thread_number()))
      return &each;
  }
  return nullptr;
}

stream_timeline::state_list stream_timeline::all() {
  const state_lock lock{state_mutex_};
  state_list result;
  result.reserve(states_.size());
  for (stream_state& each : states_) {
    if (!each.is_vacant()) result.push_back(&each);
  }
  return result;
}

stream_state* stream_timeline::with_id(std::size_t id) noexcept {
  if (id == block_map::nobody) return nullptr;
  const auto found = std::ranges::find_if(
      states_, [id](const stream_state& each) { return each.id() == id && !each.is_vacant(); });
  return found == states_.end() ? nullptr : &*found;
}

bool stream_timeline::renew_fence(stream_state& whose) {
  return whose.newest_fence().renew([&] { return source_.fence_for(whose.stream()); });
}

std::shared_ptr<const fence> stream_timeline::make_fence(stream_state& whose,
                                                         const stream_state* caller) {
  // In another thread a thread's default stream is a different one.
  const bool is_of_others = whose.thread() != 0 && whose.thread() != this_thread_number();
  if (whose.is_all_streams() || is_of_others) return source_.fence_for_all();
  if (!whose.may_vanish()) return source_.fence_for(whose.stream());
  if (&whose == caller && !whose.newest_fence().covers_all() && !renew_fence(whose)) return nullptr;
  std::optional<std::shared_ptr<const fence>> newest = whose.newest_fence().get();
  if (!newest) return source_.fence_for_gone();
  // Without a fence no work of the stream has used the memory: it is surplus of a growth.
  return *newest != nullptr ? *newest : std::make_shared<passed_fence>();
}

std::optional<stream_state::recorded_fence> stream_timeline::fence_for(stream_state& whose,
                                                                       std::uint64_t epoch,
                                                                       const stream_state* caller) {
  auto& fences = whose.fences();
  const auto first =
      std::ranges::find_if(fences, [epoch](const auto& one) { return one.epoch >= epoch; });
  if (first == fences.end()) return end_epoch(whose, caller);
  // A wait for a fence of the stream is shorter than for whole devices.
  const auto own = std::find_if(first, fences.end(),
                                [](const auto& one) { return one.point->orders_streams(); });
  return own != fences.end() ? *own : *first;
}

std::optional<stream_state::recorded_fence> stream_timeline::end_epoch(stream_state& whose,
                                                                       const stream_state* caller) {
  auto& fences = whose.fences();
  std::uint64_t ended = 0;
  {
    const state_lock lock{state_mutex_};
    // Another stream may have the handle by now.
    if (whose.is_forgotten()) return std::nullopt;
    ended = whose.advance_epoch();
  }
  std::shared_ptr<const fence> made = make_fence(whose, caller);
  if (made == nullptr) return std::nullopt;
  fences.push_back({std::move(made), ended});
  return fences.back();
}

void stream_timeline::record_missing_fences(const state_list& states, const stream_state* caller,
                                            std::vector<const stream_state*>* without) {
  // More fences show progress more exactly, but cost events.
  constexpr std::size_t most_fences = 16;
  state_list lacking;
  {
    const state_lock lock{state_mutex_};
    for (stream_state* const each : states)
      if (each->lacks_fence() && each->fences().size() < most_fences) lacking.push_back(each);
  }
  for (stream_state* const each : lacking)
    if (!end_epoch(*each, caller) && without != nullptr) without->push_back(each);
}

void stream_timeline::add_fence(stream_state& whose, std::shared_ptr<const fence> made,
                                std::uint64_t epoch) {
  constexpr std::size_t most = 32;
  poll(whose);
  auto& fences = whose.fences();
  fences.push_back({std::move(made), epoch});
  if (fences.size() <= most) return;
  // The last fence covers all; the others only pass earlier.
  const bool is_even = fences.size() % 2 == 0;
  std::size_t kept = 0;
  for (std::size_t i = is_even ? 1 : 0; i < fences.size(); i += 2)
    fences[kept++] = std::move(fences[i]);
  fences.resize(kept);
}

void stream_timeline::poll(stream_state& whose) {
  auto& fences = whose.fences();
  // A fence for whole devices may pass long after newer fences of the stream.
  for (std::size_t at = 0; at < fences.size();) {
    const auto one = fences.begin() + static_cast<std::ptrdiff_t>(at);
    try {
      if (!one->point->is_done()) {
        if (one->point->orders_streams()) return;
        ++at;
        continue;
      }
    } catch (const hip_error& error) {
      if (!means_capture(error.code())) throw;
      fences.erase(one);
      continue;
    }
    const std::uint64_t passed = one->epoch;
    // Without the state lock, because events may be destroyed.
    fences.erase(fences.begin(), one + 1);
    at = 0;
    const state_lock lock{state_mutex_};
    whose.note_passed(passed);
  }
}

bool stream_timeline::is_beside_capture(const hip_error& error) noexcept {
  return error.code() == hipErrorStreamCaptureUnsupported;
}

void stream_timeline::forget(stream_state& whose, std::shared_ptr<const fence> recorded) {
  const state_lock lock{state_mutex_};
  if (recorded != nullptr) whose.fences().push_back({std::move(recorded), whose.advance_epoch()});
  whose.forget();
}

void stream_timeline::end_fences(stream_state& whose) {
  {
    const state_lock lock{state_mutex_};
    if (!whose.is_forgotten() || !source_.fences_need_streams()) return;
  }
  // Without the state lock, because events may be destroyed.
  std::erase_if(whose.fences(), [](const auto& one) { return one.point->orders_streams(); });
}

}  // namespace hipvmm::mr::pool
