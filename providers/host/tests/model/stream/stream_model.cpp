// SPDX-License-Identifier: MIT
#include "stream_model.hpp"

#include <algorithm>

namespace hipvmm::test::model {

bool stream_model::is_any_captured() const {
  return std::any_of(captures.begin(), captures.end(),
                     [](const stream_capture& each) { return each.state != capture_state::none; });
}

bool stream_model::is_of_captured(const event_state& event) const {
  return event.stream < stream_slots && captures[event.stream].state != capture_state::none;
}

bool stream_model::is_followed(const event_state& event) const {
  return rules.looks_at_event_streams && event.is_recorded && event.stream == stream_slots;
}

bool stream_model::refuses(capture_check check, std::size_t thread) {
  if (check == capture_check::by_mode && rules.refusals_cost_own_first &&
      refuses(capture_check::own, thread))
    return true;
  const hipStreamCaptureMode mode = thread_modes[thread];
  const bool looks = mode != hipStreamCaptureModeRelaxed;
  if (check == capture_check::global_first)
    return (mode == hipStreamCaptureModeGlobal && refuses(capture_check::global, thread)) ||
           refuses(capture_check::own, thread);
  if (check == capture_check::global_too)
    return (looks && refuses(capture_check::global, thread)) || refuses(capture_check::own, thread);
  bool is_refused = false;
  for (stream_capture& each : captures) {
    const bool counts = each.state == capture_state::active ||
                        (each.state == capture_state::lost && rules.lost_captures_refuse);
    const bool is_own = each.thread == thread && each.mode != hipStreamCaptureModeRelaxed;
    const bool is_global = each.mode == hipStreamCaptureModeGlobal;
    bool forbids = check == capture_check::all;
    if (check == capture_check::by_mode)
      forbids = looks && (is_own || (is_global && mode == hipStreamCaptureModeGlobal));
    if (check == capture_check::any_thread) forbids = is_own || is_global;
    if (check == capture_check::own) forbids = looks && is_own;
    if (check == capture_check::global) forbids = is_global;
    if (!counts || !forbids) continue;
    is_refused = true;
    lose(each);
  }
  return is_refused;
}

void stream_model::lose(stream_capture& refusing) const {
  if (rules.refusals_cost_captures && refusing.state == capture_state::active)
    refusing.state = capture_state::lost;
}

stream_rules stream_rules_of(std::string_view profile) {
  stream_rules rules;
  rules.waits_cost_captures = profile != "rocm-5.7";
  rules.refusals_cost_captures = profile != "rocm-5.7";
  rules.refusals_cost_own_first = profile.starts_with("rocm");
  rules.lost_captures_refuse = profile.starts_with("rocm");
  rules.foreign_end_costs = profile == "cuda-13";
  if (profile.starts_with("rocm")) rules.waiting_copies = capture_check::all;
  if (profile.starts_with("rocm-7") || profile.starts_with("rocm-10")) {
    rules.waits = capture_check::global_first;
    rules.event_questions = capture_check::global_first;
    rules.unrecorded_waits = capture_check::global_first;
  }
  if (profile == "rocm-5.7" || profile.starts_with("rocm-6")) {
    rules.calls_back_at_once = true;
    rules.looks_at_event_streams = true;
    rules.event_questions = capture_check::none;
    rules.managed_memory = capture_check::none;
    rules.waits = capture_check::global_too;
    rules.unrecorded_waits = capture_check::none;
  }
  if (profile == "rocm-5.7") {
    rules.looks_at_last_mode = true;
    rules.waiting_copies = capture_check::global;
    rules.waits = capture_check::any_thread;
  }
  rules.refuses_managed_at_random = profile == "rocm-7.2";
  rules.waits_are_of_device = profile == "cuda-13";
  rules.switches_by_lowest_bit = profile.starts_with("rocm");
  rules.resets_reserved_mark = profile != "rocm-5.7";
  rules.follows_null_properties = profile == "rocm-5.7";
  return rules;
}

}  // namespace hipvmm::test::model
