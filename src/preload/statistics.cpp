// SPDX-License-Identifier: MIT
#include "preload/statistics.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/version.hpp>
#include "core/descriptors.hpp"
#include "core/write_signals.hpp"

namespace hipvmm::preload {
namespace {

struct reason {
  const char* key;
  const char* text;
};
constexpr std::array<reason, passed_count> reasons{{
    {"argument", "null or zero bytes"},
    {"too_small", "below the threshold"},
    {"too_large", "above the most"},
    {"captured", "the stream is captured"},
    {"out_of_memory", "the pool had no memory left"},
    {"over_budget", "out of memory, by the budget"},
    {"failed", "the pool failed otherwise"},
    {"in_child", "in a child of fork()"},
    {"own_context", "the program has a context of its own"},
    {"own_pool", "of a pool that the program has set"},
    {"foreign", "frees of memory not from the pool"},
    {"no_allocation", "frees of no allocation, refused"},
}};

std::string row(const char* name, const std::string& value) {
  char line[160];
  std::snprintf(line, sizeof line, "  %-40s %s\n", name, value.c_str());
  return line;
}

std::string& next_in(std::string& json) {
  if (!json.empty() && json.back() != '{' && json.back() != '[') json += ',';
  return json;
}

void add_field(std::string& json, const char* name, std::uint64_t value) {
  next_in(json) += '"';
  json.append(name).append("\":").append(std::to_string(value));
}

}  // namespace

void statistics::count_allocation(std::size_t bytes, bool in_stream_order) noexcept {
  add(allocations_[in_stream_order ? 1 : 0], 1);
  add(allocated_bytes_, bytes);
  const std::uint64_t now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::uint64_t most = most_;
  while (most < now && !most_.compare_exchange_weak(most, now)) {
  }
}

void statistics::count_free(std::size_t bytes, bool in_stream_order) noexcept {
  add(frees_[in_stream_order ? 1 : 0], 1);
  now_.fetch_sub(bytes, std::memory_order_relaxed);
}

std::string statistics::text(const std::vector<pool_line>& pools) const {
  std::string all = std::string{"hipvmm_preload " HIPVMM_VERSION_STRING ": statistics of "} +
                    program_invocation_short_name + " (process " + std::to_string(::getpid()) +
                    ")\n";
  all += row("allocations replaced, for all streams", std::to_string(allocations_[0]));
  all += row("allocations replaced, in stream order", std::to_string(allocations_[1]));
  all += row("frees replaced, waiting", std::to_string(frees_[0]));
  all += row("frees replaced, in stream order", std::to_string(frees_[1]));
  all += row("allocated in all", format_bytes(allocated_bytes_));
  all += row("allocated at one time, most", format_bytes(most_));
  all += row("allocated now", format_bytes(now_));
  for (std::size_t i = 0; i < passed_count; ++i)
    if (passed_[i] != 0)
      all += row((std::string{"passed: "} + reasons[i].text).c_str(), std::to_string(passed_[i]));
  if (refused_handles_ != 0)
    all += row("handles for other processes refused", std::to_string(refused_handles_));
  for (const pool_line& each : pools)
    all += row(("device " + std::to_string(each.device) + ": held now, most").c_str(),
               format_bytes(each.held) + ", " + format_bytes(each.most_held));
  return all;
}

std::string statistics::json(const std::vector<pool_line>& pools) const {
  std::string all = "{";
  add_field(all, "process", static_cast<std::uint64_t>(::getpid()));
  add_field(all, "allocations", allocations_[0]);
  add_field(all, "stream_allocations", allocations_[1]);
  add_field(all, "frees", frees_[0]);
  add_field(all, "stream_frees", frees_[1]);
  add_field(all, "allocated_bytes", allocated_bytes_);
  add_field(all, "most_bytes", most_);
  add_field(all, "bytes_now", now_);
  add_field(all, "refused_handles", refused_handles_);
  all += ",\"passed\":{";
  for (std::size_t i = 0; i < passed_count; ++i) add_field(all, reasons[i].key, passed_[i]);
  all += "},\"pools\":[";
  for (const pool_line& each : pools) {
    next_in(all) += '{';
    add_field(all, "device", static_cast<std::uint64_t>(each.device));
    add_field(all, "held", each.held);
    add_field(all, "most_held", each.most_held);
    add_field(all, "used", each.used);
    add_field(all, "most_used", each.most_used);
    all += '}';
  }
  all += "]}\n";
  return all;
}

void write_to(const std::string& place, const std::string& text) noexcept {
  try {
    if (place.empty()) return;
    std::string path = place;
    int file = place == "-" ? STDOUT_FILENO : STDERR_FILENO;
    if (place != "stderr" && place != "-") {
      for (std::size_t at; (at = path.find("%p")) != std::string::npos;)
        path.replace(at, 2, std::to_string(::getpid()));
      file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    }
    const detail::without_write_signals failing;  // the exit status is the program's
    if (file < 0 || !detail::write_all(file, text))
      std::fprintf(stderr, "hipvmm_preload: the statistics cannot be written to %s: %s\n",
                   path.c_str(), std::strerror(errno));
    if (file > STDERR_FILENO) ::close(file);
  } catch (const std::exception&) {
    std::fputs("hipvmm_preload: no memory for the statistics\n", stderr);
  }
}

}  // namespace hipvmm::preload
