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

std::string number(double value, int decimals) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string in_us(double seconds, int decimals) { return number(seconds * microseconds, decimals); }

/// Between two samples in proportion to its place between them.
double quantile_of_sorted(const std::vector<double>& samples, double share) {
  const double place = share * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (samples[above] - samples[below]) * (place - static_cast<double>(below));
}

template <typename Value, typename Write>
std::string if_known(const std::optional<Value>& value, Write write) {
  return value ? write(*value) : std::string{};
}

}  // namespace

void require_written(std::ofstream& file, const std::string& path) {
  if (!file.flush())
    throw std::system_error{errno, std::generic_category(), "cannot write '" + path + "'"};
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string{"\"\""} : std::string{c};
  return result + '"';
}

summary summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {quantile_of_sorted(samples, 0.5), samples.front(), samples.back(),
          quantile_of_sorted(samples, 0.25), quantile_of_sorted(samples, 0.75)};
}

double quantile(std::vector<double> samples, double share) {
  std::sort(samples.begin(), samples.end());
  return quantile_of_sorted(samples, share);
}

std::vector<double> paired_ratios(const measurement& slow, const measurement& fast) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < slow.turns.size(); ++i) {
    const auto same = std::find(fast.turns.begin(), fast.turns.end(), slow.turns[i]);
    if (same != fast.turns.end())
      ratios.push_back(slow.seconds[i] /
                       fast.seconds[static_cast<std::size_t>(same - fast.turns.begin())]);
  }
  return ratios;
}

const measurement* row_of(const std::vector<measurement>& rows, const std::string& scenario,
                          const std::string& method) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const measurement& row) {
    return row.scenario == scenario && row.method == method && !row.seconds.empty();
  });
  return found == rows.end() ? nullptr : &*found;
}

std::optional<step_summary> summarize_steps(const measurement& row) {
  std::vector<double> medians;
  std::vector<double> worst;
  for (const std::vector<double>& steps : row.step_seconds) {
    if (steps.size() != row.steps) return std::nullopt;
    const summary of_sample = summarize(steps);
    medians.push_back(of_sample.median);
    worst.push_back(of_sample.max);
  }
  if (medians.empty()) return std::nullopt;
  return step_summary{summarize(medians), summarize(worst)};
}

origin describe_origin(const std::string& provider, int argc, char** argv) {
  return {today(), describe_machine(), provider, describe_command(argc, argv)};
}

origin print_origin(hipvmm::device_ref device, const std::string& machine, int argc, char** argv) {
  origin found = describe_origin(std::string{HIPVMM_PROVIDER_NAME} + ", device " +
                                     std::to_string(device.ordinal()) + " (" + device.name() +
                                     ") with " + hipvmm::format_bytes(device.total_memory()),
                                 argc, argv);
  if (!machine.empty()) found.machine += ", " + machine;
  std::printf("%s | %s | %s\n%s\n\n", found.date.c_str(), found.machine.c_str(),
              found.provider.c_str(), found.command.c_str());
  return found;
}

void print_table(const std::vector<measurement>& rows) {
  std::printf("%-34s %-24s %7s %10s %7s %12s %12s %12s %11s %10s %8s %12s %12s %10s %7s %7s\n",
              "scenario", "method", "steps", "bytes", "samples", "median us", "min us", "max us",
              "us a step", "x baseline", "x paired", "median step", "worst step", "peak", "calls",
              "copies");
  for (const measurement& row : rows) {
    const std::string at_start = row.note.empty() ? "" : " (" + row.note + ")";
    if (row.seconds.empty()) {
      std::printf("%-34s %-24s%s\n", row.scenario.c_str(), row.method.c_str(), at_start.c_str());
      continue;
    }
    const summary time = summarize(row.seconds);
    const auto steps = summarize_steps(row);
    const auto count = [](std::uint64_t value) { return std::to_string(value); };
    std::printf(
        "%-34s %-24s %7zu %10s %7zu %12.1f %12.1f %12.1f %11.3f %10s %8s %12s %12s %10s %7s "
        "%7s%s\n",
        row.scenario.c_str(), row.method.c_str(), row.steps,
        hipvmm::format_bytes(row.bytes).c_str(), row.seconds.size(), time.median * microseconds,
        time.min * microseconds, time.max * microseconds,
        time.median * microseconds / static_cast<double>(row.steps),
        if_known(row.ratio, [](double ratio) { return number(ratio, 3); }).c_str(),
        row.pairs.empty() ? "" : number(summarize(row.pairs).median, 3).c_str(),
        if_known(steps, [](const step_summary& s) { return in_us(s.median.median, 2); }).c_str(),
        if_known(steps, [](const step_summary& s) { return in_us(s.worst.median, 1); }).c_str(),
        if_known(row.peak_bytes, hipvmm::format_bytes).c_str(),
        if_known(row.calls, [&](call_count c) { return count(c.all); }).c_str(),
        if_known(row.calls, [&](call_count c) { return count(c.copies); }).c_str(),
        at_start.c_str());
  }
}

void write_csv(const std::string& path, const origin& origin,
               const std::vector<measurement>& rows) {
  std::ofstream csv{path};
  csv << "date,machine,provider,command,scenario,method,steps,bytes,samples,median_us,min_us,"
         "max_us,median_us_per_step,ratio_to_baseline,hip_calls,hip_copies,median_step_us,"
         "worst_step_us,worst_step_max_us,peak_bytes,share_of_free,gb_per_s,note,pairs,paired_"
         "ratio,"
         "paired_ratio_lower_quartile,paired_ratio_upper_quartile,best_gb_per_s\n";
  const auto decimal = [](int decimals) {
    return [decimals](double value) { return number(value, decimals); };
  };
  for (const measurement& row : rows) {
    csv << origin.date << ',' << quoted(origin.machine) << ',' << quoted(origin.provider) << ','
        << quoted(origin.command) << ',' << quoted(row.scenario) << ',' << quoted(row.method) << ','
        << row.steps << ',' << row.bytes << ',' << row.seconds.size() << ',';
    if (row.seconds.empty()) {
      csv << ",,,,";
    } else {
      const summary time = summarize(row.seconds);
      csv << in_us(time.median, 3) << ',' << in_us(time.min, 3) << ',' << in_us(time.max, 3) << ','
          << in_us(time.median / static_cast<double>(row.steps), 4) << ',';
    }
    const auto steps = summarize_steps(row);
    csv << if_known(row.ratio, decimal(4)) << ','
        << if_known(row.calls, [](call_count c) { return std::to_string(c.all); }) << ','
        << if_known(row.calls, [](call_count c) { return std::to_string(c.copies); }) << ','
        << if_known(steps, [](const step_summary& s) { return in_us(s.median.median, 3); }) << ','
        << if_known(steps, [](const step_summary& s) { return in_us(s.worst.median, 3); }) << ','
        << if_known(steps, [](const step_summary& s) { return in_us(s.worst.max, 3); }) << ','
        << if_known(row.peak_bytes, [](std::size_t bytes) { return std::to_string(bytes); }) << ','
        << if_known(row.share, decimal(5)) << ',' << if_known(row.gigabytes_per_second, decimal(1))
        << ',' << quoted(row.note) << ',' << row.pairs.size() << ',';
    if (row.pairs.empty()) {
      csv << ",,,";
    } else {
      const summary paired = summarize(row.pairs);
      csv << number(paired.median, 4) << ',' << number(paired.lower_quartile, 4) << ','
          << number(paired.upper_quartile, 4) << ',';
    }
    csv << if_known(row.best_gigabytes_per_second, decimal(1)) << '\n';
  }
  require_written(csv, path);
}

void write_steps_csv(const std::string& path, const std::vector<measurement>& rows) {
  std::ofstream csv{path};
  csv << "scenario,method,step,bytes,median_us,min_us,max_us,total_us,held_bytes\n";
  for (const measurement& row : rows) {
    if (row.step_bytes.empty() || !summarize_steps(row)) continue;
    std::vector<double> totals(row.step_seconds.size());
    for (std::size_t step = 0; step < row.steps; ++step) {
      std::vector<double> samples;
      for (std::size_t i = 0; i < totals.size(); ++i) {
        samples.push_back(row.step_seconds[i][step]);
        totals[i] += samples.back();
      }
      const summary time = summarize(samples);
      csv << quoted(row.scenario) << ',' << quoted(row.method) << ',' << step + 1 << ','
          << row.step_bytes[step] << ',' << in_us(time.median, 3) << ',' << in_us(time.min, 3)
          << ',' << in_us(time.max, 3) << ',' << in_us(summarize(totals).median, 3) << ','
          << (step < row.step_held.size() ? std::to_string(row.step_held[step]) : "") << '\n';
    }
  }
  require_written(csv, path);
}

}  // namespace bench
