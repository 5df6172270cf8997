// SPDX-License-Identifier: MIT
#include "trace_measure.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

namespace bench {
namespace {

namespace tool = hipvmm::tool;

bool frees_in_other_streams(const tool::trace& recorded) {
  std::vector<std::uint32_t> streams(recorded.blocks.size());
  for (const tool::trace_event& each : recorded.events) {
    if (each.what == tool::trace_event::action::allocate)
      streams[each.block] = each.stream;
    else if (streams[each.block] != each.stream)
      return true;
  }
  return false;
}

std::string unavailable(const trace_contender& who, const tool::trace& recorded) {
  if (who.unavailable.empty() && who.same_stream_only && frees_in_other_streams(recorded))
    return "the trace frees blocks in other streams than it allocated them in";
  return who.unavailable;
}

std::string name_of(const tool::trace& recorded, const trace_settings& chosen) {
  std::string name = std::filesystem::path{recorded.name}.filename().string();
  name = name.substr(0, name.find('.'));
  return chosen.busy_bytes ? name + ", busy" : name;
}

/// The figures of one repetition for an epoch, beside the seconds of all calls.
std::map<std::string, double> figures_of(const tool::replay_epoch& epoch, bool busy) {
  const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e6; };
  const auto value = [](auto number) { return static_cast<double>(number); };
  std::map<std::string, double> result{
      {figure::allocations, value(epoch.allocate.calls)},
      {figure::allocate_ms, ms(epoch.allocate.total_ns)},
      {figure::deallocate_ms, ms(epoch.deallocate.total_ns)},
      {figure::allocate_p50, value(epoch.allocate.p50_ns)},
      {figure::allocate_p99, value(epoch.allocate.p99_ns)},
      {figure::allocate_longest, value(epoch.allocate.longest_ns)},
      {figure::deallocate_p50, value(epoch.deallocate.p50_ns)},
      {figure::deallocate_p99, value(epoch.deallocate.p99_ns)},
      {figure::deallocate_longest, value(epoch.deallocate.longest_ns)},
      {figure::peak_requested, value(epoch.peak_requested)},
      {figure::peak_physical, value(epoch.peak_physical)},
      {figure::peak_ratio,
       epoch.peak_requested == 0 ? 0 : value(epoch.peak_physical) / value(epoch.peak_requested)},
      {figure::submitted_ms, epoch.seconds * 1e3}};
  if (busy) result[figure::done_ms] = epoch.seconds_until_done * 1e3;
  return result;
}

/// The row of one epoch: `all` is of all epochs, `samples` the figures of its repetitions.
measurement row_of_epoch(const measurement& all, const std::vector<trace_epochs>& samples,
                         std::size_t epoch, const trace_settings& chosen) {
  measurement row = all;
  row.seconds.clear();
  row.step_seconds.clear();
  row.steps = 1;
  std::map<std::string, std::vector<double>> found;
  for (std::size_t i = 0; i < all.step_seconds.size(); ++i) {
    row.seconds.push_back(all.step_seconds[i][epoch]);
    for (const auto& [name, value] : figures_of(samples[i][epoch], chosen.busy_bytes.has_value()))
      found[name].push_back(value);
  }
  for (const auto& [name, values] : found) row.figures[name] = summarize(values).median;
  row.figures[figure::epoch] = static_cast<double>(epoch + 1);
  if (chosen.busy_bytes) row.figures[figure::busy_bytes] = static_cast<double>(*chosen.busy_bytes);
  return row;
}

}  // namespace

std::vector<measurement> measure_trace(const tool::trace& recorded,
                                       const std::vector<trace_contender>& contenders,
                                       const trace_settings& chosen) {
  tool::replay_options options;
  options.device = chosen.common.device;
  options.epochs = chosen.epochs;
  options.busy_bytes = chosen.busy_bytes;
  std::vector<std::vector<trace_epochs>> samples(contenders.size());
  std::vector<method> methods;
  for (std::size_t i = 0; i < contenders.size(); ++i)
    methods.push_back(
        {contenders[i].name, chosen.common.runs, chosen.common.repeats,
         [&, i](memory_probe* probe) {
           trace_epochs epochs = contenders[i].replay(recorded, options);
           std::vector<double> seconds;
           for (const tool::replay_epoch& each : epochs)
             seconds.push_back(
                 static_cast<double>(each.allocate.total_ns + each.deallocate.total_ns) / 1e9);
           // With a probe it is the run before the first that counts.
           if (probe == nullptr) samples[i].push_back(std::move(epochs));
           return seconds;
         },
         unavailable(contenders[i], recorded)});
  measurement trace_row;
  trace_row.scenario = name_of(recorded, chosen);
  trace_row.bytes = recorded.peak_requested;
  trace_row.figures[figure::streams] = static_cast<double>(recorded.streams);
  const std::vector<measurement> all = measure(trace_row, methods, chosen.common);
  std::vector<measurement> rows;
  for (std::size_t epoch = 0; epoch < chosen.epochs; ++epoch) {
    const std::size_t first = rows.size();
    for (std::size_t i = 0; i < all.size(); ++i) {
      rows.push_back(row_of_epoch(all[i], samples[i], epoch, chosen));
      measurement& row = rows.back();
      const measurement& baseline = rows[first];
      row.ratio.reset();
      row.pairs.clear();
      if (row.seconds.empty() || baseline.seconds.empty()) continue;
      row.ratio = summarize(row.seconds).median / summarize(baseline.seconds).median;
      row.pairs = paired_ratios(row, baseline);
    }
  }
  return rows;
}

}  // namespace bench
