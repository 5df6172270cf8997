// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>

namespace hipvmm::detail {

/// False for a resource's own rules.
[[nodiscard]] bool is_relieved_by(const shortage& why, int ordinal) noexcept;

/// Ends loops that retry a refused request. One object serves one request.
class retry_rounds {
 public:
  /// Returns false if the last 16 rounds changed none of the known figures of `why`: in one round
  /// other threads may have taken the released memory. `waiting`: retirements that may still
  /// relieve the request; true while they reach new minima.
  [[nodiscard]] bool may_help(const shortage& why, std::size_t waiting = 0);

 private:
  std::optional<shortage> last_;
  std::size_t least_waiting_ = std::numeric_limits<std::size_t>::max();
  int unchanged_ = 0;
};

const char* error_name(int code) noexcept;

/// The part of what() behind HIP's own sentence: empty, or "; " and more.
const char* context_of(const hip_error& error) noexcept;

/// Calls the error handler, or keeps the report while a reports_wait of this thread exists.
void deliver(const char* call, int code, const char* message) noexcept;

[[nodiscard]] bool is_default_error_handler() noexcept;

/// Keeps reports for the error handler that are made under a lock. The destructor, after the lock,
/// delivers them, because the handler may use the library. One thread at a time adds.
class held_reports {
 public:
  ~held_reports();
  held_reports& operator=(held_reports&&) = delete;
  /// Returns false, with nothing kept, without memory for the report.
  bool add(const char* call, int code, const char* message) noexcept;

 private:
  struct held_report {
    std::string call;
    int code;
    std::string message;
  };
  std::vector<held_report> reports_;
};

/// While one lives, its thread's reports for the error handler go to `place`.
class reports_wait {
 public:
  explicit reports_wait(held_reports& place) noexcept;
  ~reports_wait();
  reports_wait& operator=(reports_wait&&) = delete;

 private:
  held_reports* before_;
};

/// Returns false if `call` throws an out_of_memory that `is_expected` accepts.
template <typename Call, typename Predicate>
[[nodiscard]] bool attempt(Call&& call, Predicate&& is_expected) {
  try {
    std::forward<Call>(call)();
  } catch (const out_of_memory& refused) {
    if constexpr (std::is_invocable_v<Predicate, const shortage&>) {
      if (!std::forward<Predicate>(is_expected)(refused.why())) throw;
    } else {
      if (!std::forward<Predicate>(is_expected)(refused)) throw;
    }
    return false;
  }
  return true;
}

template <typename Call>
[[nodiscard]] bool attempt(Call&& call) {
  return attempt(std::forward<Call>(call), [](const shortage&) { return true; });
}

template <typename Call>
[[nodiscard]] std::optional<out_of_memory> refusal_of(Call&& call) {
  std::optional<out_of_memory> result;
  const auto keep = [&](const out_of_memory& refused) {
    result.emplace(refused);
    return true;
  };
  static_cast<void>(attempt(std::forward<Call>(call), keep));
  return result;
}

template <typename Call>
[[nodiscard]] std::optional<hip_error> refusal_of(int code, Call&& call) {
  try {
    std::forward<Call>(call)();
    return std::nullopt;
  } catch (const hip_error& refused) {
    if (refused.code() != code) throw;
    return refused;
  }
}

/// An out_of_memory that `call` throws continues with `advice()`, or with `advice(shortage)`.
template <typename Call, typename Advice>
decltype(auto) with_advice(Call&& call, Advice&& advice) {
  try {
    return std::forward<Call>(call)();
  } catch (const out_of_memory& refused) {
    if constexpr (std::is_invocable_v<Advice>)
      throw out_of_memory{refused, std::forward<Advice>(advice)()};
    else
      throw out_of_memory{refused, std::forward<Advice>(advice)(refused.why())};
  }
}

}  // namespace hipvmm::detail
