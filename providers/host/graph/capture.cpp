// SPDX-License-Identifier: MIT
#include "graph/capture.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/failure.hpp"

namespace hipvmm::host_provider {
namespace {

void include(std::vector<const graph_node*>& nodes, const std::vector<const graph_node*>& more) {
  for (const graph_node* each : more) {
    if (std::find(nodes.begin(), nodes.end(), each) == nodes.end()) nodes.push_back(each);
  }
}

}  // namespace

void capture_set::begin(stream_queue& origin, hipStreamCaptureMode mode) {
  require(origin.order() != stream_order::null, hipErrorStreamCaptureUnsupported);
  const guard lock{mutex_};
  require(find(origin) == nullptr, hipErrorIllegalState);
  auto made = std::make_shared<capture_sequence>(
      capture_sequence{last_id_ + 1, mode, calling_thread(), &origin,
                       std::make_shared<graph>(graphs_, graph::state::recording), nullptr});
  streams_.emplace(&origin, participant{origin.shared_from_this(), made, {}, {}});
  try {
    made->handle = to_handle<hipGraph_t>(graphs_.graphs.insert(made->recorded));
  } catch (...) {
    streams_.erase(&origin);
    throw;
  }
  ++last_id_;
  live_.fetch_add(1, std::memory_order_release);
}

hipGraph_t capture_set::end(stream_queue& origin) {
  std::shared_ptr<graph> lost;  // dies after the lock, with the memory it would have allocated
  const guard lock{mutex_};
  const participant* const ended = find(origin);
  require(ended != nullptr, hipErrorIllegalState);
  const sequence over = ended->capture;
  const bool costs = rules_.capture_end == foreign_end::costs_capture;
  if (over->origin != &origin) {
    if (costs) over->valid = false;
    throw failure{hipErrorStreamCaptureUnmatched};
  }
  if (over->mode != hipStreamCaptureModeRelaxed && over->thread != calling_thread()) {
    if (costs) {
      lost = finish(over);
      static_cast<void>(graphs_.graphs.extract(from_handle(over->handle)));
    }
    throw failure{hipErrorStreamCaptureWrongThread};
  }
  const bool joined = over->recorded->leads_to(ended->last);
  const std::shared_ptr<graph> recorded = finish(over);
  if (over->valid && joined) return over->handle;
  lost = graphs_.graphs.extract(from_handle(over->handle));
  throw failure{over->valid ? hipErrorStreamCaptureUnjoined : hipErrorStreamCaptureInvalidated};
}

void capture_set::forget(const stream_queue& leaving) {
  if (!any()) return;
  std::shared_ptr<graph> lost;
  const guard lock{mutex_};
  const auto at = streams_.find(&leaving);
  if (at == streams_.end()) return;
  const sequence capture = at->second.capture;
  if (capture->origin != &leaving) {
    streams_.erase(at);
    return;
  }
  lost = finish(capture);
  static_cast<void>(graphs_.graphs.extract(from_handle(capture->handle)));
}

capture_set::description capture_set::describe(const stream_queue& queue) {
  if (!any()) return {};
  const guard lock{mutex_};
  const bool blocked = std::any_of(streams_.begin(), streams_.end(), [&](const auto& each) {
    return each.second.capture->valid && excludes_null_stream(each.second, queue);
  });
  require(!blocked, hipErrorStreamCaptureImplicit);
  participant* const found = find(queue);
  if (found == nullptr) return {};
  const capture_sequence& capture = *found->capture;
  if (!capture.valid) return {hipStreamCaptureStatusInvalidated};
  found->described.clear();
  for (const graph_node* each : found->last) found->described.push_back(each->handle);
  return {hipStreamCaptureStatusActive, capture.id, capture.handle, found->described.data(),
          found->described.size()};
}

bool capture_set::is_capturing(const stream_queue& queue) const {
  if (!any()) return false;
  const guard lock{mutex_};
  return streams_.find(&queue) != streams_.end();
}

bool capture_set::record(stream_queue& queue, const operation& work) {
  if (!any()) return false;
  const guard lock{mutex_};
  refuse_null_stream(queue);
  participant* const into = find_valid(queue);
  if (into == nullptr) return false;
  std::optional<graph_form> form = work.recorded();
  if (!form) into->capture->valid = false;
  require(form.has_value(), hipErrorStreamCaptureUnsupported);
  append(*into, *std::move(form));
  return true;
}

bool capture_set::record_event(stream_queue& queue, event_state& recorded) {
  if (!any()) return false;
  const guard lock{mutex_};
  refuse_null_stream(queue);
  const participant* const in = find_valid(queue);
  if (in == nullptr) return false;
  recorded.record_captured(
      std::make_shared<const captured_mark>(captured_mark{in->capture, in->last}));
  return true;
}

bool capture_set::record_wait(stream_queue& queue, const event_state& awaited) {
  const std::shared_ptr<const captured_mark> mark = awaited.captured();
  if (mark == nullptr && !any()) return false;
  const guard lock{mutex_};
  refuse_null_stream(queue);
  participant* waiting = find_valid(queue);
  if (mark == nullptr) {
    if (waiting == nullptr) return false;
    if (!awaited.is_recorded() || rules_.past_event == beside_capture::taken) return true;
    waiting->capture->valid = false;
    throw failure{hipErrorStreamCaptureIsolation};
  }
  const sequence capture = mark->sequence.lock();
  require(capture != nullptr, hipErrorCapturedEvent);
  require(capture->valid, hipErrorStreamCaptureInvalidated);
  if (queue.order() == stream_order::null) {
    capture->valid = false;
    throw failure{hipErrorStreamCaptureUnsupported};
  }
  if (waiting == nullptr) {
    streams_.emplace(&queue, participant{queue.shared_from_this(), capture, mark->last, {}});
    return true;
  }
  if (waiting->capture != capture) {
    waiting->capture->valid = false;
    capture->valid = false;
    throw failure{hipErrorStreamCaptureMerge};
  }
  include(waiting->last, mark->last);
  return true;
}

std::optional<address> capture_set::record_allocation(stream_queue& queue,
                                                      const graph_memory_place& place,
                                                      std::size_t bytes) {
  if (!any() || bytes == 0) return std::nullopt;
  const guard lock{mutex_};
  refuse_null_stream(queue);
  participant* const into = find_valid(queue);
  if (into == nullptr) return std::nullopt;
  std::shared_ptr<graph_memory> memory =
      graph_memory::reserve(memory_, place, bytes, into->capture->id);
  const address start = memory->start();
  append(*into, graph_memory_node(std::move(memory), graph_memory_step::allocate));
  return start;
}

bool capture_set::record_free(stream_queue& queue, address start) {
  if (!any()) return false;
  const guard lock{mutex_};
  refuse_null_stream(queue);
  participant* const into = find_valid(queue);
  if (into == nullptr) return false;
  const std::optional<tracked_range> found = memory_.addresses.find(start);
  require(found && found->kind == memory_kind::graph_allocation && found->start == start);
  const std::shared_ptr<graph_memory> memory = graph_memory::at(*found);
  require(memory != nullptr);
  const bool own = memory->is_recorded_by(into->capture->id);
  require(own || (memory->is_held() && !into->capture->recorded->frees(*memory)));
  append(*into, graph_memory_node(memory, graph_memory_step::free));
  if (own) memory->end_recording();
  return true;
}

capture_set::participant* capture_set::find(const stream_queue& queue) {
  const auto at = streams_.find(&queue);
  return at == streams_.end() ? nullptr : &at->second;
}

capture_set::participant* capture_set::find_valid(const stream_queue& queue) {
  participant* const found = find(queue);
  require(found == nullptr || found->capture->valid, hipErrorStreamCaptureInvalidated);
  return found;
}

bool capture_set::excludes_null_stream(const participant& each,
                                       const stream_queue& queue) noexcept {
  return queue.order() == stream_order::null && each.queue->order() == stream_order::blocking &&
         each.queue->device() == queue.device();
}

void capture_set::append(participant& to, graph_form form) {
  std::vector<const graph_node*> next(1);
  next.front() = &to.capture->recorded->add(std::move(form), to.last);
  to.last = std::move(next);
}

std::shared_ptr<graph> capture_set::finish(const sequence& over) noexcept {
  for (auto each = streams_.begin(); each != streams_.end();) {
    each = each->second.capture == over ? streams_.erase(each) : std::next(each);
  }
  live_.fetch_sub(1, std::memory_order_release);
  over->recorded->complete();
  return over->recorded;
}

}  // namespace hipvmm::host_provider
