// SPDX-License-Identifier: MIT
#include <hipvmm/core/error.hpp>

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <tuple>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/error.hpp"

namespace hipvmm {
namespace {

std::string describe(int code, const char* call) {
  const auto error = static_cast<hipError_t>(code);
  return std::string{call} + " failed: " + hipGetErrorName(error) + " (" + std::to_string(code) +
         "), " + hipGetErrorString(error);
}

std::string limit_text(const shortage& why) {
  const bool is_budget = why.cause == exhausted::budget;
  std::string text = std::string{is_budget ? "budget" : "limit"} +
                     " reached: " + format_bytes(why.requested) + " requested, " +
                     format_bytes(why.available) + " available";
  if (why.owner.empty()) return text;
  text += " of " + why.owner;
  if (why.most != 0 || !why.can_be_relieved()) text += ", which is " + format_limit(why.most);
  if (!why.can_be_relieved()) text += "; the request is larger than that";
  // The budget adds its advice as context.
  if (is_budget) return text;
  const std::string setting = why.owner.substr(why.owner.rfind(':') + 1);
  return text + (why.can_be_relieved()
                     ? "; the memory in use leaves no room for it: free memory, or raise " + setting
                     : ": request less, or raise " + setting);
}

bool is_hip_function(std::string_view call) noexcept {
  return call.starts_with("hip") && call.size() > 3 && call[3] >= 'A' && call[3] <= 'Z';
}

void write_to_stderr(const char* call, int code, const char* message) noexcept {
  if (is_hip_function(call))
    std::fprintf(stderr, "hipvmm: %s failed in a call that cannot throw: %s (%d)\n", call, message,
                 code);
  else if (call == std::string_view{"hipvmm"})
    std::fprintf(stderr, "hipvmm: %s\n", message);
  else
    std::fprintf(stderr, "hipvmm: %s: %s\n", call, message);
}

std::atomic<error_handler> current_handler{write_to_stderr};

thread_local detail::held_reports* waiting_place = nullptr;

}  // namespace

hip_error::hip_error(int code, const char* call, const char* file, unsigned line)
    : std::runtime_error{describe(code, call)},
      code_{code},
      call_{call},
      file_{file},
      line_{line} {}

hip_error::hip_error(int code, const char* call, const std::string& context, const char* file,
                     unsigned line)
    : std::runtime_error{describe(code, call) + "; " + context},
      code_{code},
      call_{call},
      file_{file},
      line_{line} {}

std::string shortage::text() const {
  std::string text;
  switch (cause) {
    case exhausted::device_memory:
      text = "out of device memory: device " + std::to_string(device) + " has " +
             format_bytes(available) + " free" +
             (requested == 0 ? "" : ", and " + format_bytes(requested) + " were requested");
      if (!can_be_relieved())
        text += "; the request is larger than the device's memory of " + format_bytes(most) +
                ": request less";
      else if (requested != 0)
        text += ": free memory there, or request less";
      break;
    case exhausted::addresses:
      text = "out of addresses: no free range of " + format_bytes(requested);
      if (owner.empty()) {
        text += " in the address space; reserve less (growth_options::max_bytes)";
        break;
      }
      text += " in " + owner + ", the largest has " + format_bytes(available);
      text += can_be_relieved() ? ": free memory"
                                : ": make it while the process has more addresses left";
      break;
    case exhausted::descriptors:
      text = "descriptor limit reached: too few file descriptors are left";
      // A device is set if the descriptors were for a chunk.
      if (device >= 0)
        text += (requested == 0 ? "" : " for a chunk of " + format_bytes(requested)) +
                " on device " + std::to_string(device) + ", which has " + format_bytes(available) +
                " free";
      text += "; raise `ulimit -n`";
      if (device >= 0)
        text += ", use larger chunks (growth_options::granule_bytes) or trim chunk_cache";
      break;
    case exhausted::host_memory:
      text = "out of host memory: the host has " + format_bytes(available) + " free, and " +
             format_bytes(requested) + " were requested: free memory there, or request less";
      break;
    case exhausted::limit:
    case exhausted::budget:
      text = limit_text(*this);
      break;
    case exhausted::fragmentation:
      text =
          "fragmentation: " + format_bytes(requested) +
          " requested, which are free, but not in one piece; the largest request that fits has " +
          format_bytes(available) + ": free blocks beside free ones, or use smaller chunks";
      break;
    case exhausted::alignment:
      text = "alignment not available: " + format_bytes(requested) + " requested at " +
             (alignment == 0 ? "an alignment" : "a multiple of " + format_bytes(alignment)) +
             ", and " + (owner.empty() ? "the address space" : owner) + " has no such address" +
             (can_be_relieved() ? " free: free memory, or request"
              : owner.empty()   ? ": request"
                                : ": make it larger, or request") +
             " a smaller alignment";
      break;
  }
  return context.empty() ? text : text + "; " + context;
}

out_of_memory::out_of_memory(shortage why) {
  std::string message = why.text();
  state_ = std::make_shared<const state>(state{std::move(why), std::move(message)});
}

out_of_memory::out_of_memory(exhausted resource, int device, std::size_t bytes_requested,
                             std::size_t bytes_free, const std::string& context)
    : out_of_memory{shortage{.cause = resource,
                             .device = device,
                             .requested = bytes_requested,
                             .available = bytes_free,
                             .context = context}} {}

out_of_memory::out_of_memory(const std::string& message)
    : state_{std::make_shared<const state>(
          state{shortage{.cause = exhausted::limit, .context = message}, message})} {}

out_of_memory::out_of_memory(const out_of_memory& cause, const std::string& context)
    : out_of_memory{cause} {
  shortage why = cause.why();
  why.context += (why.context.empty() ? "" : "; ") + context;
  state_ =
      std::make_shared<const state>(state{std::move(why), cause.state_->message + "; " + context});
}

hip_error::hip_error(const hip_error& cause, const std::string& context)
    : std::runtime_error{std::string{cause.what()} + "; " + context},
      code_{cause.code_},
      call_{cause.call_},
      file_{cause.file_},
      line_{cause.line_} {}

error_handler set_error_handler(error_handler handler) noexcept {
  return current_handler.exchange(handler != nullptr ? handler : write_to_stderr);
}

namespace detail {

bool is_relieved_by(const shortage& why, int ordinal) noexcept {
  switch (why.cause) {
    case exhausted::device_memory:
    case exhausted::budget:
      return why.device == ordinal;
    case exhausted::addresses:
    case exhausted::descriptors:
    case exhausted::host_memory:
      return true;
    case exhausted::limit:
    case exhausted::fragmentation:
    case exhausted::alignment:
      break;
  }
  return false;
}

bool retry_rounds::may_help(const shortage& why, std::size_t waiting) {
  constexpr int most_unchanged = 16;
  const auto figures = [](const shortage& of) {
    return std::tie(of.cause, of.device, of.requested, of.available, of.most, of.used);
  };
  const bool is_known = why.requested != 0 || why.used;
  const bool is_same = last_ && is_known && figures(*last_) == figures(why);
  unchanged_ = is_same && waiting >= least_waiting_ ? unchanged_ + 1 : 0;
  least_waiting_ = std::min(least_waiting_, waiting);
  last_ = why;
  return unchanged_ < most_unchanged;
}

const char* error_name(int code) noexcept { return hipGetErrorName(static_cast<hipError_t>(code)); }

const char* context_of(const hip_error& error) noexcept {
  const char* const sentence = hipGetErrorString(static_cast<hipError_t>(error.code()));
  const char* const found = std::strstr(error.what(), sentence);
  return found != nullptr ? found + std::strlen(sentence) : "";
}

bool is_default_error_handler() noexcept { return current_handler.load() == write_to_stderr; }

void deliver(const char* call, int code, const char* message) noexcept {
  if (waiting_place == nullptr || !waiting_place->add(call, code, message))
    current_handler.load()(call, code, message);
}

bool held_reports::add(const char* call, int code, const char* message) noexcept {
  try {
    reports_.push_back({call, code, message});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

held_reports::~held_reports() {
  for (const held_report& each : reports_)
    deliver(each.call.c_str(), each.code, each.message.c_str());
}

reports_wait::reports_wait(held_reports& place) noexcept
    : before_{std::exchange(waiting_place, &place)} {}

reports_wait::~reports_wait() { waiting_place = before_; }

}  // namespace detail
}  // namespace hipvmm
