// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hipvmm/runtime/stream.hpp>
#include "runtime/stream_watch.hpp"

namespace hipvmm::test {

/// Keeps the arguments of the calls of a stream_watcher. The points of streams are numbered from 1.
class note_taker final : public detail::stream_watcher {
 public:
  note_taker() { detail::watch_streams(*this); }
  ~note_taker() override { detail::end_watch(*this); }

  [[nodiscard]] detail::stream_point point_of(ihipStream_t* stream, bool) override {
    if (fails) throw std::runtime_error{"no point"};
    const std::uint64_t point = ++points;
    if (when_asked) std::exchange(when_asked, nullptr)();
    return {stream, point};
  }
  void add_dependency(ihipStream_t* waiter, const detail::stream_point& point) override {
    follows.emplace_back(waiter, point.count);
  }
  void note_passed(const detail::stream_point& point) override { passed.push_back(point.count); }
  void note_end(ihipStream_t* stream) override {
    ended.push_back(stream);
    if (when_ended) when_ended(stream);
  }

  bool fails = false;
  std::function<void()> when_asked;  // for a point, the next time
  std::function<void(stream_ref)> when_ended;
  std::uint64_t points = 0;
  std::vector<std::pair<stream_ref, std::uint64_t>> follows;
  std::vector<std::uint64_t> passed;
  std::vector<stream_ref> ended;
};

}  // namespace hipvmm::test
