// SPDX-License-Identifier: MIT
#include <hipvmm/core/logger.hpp>

#include <hip/hip_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>

#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/logger.hpp"
#include "core/write_signals.hpp"

// Renamed, because a program may have another version of spdlog under the same names.
#define spdlog hipvmm_spdlog
#define SPDLOG_PREVENT_CHILD_FD
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace hipvmm {
namespace detail {

std::atomic<log_level> least_logged{log_level::trace};

}  // namespace detail

namespace {

std::atomic<bool> has_file{false};

// A child of fork() writes no lines if a thread of its parent was writing: the sinks stay locked.
constinit std::atomic<unsigned> writing{0};
constinit std::atomic<bool> is_cut_off{false};
[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, [] {
  if (writing != 0) is_cut_off = true;
});

class sinks_use {
 public:
  sinks_use() noexcept { ++writing; }
  ~sinks_use() { --writing; }
  sinks_use& operator=(sinks_use&&) = delete;
  [[nodiscard]] explicit operator bool() const noexcept { return !is_cut_off; }
};

// hipMM's, so that programs that read its logs read these.
constexpr const char* pattern = "[%6t][%H:%M:%S:%f][%-6l] %v";

spdlog::level::level_enum level_of(log_level level) {
  return static_cast<spdlog::level::level_enum>(level);
}
static_assert(static_cast<int>(log_level::trace) == spdlog::level::trace &&
              static_cast<int>(log_level::critical) == spdlog::level::critical);

void report_once(std::atomic<bool>& told, const std::string& sentence) {
  if (!told.exchange(true))
    detail::deliver("the debug log", static_cast<int>(hipErrorUnknown), sentence.c_str());
}

}  // namespace

struct logger::state {
  std::string why_no_file;  // empty unless a requested file cannot be written
  std::atomic<bool> no_file_reported = false;
  std::atomic<bool> failure_reported = false;
  spdlog::logger lines{"hipvmm", {}};

  state() {
    for (const char* const variable : {"HIPVMM_DEBUG_LOG_FILE", "RMM_DEBUG_LOG_FILE"}) {
      const char* const name = detail::environment(variable);
      if (name == nullptr || *name == '\0') continue;
      open(variable, name);
      break;
    }
    if (!has_file) lines.sinks().push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    lines.set_pattern(pattern);
    lines.set_level(spdlog::level::trace);
    lines.flush_on(spdlog::level::trace);
    lines.set_error_handler([this](const std::string& what) {
      report_once(failure_reported, "lines are missing from it: " + what);
    });
  }

 private:
  // Appends, because programs that the process starts (hipvmm-probe) write to the same file.
  void open(const std::string& variable, const std::string& name) {
    try {
      lines.sinks().push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(name));
      has_file = true;
    } catch (const spdlog::spdlog_ex& error) {
      why_no_file = "the file that " + variable +
                    " names cannot be written, and standard error is used instead: " + error.what();
    }
  }
};

logger::logger() : state_{std::make_unique<state>()} {
#ifdef HIPVMM_RMM
  // As RMM's, which writes to standard error until a file is named.
  const bool is_requested = true;
#else
  const bool is_requested = has_file || !state_->why_no_file.empty();
#endif
  detail::least_logged = is_requested ? log_level::info : log_level::off;
}

logger::~logger() = default;

void logger::set_level(log_level least) noexcept { detail::least_logged = least; }

log_level logger::level() const noexcept { return detail::least_logged; }

void logger::log(log_level line, std::string_view text) {
  if (!should_log(line)) return;
  const detail::without_write_signals failing;
  if (const sinks_use mine; mine) state_->lines.log(level_of(line), {text.data(), text.size()});
}

void logger::flush() {
  if (const sinks_use mine; mine) state_->lines.flush();
}

logger& default_logger() {
  // Never destroyed: threads of the library and static objects log until the end.
  static logger& only = *new logger;
  if (!only.state_->why_no_file.empty())
    report_once(only.state_->no_file_reported, only.state_->why_no_file);
  return only;
}

namespace detail {

bool logs_to_stderr() noexcept { return !has_file; }

void log_line(log_level level, std::string (*make)(void*), void* argument) noexcept {
  try {
    logger& lines = default_logger();
    if (lines.should_log(level)) lines.log(level, make(argument));
  } catch (const std::exception&) {
    // The host has no memory for a line, and none to say so.
  }
}

}  // namespace detail
}  // namespace hipvmm
