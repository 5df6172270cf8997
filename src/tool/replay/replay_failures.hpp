// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hipvmm::tool {

/// The failures of a replay: all are counted, the first different ones kept as text.
class replay_failures {
 public:
  static constexpr std::size_t most_texts = 5;

  struct message {
    std::string text;
    std::size_t count;
  };

  void add(std::string text) {
    ++count_;
    const auto known = std::ranges::find(texts_, text, &message::text);
    if (known != texts_.end())
      ++known->count;
    else if (texts_.size() < most_texts)
      texts_.push_back({std::move(text), 1});
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] const std::vector<message>& texts() const noexcept { return texts_; }

 private:
  std::size_t count_ = 0;
  std::vector<message> texts_;
};

}  // namespace hipvmm::tool
