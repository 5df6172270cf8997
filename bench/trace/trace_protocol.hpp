// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "trace_contenders.hpp"

// Lines between trace_bench and the processes that serve it.
namespace bench {

struct replay_request {
  std::string trace;  ///< a file
  std::size_t epochs = 1;
  std::optional<std::size_t> busy_bytes = std::nullopt;
};

[[nodiscard]] std::string to_line(const replay_request& request);
/// Throws: std::runtime_error when the line is none of to_line's.
[[nodiscard]] replay_request request_of(const std::string& line);

[[nodiscard]] std::string to_line(const trace_epochs& epochs);
[[nodiscard]] std::string failure_line(std::string reason);
/// Throws: std::runtime_error with the reason of a failure_line, or when the line is no answer.
[[nodiscard]] trace_epochs epochs_of(const std::string& line);

}  // namespace bench
