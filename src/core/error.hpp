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

/// Returns whether released memory of the device `ordinal` may relieve `why`: of the device that
/// lacks memory or room in a budget; of any device if the process lacks addresses, descriptors or
/// host memory. No device's memory relieves a resource that refuses by its own rules.
[[nodiscard]] bool is_relieved_by(const shortage& why, int ordinal) noexcept;

/// Ends loops that retry a refused request. One object serves one request.
class retry_rounds {
 public:
  /// Returns whether another round may serve the request, which was refused for `why`: false if the
  /// last 16 rounds have changed none of its figures. One round proves nothing: other threads may
  /// take the released memory. `waiting`: retirements that may still relieve it; a round helps for
  /// any figures while they reach new minima.
  [[nodiscard]] bool may_help(const shortage& why, std::size_t waiting = 0);

 private:
  std::optional<shortage> last_;
  std::size_t least_waiting_ = std::numeric_limits<std::size_t>::max();
  int unchanged_ = 0;
};

/// The name of a hipError_t, such as "hipErrorUnknown".
const char* error_name(int code) noexcept;

/// The part of the text of `error` behind HIP's own sentence: empty, or "; " and more.
const char* context_of(const hip_error& error) noexcept;

/// Calls the error handler, or keeps the report while a reports_wait of this thread exists.
void deliver(const char* call, int code, const char* message) noexcept;

/// Returns whether the error handler is the default, which writes to standard error.
[[nodiscard]] bool is_default_error_handler() noexcept;

/// Reports for the error handler that threads make while a lock is held. The destructor delivers
/// them after the lock is released: the handler may use the library. One thread at a time adds.
class held_reports {
 public:
  ~held_reports();
  held_reports& operator=(held_reports&&) = delete;
  /// Keeps a report. Returns false, nothing kept, when there is no memory for it: it is then
  /// delivered at once.
  bool add(const char* call, int code, const char* message) noexcept;

 private:
  struct held_report {
    std::string call;
    int code;
    std::string message;
  };
  std::vector<held_report> reports_;
};

/// While this object lives, reports of its thread for the error handler go to `place`.
class reports_wait {
 public:
  explicit reports_wait(held_reports& place) noexcept;
  ~reports_wait();
  reports_wait& operator=(reports_wait&&) = delete;

 private:
  held_reports* before_;
};

/// Returns false if `call` throws an out_of_memory that `is_expected` accepts, by the exception or
/// its shortage: the caller then goes another way.
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

/// Returns the out_of_memory that `call` throws, if it does.
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

/// Returns the hip_error of that `code` that `call` throws, if it does.
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

/// Returns the result of `call`. An out_of_memory that it throws continues with `advice()`, or with
/// `advice(shortage)`.
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
