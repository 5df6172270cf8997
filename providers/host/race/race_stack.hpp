// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace hipvmm::host_provider {

/// Return addresses, the innermost first. Cheap to take; names and lines are looked up when it is
/// printed.
class race_stack {
 public:
  [[nodiscard]] static race_stack capture() noexcept;

  /// Without the provider's own frames at its top.
  [[nodiscard]] std::span<const void* const> of_program() const noexcept;
  /// One line a frame, down to main.
  [[nodiscard]] std::string text() const;

 private:
  std::array<const void*, 48> frames_;
  std::size_t count_ = 0;
};

}  // namespace hipvmm::host_provider
