// SPDX-License-Identifier: MIT
#include "report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>

#include <hipvmm/core/bytes.hpp>

extern char** environ;

namespace bench {
namespace {

constexpr double microseconds = 1e6;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[sizeof "2026-01-01"];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string cpu_model() {
  std::ifstream cpus{"/proc/cpuinfo"};
  for (std::string line; std::getline(cpus, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t value = line.find(": ");
    if (value != std::string::npos) return line.substr(value + 2);
  }
  return "unknown CPU";
}

std::string describe_machine() {
  const auto memory = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return cpu_model() + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores, " +
         hipvmm::format_bytes(memory) + " memory";
}

/// The command with the settings of the provider that stood before it.
std::string describe_command(int argc, char** argv) {
  std::string text;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::string_view{*variable}.starts_with("HIPVMM_")) text.append(*variable).append(" ");
  text += argv[0];
  for (int i = 1; i < argc; ++i) text.append(" ").append(argv[i]);
  return text;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string{"\"\""} : std::string{c};
  return result + '"';
}

std::string number(double value, int decimals) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

template <typename Value, typename Write>
std::string if_known(const std::optional<Value>& value, Write write) {
  return value ? write(*value) : std::string{};
}

}  // namespace

summary summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t half = samples.size() / 2;
  const double median =
      samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
  return {median, samples.front(), samples.back()};
}

origin describe_origin(const std::string& provider, int argc, char** argv) {
  return {today(), describe_machine(), provider, describe_command(argc, argv)};
}

void print_table(const std::vector<measurement>& rows) {
  std::printf("%-12s %-10s %7s %10s %12s %12s %12s %11s %9s %7s %7s\n", "scenario", "method",
              "steps", "bytes", "median us", "min us", "max us", "us a step", "x baseline", "calls",
              "copies");
  for (const measurement& row : rows) {
    const summary time = summarize(row.seconds);
    std::printf("%-12s %-10s %7zu %10s %12.1f %12.1f %12.1f %11.3f %9s %7s %7s\n",
                row.scenario.c_str(), row.method.c_str(), row.steps,
                hipvmm::format_bytes(row.bytes).c_str(), time.median * microseconds,
                time.min * microseconds, time.max * microseconds,
                time.median * microseconds / static_cast<double>(row.steps),
                if_known(row.ratio, [](double ratio) { return number(ratio, 3); }).c_str(),
                if_known(row.calls, [](call_count c) { return std::to_string(c.all); }).c_str(),
                if_known(row.calls, [](call_count c) { return std::to_string(c.copies); }).c_str());
  }
}

void write_csv(const std::string& path, const origin& origin,
               const std::vector<measurement>& rows) {
  std::ofstream csv{path};
  csv << "date,machine,provider,command,scenario,method,steps,bytes,samples,median_us,min_us,"
         "max_us,median_us_per_step,ratio_to_baseline,hip_calls,hip_copies\n";
  for (const measurement& row : rows) {
    const summary time = summarize(row.seconds);
    csv << origin.date << ',' << quoted(origin.machine) << ',' << quoted(origin.provider) << ','
        << quoted(origin.command) << ',' << quoted(row.scenario) << ',' << quoted(row.method) << ','
        << row.steps << ',' << row.bytes << ',' << row.seconds.size() << ','
        << number(time.median * microseconds, 3) << ',' << number(time.min * microseconds, 3) << ','
        << number(time.max * microseconds, 3) << ','
        << number(time.median * microseconds / static_cast<double>(row.steps), 4) << ','
        << if_known(row.ratio, [](double ratio) { return number(ratio, 4); }) << ','
        << if_known(row.calls, [](call_count c) { return std::to_string(c.all); }) << ','
        << if_known(row.calls, [](call_count c) { return std::to_string(c.copies); }) << '\n';
  }
  if (!csv.flush())
    throw std::system_error{errno, std::generic_category(), "cannot write '" + path + "'"};
}

}  // namespace bench
