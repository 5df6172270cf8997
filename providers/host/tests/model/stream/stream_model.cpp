// SPDX-License-Identifier: MIT
#include "stream_model.hpp"

#include <algorithm>

namespace hipvmm::test::model {

bool stream_model::is_any_captured() const {
  return std::any_of(captures.begin(), captures.end(),
                     [](capture_state each) { return each != capture_state::none; });
}

bool stream_model::is_of_captured(const event_state& event) const {
  return event.stream < stream_slots && captures[event.stream] != capture_state::none;
}

void stream_model::lose_captures() {
  for (capture_state& each : captures)
    if (each == capture_state::active) each = capture_state::lost;
}

stream_rules stream_rules_of(std::string_view profile) {
  stream_rules rules;
  rules.waits_cost_captures = profile != "rocm-5.7";
  rules.questions_cost_captures = profile != "rocm-5.7";
  rules.waits_are_of_device = profile == "cuda-13";
  rules.switches_by_lowest_bit = profile.starts_with("rocm");
  rules.resets_reserved_mark = profile != "rocm-5.7";
  rules.follows_null_properties = profile == "rocm-5.7";
  return rules;
}

}  // namespace hipvmm::test::model
