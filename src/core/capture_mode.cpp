// SPDX-License-Identifier: MIT
#include "core/capture_mode.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"

namespace hipvmm::detail {

namespace {

constinit thread_local int relaxed_now = 0;

}  // namespace

relaxed_captures::relaxed_captures() {
  if (relaxed_now == 0)
    check(hipThreadExchangeStreamCaptureMode(&mode_), "hipThreadExchangeStreamCaptureMode");
  ++relaxed_now;
}

relaxed_captures::~relaxed_captures() {
  if (--relaxed_now == 0)
    report(hipThreadExchangeStreamCaptureMode(&mode_), "hipThreadExchangeStreamCaptureMode");
}

bool is_capturing(hipStream_t stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  check_stream(hipStreamIsCapturing(stream, &status), "hipStreamIsCapturing", stream);
  return status != hipStreamCaptureStatusNone;
}

bool is_captured(hipStream_t stream) {
  try {
    return is_capturing(stream);
  } catch (const hip_error& error) {
    if (error.code() == hipErrorStreamCaptureImplicit) return true;
    throw;
  }
}

capture_place place_in_capture(hipStream_t stream) {
  capture_place found;
  const hipGraphNode_t* last = nullptr;
  std::size_t count = 0;
  const hipError_t result =
      hipStreamGetCaptureInfo_v2(stream, &found.status, &found.id, &found.graph, &last, &count);
  if (result == hipErrorStreamCaptureImplicit) {
    clear_last_error();
    return {};
  }
  check_stream(result, "hipStreamGetCaptureInfo_v2", stream);
  if (found.status != hipStreamCaptureStatusActive) return {.status = found.status, .last = {}};
  found.last.assign(last, last + count);
  std::ranges::sort(found.last);
  return found;
}

std::vector<hipGraphNode_t> nodes_before(const capture_place& place) {
  std::size_t count = 0;
  check(hipGraphGetEdges(place.graph, nullptr, nullptr, &count), "hipGraphGetEdges");
  std::vector<hipGraphNode_t> from(count);
  std::vector<hipGraphNode_t> to(count);
  if (count != 0)
    check(hipGraphGetEdges(place.graph, from.data(), to.data(), &count), "hipGraphGetEdges");
  std::vector<std::pair<hipGraphNode_t, hipGraphNode_t>> edges;  // a node, and one before it
  for (std::size_t i = 0; i < std::min(count, from.size()); ++i) edges.emplace_back(to[i], from[i]);
  std::ranges::sort(edges);
  std::set<hipGraphNode_t> found;
  std::vector<hipGraphNode_t> left = place.last;
  while (!left.empty()) {
    const hipGraphNode_t node = left.back();
    left.pop_back();
    if (!found.insert(node).second) continue;
    for (auto each = std::ranges::lower_bound(edges, std::pair{node, hipGraphNode_t{nullptr}});
         each != edges.end() && each->first == node; ++each)
      left.push_back(each->second);
  }
  return {found.begin(), found.end()};
}

}  // namespace hipvmm::detail
