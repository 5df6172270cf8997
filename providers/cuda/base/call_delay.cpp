// SPDX-License-Identifier: MIT
#include "base/call_delay.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include <hip/hip_runtime_api.h>

#include "providers/failure.hpp"

namespace hipvmm::cuda_provider {
namespace {

constexpr const char* variable = "HIPVMM_CUDA_DELAYS";
constexpr std::array<std::string_view, 6> names{"hipMemCreate", "hipMemMap",     "hipMemSetAccess",
                                                "hipMemUnmap",  "hipMemRelease", "hipMalloc"};
using delay_list = std::array<std::chrono::nanoseconds, names.size()>;

std::optional<std::chrono::nanoseconds> parse_time(const std::string& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > 9) return std::nullopt;
  const auto count = std::stoll(text.substr(0, digits));
  const std::string unit = text.substr(digits);
  if (unit == "ns") return std::chrono::nanoseconds{count};
  if (unit == "us") return std::chrono::microseconds{count};
  if (unit == "ms") return std::chrono::milliseconds{count};
  if (unit == "s") return std::chrono::seconds{count};
  return std::nullopt;
}

/// Returns whether `rule` is valid, such as "hipMemMap delay=300us", and adds its delay.
bool read(const std::string& rule, delay_list& to) {
  std::istringstream words{rule};
  std::string name;
  std::string wanted;
  std::string more;
  if (!(words >> name)) return true;
  constexpr std::string_view prefix = "delay=";
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end() || !(words >> wanted) || words >> more || wanted.find(prefix) != 0)
    return false;
  const auto time = parse_time(wanted.substr(prefix.size()));
  if (time) to[static_cast<std::size_t>(at - names.begin())] = *time;
  return time.has_value();
}

std::optional<delay_list> read_environment() {
  delay_list result{};
  const char* const text = ::secure_getenv(variable);
  if (text == nullptr) return result;
  std::istringstream rules{text};
  for (std::string rule; std::getline(rules, rule, ';');) {
    if (read(rule, result)) continue;
    std::string accepted;
    for (const std::string_view each : names) accepted.append(" ").append(each);
    std::fprintf(stderr,
                 "hipvmm cuda provider: the rule \"%s\" of %s is not valid: write \"hipMemMap "
                 "delay=300us\", with ns, us, ms or s; rules stand between semicolons, for%s. Each "
                 "of these calls is refused meanwhile.\n",
                 rule.c_str(), variable, accepted.c_str());
    return std::nullopt;
  }
  return result;
}

}  // namespace

void delay(priced_call call) {
  static const std::optional<delay_list> delays = read_environment();
  provider::require(delays.has_value(), hipErrorInvalidValue);
  const std::chrono::nanoseconds time = (*delays)[static_cast<std::size_t>(call)];
  if (time.count() != 0) std::this_thread::sleep_for(time);
}

}  // namespace hipvmm::cuda_provider
