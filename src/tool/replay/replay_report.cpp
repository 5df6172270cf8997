// SPDX-License-Identifier: MIT
#include "tool/replay/replay_report.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include "tool/printable.hpp"
#include "tool/replay/replay_clock.hpp"

namespace hipvmm::tool {
namespace {

std::ostream& label(std::ostream& out, const char* text) {
  return out << std::left << std::setw(12) << text << std::right;
}

std::string number(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

std::string duration(double nanoseconds) {
  if (nanoseconds < 1e4) return number(nanoseconds, 0) + " ns";
  if (nanoseconds < 1e7) return number(nanoseconds / 1e3, 1) + " us";
  if (nanoseconds < 1e10) return number(nanoseconds / 1e6, 1) + " ms";
  return number(nanoseconds / 1e9, 1) + " s";
}

void write_calls(std::ostream& out, const replay_report& report) {
  for (const driver_calls& each : report.result.calls)
    label(out, "driver") << std::left << std::setw(26) << each.function << std::right
                         << std::setw(10) << each.count
                         << (each.count == 1 ? " call   " : " calls  ")
                         << duration(each.seconds * 1e9) << '\n';
  label(out, "") << duration(report.result.driver_seconds() * 1e9) << " in all";
  if (const auto share = driver_share_of(report))
    out << ", " << number(*share * 100, 2) << " % of the recorded time";
  out << '\n';
}

double ratio(std::size_t physical, std::size_t requested) {
  return requested == 0 ? 0 : static_cast<double>(physical) / static_cast<double>(requested);
}

void write_latency(std::ostream& out, const char* call, const call_latency& took) {
  const auto text = [](std::uint64_t ns) { return duration(static_cast<double>(ns)); };
  out << std::left << std::setw(12) << call << std::right << plural(took.calls, "call") << ", "
      << text(took.total_ns) << " in all; half take at most " << text(took.p50_ns)
      << ", 99 % at most " << text(took.p99_ns) << ", the longest " << text(took.longest_ns)
      << '\n';
}

void write_epochs(std::ostream& out, const replay_report& report) {
  const std::vector<replay_epoch>& epochs = report.result.epochs;
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    const replay_epoch& each = epochs[i];
    write_latency(label(out, ("epoch " + std::to_string(i + 1)).c_str()), "allocate",
                  each.allocate);
    write_latency(label(out, ""), "deallocate", each.deallocate);
    label(out, "") << "physical    " << format_bytes(each.peak_physical) << " at most, "
                   << number(ratio_of(each), 3) << " of the requested bytes\n";
    if (report.busy_bytes)
      label(out, "") << "busy        all calls made after " << duration(each.seconds * 1e9)
                     << ", the GPU done after " << duration(each.seconds_until_done * 1e9) << '\n';
  }
}

void write_check(std::ostream& out, const replay_result& result) {
  if (!result.checked) return;
  label(out, "checked") << plural(result.checked->blocks, "block") << ": "
                        << format_bytes(result.checked->bytes_looked_at) << " of their "
                        << format_bytes(result.checked->bytes)
                        << " filled and compared, and that none overlap\n";
}

nlohmann::ordered_json latency_in_json(const call_latency& took) {
  return {{"calls", took.calls},
          {"total_ns", took.total_ns},
          {"p50_ns", took.p50_ns},
          {"p99_ns", took.p99_ns},
          {"longest_ns", took.longest_ns}};
}

nlohmann::ordered_json epochs_in_json(const replay_result& result) {
  auto epochs = nlohmann::ordered_json::array();
  for (const replay_epoch& each : result.epochs)
    epochs.push_back({{"allocate", latency_in_json(each.allocate)},
                      {"deallocate", latency_in_json(each.deallocate)},
                      {"peak_requested", each.peak_requested},
                      {"peak_physical", each.peak_physical},
                      {"ratio", ratio_of(each)},
                      {"seconds", each.seconds},
                      {"seconds_until_done", each.seconds_until_done}});
  return epochs;
}

nlohmann::ordered_json calls_in_json(const replay_result& result) {
  auto calls = nlohmann::ordered_json::object();
  for (const driver_calls& each : result.calls)
    calls[std::string{each.function}] = {{"count", each.count}, {"seconds", each.seconds}};
  return calls;
}

}  // namespace

double ratio_of(const replay_result& result) {
  return ratio(result.peak_physical, result.peak_requested);
}

double ratio_of(const replay_epoch& epoch) {
  return ratio(epoch.peak_physical, epoch.peak_requested);
}

std::optional<double> driver_share_of(const replay_report& report) {
  if (report.recorded.seconds <= 0) return std::nullopt;
  return report.result.driver_seconds() / report.recorded.seconds;
}

std::string text_of(const replay_report& report) {
  const replay_result& result = report.result;
  const trace& recorded = report.recorded;
  std::ostringstream out;
  label(out, "trace") << printable(recorded.name) << ": " << plural(recorded.events.size(), "event")
                      << " in " << plural(recorded.streams, "stream") << ", recorded in "
                      << duration(recorded.seconds * 1e9) << '\n';
  if (recorded.recorded_failures + recorded.empty_requests != 0)
    label(out, "") << "left out: " << plural(recorded.recorded_failures, "recorded failure")
                   << " and " << plural(recorded.empty_requests, "row") << " of 0 bytes\n";
  if (recorded.late_rows != 0)
    label(out, "") << plural(recorded.late_rows, "row") << " with a time before an earlier row, by "
                   << duration(static_cast<double>(recorded.latest_microseconds) * 1e3)
                   << " at most: replayed in the order of the file\n";
  label(out, "resource") << report.resource << " on " << printable(report.device) << ", "
                         << plural(result.streams, "stream") << '\n';
  label(out, "requested") << format_bytes(result.peak_requested) << " at most\n";
  label(out, "physical") << format_bytes(result.peak_physical) << " at most, "
                         << number(ratio_of(result), 3) << " of the requested bytes\n";
  label(out, "pairs") << result.pair_ns.size() << ": half take at most "
                      << duration(static_cast<double>(result.pair_percentile(0.5)))
                      << ", 99 % at most "
                      << duration(static_cast<double>(result.pair_percentile(0.99)))
                      << "; each includes about " << 2 * clock_ns() << " ns of the clock itself\n";
  write_epochs(out, report);
  write_calls(out, report);
  write_check(out, result);
  label(out, "took") << duration(result.seconds * 1e9) << '\n';
  label(out, "failures") << result.failures.count() << '\n';
  std::size_t rest = result.failures.count();
  for (const auto& [text, count] : result.failures.texts()) {
    label(out, "") << printable(text) << (count == 1 ? "" : ", " + plural(count, "time")) << '\n';
    rest -= count;
  }
  if (rest != 0) label(out, "") << "and " << rest << " more\n";
  return out.str();
}

std::string json_of(const replay_report& report) {
  const replay_result& result = report.result;
  auto failure_texts = nlohmann::ordered_json::array();
  for (const auto& each : result.failures.texts()) failure_texts.push_back(each.text);
  nlohmann::ordered_json json = {{"trace", report.recorded.name},
                                 {"resource", report.resource},
                                 {"device", report.device},
                                 {"events", report.recorded.events.size()},
                                 {"streams", result.streams},
                                 {"peak_requested", result.peak_requested},
                                 {"peak_physical", result.peak_physical},
                                 {"ratio", ratio_of(result)},
                                 {"pair_ns_p50", result.pair_percentile(0.5)},
                                 {"pair_ns_p99", result.pair_percentile(0.99)},
                                 {"clock_ns", clock_ns()},
                                 {"driver_calls", result.driver_call_count()},
                                 {"driver_seconds", result.driver_seconds()},
                                 {"driver", calls_in_json(result)},
                                 {"epochs", epochs_in_json(result)},
                                 {"seconds", result.seconds},
                                 {"recorded_seconds", report.recorded.seconds},
                                 {"late_rows", report.recorded.late_rows},
                                 {"failures", result.failures.count()},
                                 {"failure_texts", failure_texts}};
  json["busy_bytes"] = nullptr;
  if (report.busy_bytes) json["busy_bytes"] = *report.busy_bytes;
  json["verified"] = nullptr;
  if (result.checked) {
    json["verified"] = result.failures.count() == 0;
    json["checked"] = {{"blocks", result.checked->blocks},
                       {"bytes", result.checked->bytes},
                       {"bytes_looked_at", result.checked->bytes_looked_at}};
  }
  // A file's name need not be UTF-8.
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::vector<std::string> missed(const replay_report& report, const replay_thresholds& thresholds) {
  std::vector<std::string> result;
  const auto compare = [&result](const char* option, std::optional<double> most,
                                 std::optional<double> found, int digits) {
    if (!most) return;
    if (!found)
      result.push_back(std::string{option} + ": the trace has no duration to compare with");
    else if (*found > *most)
      result.push_back(std::string{option} + ": " + number(*found, digits) + " exceeds " +
                       number(*most, digits));
  };
  compare("--max-ratio", thresholds.ratio, ratio_of(report.result), 4);
  compare("--max-pair-ns-p50", thresholds.pair_ns_p50,
          static_cast<double>(report.result.pair_percentile(0.5)), 0);
  compare("--max-pair-ns-p99", thresholds.pair_ns_p99,
          static_cast<double>(report.result.pair_percentile(0.99)), 0);
  compare("--max-driver-share", thresholds.driver_share, driver_share_of(report), 4);
  return result;
}

std::string plural(std::size_t count, const char* noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

std::uint64_t clock_ns() {
  std::array<std::uint64_t, 1001> looks{};
  for (std::uint64_t& each : looks) each = stopwatch{}.nanoseconds();
  const auto middle = looks.begin() + looks.size() / 2;
  std::nth_element(looks.begin(), middle, looks.end());
  return *middle;
}

}  // namespace hipvmm::tool
