// SPDX-License-Identifier: MIT
#include "src/base/fault_plan.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <hsa/hsa_ext_amd.h>

#include "src/base/text.hpp"

namespace stand_in {
namespace {

struct failure {
  std::string function;
  std::uint64_t calls_left;
  hsa_status_t status;
};

struct slow_function {
  std::string function;
  std::chrono::microseconds delay;
};

struct state {
  std::mutex lock;
  std::vector<failure> failures;
  std::vector<slow_function> slow;

  void count_planned();
};

state& the_state() {
  static auto* made = new state;
  return *made;
}

std::atomic<std::size_t> planned{0};

void state::count_planned() { planned = failures.size() + slow.size(); }

constexpr std::pair<const char*, int> statuses[] = {
    {"ERROR", HSA_STATUS_ERROR},
    {"INVALID_ARGUMENT", HSA_STATUS_ERROR_INVALID_ARGUMENT},
    {"INVALID_ALLOCATION", HSA_STATUS_ERROR_INVALID_ALLOCATION},
    {"INVALID_AGENT", HSA_STATUS_ERROR_INVALID_AGENT},
    {"OUT_OF_RESOURCES", HSA_STATUS_ERROR_OUT_OF_RESOURCES},
    {"RESOURCE_FREE", HSA_STATUS_ERROR_RESOURCE_FREE},
    {"NOT_INITIALIZED", HSA_STATUS_ERROR_NOT_INITIALIZED},
    {"INVALID_QUEUE_CREATION", HSA_STATUS_ERROR_INVALID_QUEUE_CREATION},
    {"INVALID_MEMORY_POOL", HSA_STATUS_ERROR_INVALID_MEMORY_POOL},
};

bool parse_status(const std::string& word, hsa_status_t& into) {
  for (const auto& [name, value] : statuses) {
    if (word == name) {
      into = static_cast<hsa_status_t>(value);
      return true;
    }
  }
  std::uint32_t number = 0;
  const bool hex = word.rfind("0x", 0) == 0;
  const char* begin = word.data() + (hex ? 2 : 0);
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(begin, end, number, hex ? 16 : 10);
  into = static_cast<hsa_status_t>(number);
  return begin < end && error == std::errc{} && at == end && number != 0;
}

bool parse_delay(const std::string& word, std::chrono::microseconds& into) {
  constexpr std::uint64_t longest = 60'000'000;
  std::uint64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, number);
  into = std::chrono::microseconds{number};
  return error == std::errc{} && std::string(at, end) == "us" && number <= longest;
}

bool exported(const std::string& function) {
  if (function.rfind("hsa_", 0) != 0) return false;
  static void* const self = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&exported), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return dlsym(self != nullptr ? self : RTLD_DEFAULT, function.c_str()) != nullptr;
}

// Returns a message for the first entry that is wrong.
template <class Fails, class IsSlow>
std::string for_each_entry(const std::string& plan, Fails fails, IsSlow is_slow) {
  for (std::size_t at = 0; at < plan.size();) {
    const std::size_t comma = std::min(plan.find(',', at), plan.size());
    const std::string entry = plan.substr(at, comma - at);
    at = comma + 1;
    const std::size_t colon = entry.find(':');
    const std::size_t equals = entry.find('=');
    const std::string function = entry.substr(0, std::min(colon, equals));
    const std::string value = equals == std::string::npos ? "" : entry.substr(equals + 1);
    std::chrono::microseconds delay{};
    const bool delays = equals < colon && parse_delay(value, delay);
    if (!delays && (colon == std::string::npos || equals == std::string::npos || equals < colon)) {
      return text("\"%s\" is no function:nth=status and no function=TIME, such as 300us.",
                  entry.c_str());
    }
    if (!exported(function)) {
      return text("\"%s\" is no HSA function of the stand-in.", function.c_str());
    }
    if (delays) {
      is_slow(function, delay);
      continue;
    }
    const std::string nth = entry.substr(colon + 1, equals - colon - 1);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(nth.data(), nth.data() + nth.size(), number);
    if (error != std::errc{} || end != nth.data() + nth.size() || number == 0) {
      return text("\"%s\" is no number of a call, which start at 1.", nth.c_str());
    }
    hsa_status_t status{};
    if (!parse_status(value, status)) {
      std::string names;
      for (const auto& each_status : statuses) names += std::string(", ") + each_status.first;
      return text("\"%s\" is no status. Use a number%s.", value.c_str(), names.c_str());
    }
    fails(function, number, status);
  }
  return "";
}

}  // namespace

std::string check_fault_plan(const std::string& plan) {
  return for_each_entry(
      plan, [](const std::string&, std::uint64_t, hsa_status_t) {},
      [](const std::string&, std::chrono::microseconds) {});
}

bool is_function(const std::string& function) { return exported(function); }

void add_fault_plan(const std::string& plan) {
  for_each_entry(
      plan,
      [](const std::string& function, std::uint64_t nth, hsa_status_t status) {
        plan_failure(function, nth, status);
      },
      [](const std::string& function, std::chrono::microseconds delay) {
        state& now = the_state();
        std::lock_guard guard(now.lock);
        now.slow.push_back({function, delay});
        now.count_planned();
      });
}

bool plan_failure(const std::string& function, std::uint64_t nth, hsa_status_t status) {
  if (!exported(function)) return false;
  state& now = the_state();
  std::lock_guard guard(now.lock);
  if (nth == 0) {
    std::erase_if(now.failures, [&](const failure& each) { return each.function == function; });
  } else {
    now.failures.push_back({function, nth, status});
  }
  now.count_planned();
  return true;
}

hsa_status_t planned_status(const std::string& function) {
  state& now = the_state();
  std::chrono::microseconds delay{0};
  hsa_status_t status = HSA_STATUS_SUCCESS;
  {
    std::lock_guard guard(now.lock);
    for (const slow_function& each : now.slow) {
      if (each.function == function) delay += each.delay;
    }
    for (failure& each : now.failures) {
      if (each.function == function && --each.calls_left == 0) status = each.status;
    }
    std::erase_if(now.failures, [](const failure& each) { return each.calls_left == 0; });
    now.count_planned();
  }
  if (delay.count() != 0) std::this_thread::sleep_for(delay);
  return status;
}

bool failures_planned() { return planned.load(std::memory_order_relaxed) != 0; }

}  // namespace stand_in
