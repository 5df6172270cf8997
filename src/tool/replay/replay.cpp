// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/version.hpp>
#include "tool/program.hpp"
#include "tool/replay/progress_line.hpp"
#include "tool/replay/replay_checker.hpp"
#include "tool/replay/replay_job.hpp"
#include "tool/replay/replay_report.hpp"
#include "tool/replay/replay_subject.hpp"
#include "tool/replay/replay_timeline.hpp"
#include "tool/replay/replay_trace.hpp"

namespace {

using namespace hipvmm;
using namespace hipvmm::tool;

constexpr std::size_t most_epochs = 1000;
constexpr auto all_bytes = std::numeric_limits<std::size_t>::max();

struct options {
  std::string trace = "-";
  std::string resource;
  std::string streams = "real";
  bool check = false;
  std::size_t check_bytes = block_checker::default_budget;
  std::size_t epochs = 1;
  bool busy = false;
  std::size_t busy_bytes = std::size_t{1} << 20;
  std::size_t limit_bytes = 0;
  std::vector<std::string> pool;
  int device = 0;
  replay_thresholds thresholds;
  std::string json;
  std::string timeline;
};

std::string size_or_all(const std::string& text) {
  return text == "all" ? std::to_string(all_bytes) : size_in_bytes(text);
}

std::string complaint_about_threshold(const std::string& text) {
  const auto value = number_in<double>(text);
  return value && std::isfinite(*value) && *value >= 0 ? ""
                                                       : "'" + text + "' is no number from 0 on";
}

void declare_threshold(CLI::App& app, const char* name, std::optional<double>& most,
                       const char* meaning) {
  app.add_option(name, most, meaning)
      ->check(complaint_about_threshold)
      ->group("Thresholds, missed ones end in a failure")
      ->type_name("N");
}

void declare(CLI::App& app, options& chosen) {
  std::string names;
  std::string meanings;
  for (const subject_kind& kind : subject_kinds()) {
    names += (names.empty() ? "" : "|") + std::string{kind.name};
    meanings +=
        (meanings.empty() ? "" : "; ") + std::string{kind.name} + ": " + std::string{kind.meaning};
  }
  chosen.resource = subject_kinds().front().name;
  app.add_option("TRACE", chosen.trace,
                 "A CSV file, gzip'ed or not, '-' for standard input (the default)");
  app.add_option("--resource", chosen.resource, meanings)->type_name(names)->capture_default_str();
  app.add_option("--streams", chosen.streams,
                 "real: a stream for each of the trace; one: one for all")
      ->check(one_of({"real", "one"}))
      ->type_name("real|one")
      ->capture_default_str();
  app.add_flag("--check", chosen.check,
               "Fill each block, compare before its free, and see that none overlap");
  app.add_option("--check-bytes", chosen.check_bytes,
                 "Bytes to fill and compare of each block; 'all': every byte")
      ->transform(size_or_all, "")
      ->type_name("SIZE|all")
      ->default_str("64KiB");
  app.add_option("--epochs", chosen.epochs, "Replay the trace N times; all is freed in between")
      ->check(CLI::Range(std::size_t{1}, most_epochs).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--busy", chosen.busy,
               "Fill each block in its stream right after its allocation, without a wait");
  app.add_option("--busy-bytes", chosen.busy_bytes,
                 "Most bytes to fill of each block; 'all': every byte")
      ->transform(size_or_all, "")
      ->type_name("SIZE|all")
      ->default_str("1MiB");
  app.add_option("--limit", chosen.limit_bytes, "Most bytes that the resource may hold")
      ->transform(size_in_bytes, "")
      ->type_name("SIZE");
  app.add_option("--pool", chosen.pool,
                 "An option of the resource, as in HIPVMM_CONF without 'pool.': "
                 "largest_chunk=8MiB; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  add_device_option(app, chosen.device, "Device to replay on")->capture_default_str();
  add_result_option(app, "--json", chosen.json,
                    "Write the result as JSON, '-' for standard output only");
  add_result_option(app, "--timeline", chosen.timeline,
                    "Draw requested, mapped and held memory over the trace as SVG by gnuplot, '-' "
                    "for standard output");
  replay_thresholds& most = chosen.thresholds;
  declare_threshold(app, "--max-ratio", most.ratio, "Peak physical by peak requested");
  declare_threshold(app, "--max-pair-ns-p50", most.pair_ns_p50, "Latency of half of the pairs");
  declare_threshold(app, "--max-pair-ns-p99", most.pair_ns_p99, "Latency of 99 % of the pairs");
  declare_threshold(app, "--max-driver-share", most.driver_share,
                    "Time in the driver by recorded time, as in 0.02");
  app.set_version_flag("--version", "hipvmm-replay " HIPVMM_VERSION_STRING);
}

void complete(const options& chosen, const CLI::App& app) {
  if (app.count("--check-bytes") != 0 && !chosen.check)
    throw CLI::ValidationError{"--check-bytes", "there is nothing to check without --check"};
  if (chosen.check_bytes < block_checker::least_budget)
    throw CLI::ValidationError{"--check-bytes", "less than 64 bytes of a block say too little"};
  if (app.count("--busy-bytes") != 0 && !chosen.busy)
    throw CLI::ValidationError{"--busy-bytes", "nothing is filled without --busy"};
  if (chosen.busy && chosen.check)
    throw CLI::ValidationError{
        "--busy", "--check has work in flight on each block already; leave one of the two out"};
  if (chosen.epochs > 1 && !chosen.timeline.empty())
    throw CLI::ValidationError{"--timeline",
                               "the picture is of one epoch; leave out --epochs or --timeline"};
  if (chosen.trace == "-" && ::isatty(STDIN_FILENO) == 1)
    throw CLI::ValidationError{"TRACE", "nothing to read; name a file or pipe a trace in"};
  std::vector<named_file> written;
  if (!chosen.json.empty()) written.push_back({"--json", chosen.json});
  if (!chosen.timeline.empty()) written.push_back({"--timeline", chosen.timeline});
  require_different({{"TRACE", chosen.trace}}, written);
}

std::unique_ptr<replay_subject> make_chosen(const std::string& resource,
                                            const subject_options& made) {
  try {
    return make_subject(resource, made);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError{error.what()};
  }
}

replay_result replay_with_progress(const trace& recorded, replay_subject& subject,
                                   replay_options how) {
  progress_line line;
  how.on_progress = [&](std::size_t events) {
    if (!line.is_due()) return;
    const std::size_t all = recorded.events.size() * how.epochs;
    line.show(std::to_string(events) + " of " + std::to_string(all) + " events  " +
              progress_bar(static_cast<double>(events) / static_cast<double>(all)));
  };
  return replay(recorded, subject, how);
}

int replay_and_report(const options& chosen) {
  const device_ref device = device_of(chosen.device);
  subject_options made{device, std::nullopt};
  if (chosen.limit_bytes != 0) made.limit_bytes = chosen.limit_bytes;
  for (const std::string& each : chosen.pool)
    made.settings += (made.settings.empty() ? "" : ",") + each;
  const std::unique_ptr<replay_subject> subject = make_chosen(chosen.resource, made);
  // Before the work: an unwritable place must not cost the result of a long run.
  const std::unique_ptr<output_file> json = file_for_result(chosen.json);
  const std::unique_ptr<output_file> timeline = file_for_result(chosen.timeline);
  if (!chosen.timeline.empty()) require_gnuplot();
  const trace recorded = read_trace(chosen.trace);

  replay_options how;
  how.device = device;
  how.streams = chosen.streams == "one" ? replay_streams::one : replay_streams::real;
  if (chosen.check) how.check_bytes = chosen.check_bytes;
  how.epochs = chosen.epochs;
  if (chosen.busy) how.busy_bytes = chosen.busy_bytes;
  if (!chosen.timeline.empty()) how.sample_windows = timeline_windows;
  const replay_result result = replay_with_progress(recorded, *subject, how);

  const replay_report report{recorded, chosen.resource,
                             "device " + std::to_string(chosen.device) + " (" + device.name() + ")",
                             result, how.busy_bytes};
  const bool has_text = chosen.json != "-" && chosen.timeline != "-";
  if (has_text) write_to_standard_output(text_of(report));
  if (!chosen.json.empty()) write_result(json, json_of(report));
  if (!chosen.timeline.empty())
    write_result(timeline, draw_timeline(recorded.name + " on " + chosen.resource, result.samples));

  std::string wrong;
  if (result.failures.count() != 0)
    wrong = plural(result.failures.count(), "failure") +
            (has_text ? ", listed above" : ", the first: " + result.failures.texts().front().text);
  for (const std::string& each : missed(report, chosen.thresholds))
    wrong += (wrong.empty() ? "" : "; ") + each;
  if (!wrong.empty()) throw std::runtime_error{wrong};
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Replays a recorded trace of allocations on a memory resource of HIP or hipvmm.",
               "hipvmm-replay"};
  options chosen;
  declare(app, chosen);
  return run_program(app, argc, argv, [&] {
    complete(chosen, app);
    return replay_and_report(chosen);
  });
}
