// SPDX-License-Identifier: MIT
#pragma once

#include <new>
#include <string>
#include <utility>

namespace rmm {

class bad_alloc : public std::bad_alloc {
 public:
  explicit bad_alloc(std::string text) : text_{std::move(text)} {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

class out_of_memory : public bad_alloc {
 public:
  using bad_alloc::bad_alloc;
};

}  // namespace rmm
