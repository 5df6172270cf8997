// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hipvmm::tool {

/// What went wrong in a replay: all are counted, the first ones kept as text.
class replay_failures {
 public:
  static constexpr std::size_t most_texts = 5;

  void add(std::string text) {
    ++count_;
    if (texts_.size() < most_texts) texts_.push_back(std::move(text));
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] const std::vector<std::string>& texts() const noexcept { return texts_; }

 private:
  std::size_t count_ = 0;
  std::vector<std::string> texts_;
};

}  // namespace hipvmm::tool
