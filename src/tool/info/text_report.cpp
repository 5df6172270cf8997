// SPDX-License-Identifier: MIT
#include "tool/info/text_report.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string_view>

#include <hipvmm/core/bytes.hpp>
#include "strategy/call_prices.hpp"

namespace hipvmm::tool {
namespace {

constexpr std::size_t page_width = 80;
constexpr std::size_t label_width = 14;
constexpr std::size_t trait_width = 24;
constexpr std::size_t finding_width = 9;

#define HIPVMM_TRAIT(name, when_unknown, reports, effect, probe, response) \
  {effect, reports, response},
constexpr std::string_view explanations[][3] = {
#include "capability/traits.def"
};

std::string padded(std::string_view text, std::size_t width) {
  std::string result{text};
  result.resize(std::max(result.size() + 1, width), ' ');
  return result;
}

/// `first` and then the words of `text`, in lines that begin at column `indent`. A word that is
/// wider than the page, such as a path, stays whole so that it can be copied.
void put(std::string& page, std::string first, std::string_view text, std::size_t indent) {
  std::istringstream words{std::string{text}};
  std::string line = std::move(first);
  if (!line.empty() && line.back() != ' ') line += ' ';
  line.resize(std::max(line.size(), indent), ' ');
  std::size_t empty_at = line.size();
  for (std::string word; words >> word;) {
    if (line.size() > empty_at && line.size() + 1 + word.size() > page_width) {
      page += line + '\n';
      line.assign(indent, ' ');
      empty_at = indent;
    }
    if (line.size() > empty_at) line += ' ';
    line += word;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  page += line + '\n';
}

void row(std::string& page, std::string_view label, std::string_view text) {
  put(page, "  " + padded(label, label_width), text, 2 + label_width);
}

std::string limit_text(std::size_t count) {
  return count == static_cast<std::size_t>(-1) ? "any number" : std::to_string(count);
}

std::string version_row(int number, const char* function) {
  return version_text(number) + " (" + function + ": " + std::to_string(number) + ')';
}

void put_process(std::string& page, const process_facts& known) {
  page += "hipvmm " + known.library + ", provider " + known.provider + '\n';
  row(page, "built with", known.built_with);
  row(page, "runtime", version_row(known.runtime_version, "hipRuntimeGetVersion"));
  row(page, "driver", version_row(known.driver_version, "hipDriverGetVersion"));
  row(page, "kernel", known.kernel);
  row(page, "descriptors",
      std::to_string(known.open_descriptors) + " open, " + limit_text(known.soft_descriptors) +
          " allowed, can be raised to " + limit_text(known.hard_descriptors));
  row(page, "mappings",
      known.mappings ? std::to_string(*known.mappings) + " allowed (vm.max_map_count)" : "unknown");
  row(page, "addresses",
      known.addresses ? format_bytes(*known.addresses) + " could be reserved at once"
                      : "none could be reserved");
  for (const auto& [name, value] : known.environment) row(page, "environment", name + '=' + value);
}

std::string microseconds(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(nanoseconds) / 1000);
  return text;
}

std::string costs_text(const call_costs& ns) {
  if (ns.reserve + ns.create + ns.map + ns.set_access + ns.unmap + ns.release + ns.free == 0)
    return "not measured";
  return "reserve " + microseconds(ns.reserve) + ", create " + microseconds(ns.create) + ", map " +
         microseconds(ns.map) + ", set access " + microseconds(ns.set_access) + ", unmap " +
         microseconds(ns.unmap) + ", release " + microseconds(ns.release) + ", free " +
         microseconds(ns.free) + " us";
}

std::string prices_text(const capability& memory) {
  const detail::call_prices prices{memory.costs()};
  return "a new chunk takes " + microseconds(prices.growth.count()) + " us, an unmap " +
         microseconds(prices.unmap.count()) + " us: a pool's request " +
         (prices.unmaps_in_requests() ? "unmaps old addresses that it needs"
                                      : "takes other addresses rather than wait for an unmap") +
         ", and may wait " + microseconds(prices.patience().count()) +
         " us for freed memory instead of new memory; a trim takes " +
         std::to_string(prices.chunks_of_trim()) + " chunks at a time";
}

std::string granularity_text(const capability& memory) {
  if (memory.minimum_granularity() == 0) return "none";
  return format_bytes(memory.minimum_granularity()) + " at least, " +
         format_bytes(memory.recommended_granularity()) + " recommended";
}

std::string path_text(const capability& memory) {
  switch (memory.path()) {
    case memory_path::vmm:
      return "vmm: buffers grow in place, no work-around is needed";
    case memory_path::vmm_with_quirks:
      return "vmm_with_quirks: buffers grow in place, with the work-arounds below";
    case memory_path::fallback:
      return "fallback: buffers grow by copying. Why: " + memory.why_fallback();
  }
  return {};
}

void put_quirks(std::string& page, const capability& memory) {
  if (memory.quirks().empty()) return;
  page += '\n' + ("  " + padded("quirk", trait_width)) + "hipvmm's action\n";
  for (const quirk each : memory.quirks())
    put(page, "  " + padded(name_of(each), trait_width), description_of(each), 2 + trait_width);
}

void put_traits(std::string& page, const capability& memory, detail_level level) {
  page +=
      '\n' + ("  " + padded("trait", trait_width)) + padded("finding", finding_width) + "reason\n";
  for (std::size_t i = 0; i < trait_count; ++i) {
    const auto which = static_cast<trait>(i);
    put(page,
        "  " + padded(name_of(which), trait_width) + padded(name_of(memory[which]), finding_width),
        memory.reason(which), 2 + trait_width + finding_width);
    if (level == detail_level::plain) continue;
    const auto& [effect, reports, response] = explanations[i];
    put(page, "    means", effect, 2 + label_width);
    put(page, "    recorded", reports, 2 + label_width);
    put(page, "    without it", response, 2 + label_width);
  }
}

void put_device(std::string& page, const device_facts& known, detail_level level) {
  const capability& memory = known.memory;
  page += "\ndevice " + std::to_string(known.device.ordinal()) + ": " + known.name + '\n';
  row(page, "uuid",
      known.uuid ? to_string(*known.uuid) : "none: hipDeviceGetUuid reports none for this device");
  row(page, "lanes", std::to_string(known.lanes));
  row(page, "memory",
      format_bytes(known.total_bytes) + ", " + format_bytes(known.free_bytes) + " free");
  row(page, "path", path_text(memory));
  row(page, "granularity", granularity_text(memory));
  row(page, "descriptors",
      memory.descriptors_per_chunk() < 0
          ? "not measured"
          : std::to_string(memory.descriptors_per_chunk()) + " for each chunk");
  if (memory.visibility_delay().count() != 0)
    row(page, "seen after", microseconds(memory.visibility_delay().count()) + " us");
  row(page, "calls", costs_text(memory.costs()));
  if (memory.path() != memory_path::fallback) row(page, "pools", prices_text(memory));
  row(page, "record", memory.origin());
  row(page, "of", memory.fingerprint());
  put_quirks(page, memory);
  put_traits(page, memory, level);
}

std::string type_text(const peer_link& link) {
  std::string text{name_of(link.type)};
  if (link.hops) text += ' ' + std::to_string(*link.hops);
  return text;
}

std::string rank_text(const peer_link& link) {
  return link.performance_rank ? std::to_string(*link.performance_rank) : "unknown";
}

std::string flag_text(const std::optional<bool>& flag) {
  if (!flag) return "unknown";
  return *flag ? "yes" : "no";
}

/// A row for each of `devices`, a column for each device; one line if HIP reports no link.
template <class Text>
void put_matrix(std::string& page, std::string_view title, const std::vector<device_facts>& devices,
                Text text) {
  std::vector<std::vector<std::string>> cells;
  bool is_reported = false;
  std::size_t width = 4;
  for (const device_facts& each : devices) {
    std::vector<std::string>& row = cells.emplace_back(each.links.size() + 1, "-");
    for (const peer_link& link : each.links) {
      std::string& cell = row[static_cast<std::size_t>(link.peer.ordinal())];
      cell = text(link);
      is_reported = is_reported || cell != "unknown";
      width = std::max(width, cell.size() + 1);
    }
  }
  page += '\n' + std::string{title};
  if (!is_reported) {
    page += ": HIP does not report it\n";
    return;
  }
  page += "\n  " + padded({}, 4);
  const auto put_row = [&](std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    page += line + '\n';
  };
  std::string head;
  for (std::size_t peer = 0; peer < cells.front().size(); ++peer)
    head += padded(std::to_string(peer), width);
  put_row(head);
  for (std::size_t at = 0; at < devices.size(); ++at) {
    std::string line = "  " + padded(std::to_string(devices[at].device.ordinal()), 4);
    for (const std::string& cell : cells[at]) line += padded(cell, width);
    put_row(line);
  }
}

void put_peers(std::string& page, const std::vector<device_facts>& devices) {
  if (devices.empty() || devices.front().links.empty()) return;
  put_matrix(page, "peers: may the device of the row reach memory of the device of the column?",
             devices, [](const peer_link& link) { return flag_text(link.can_access); });
  put_matrix(page, "links: type and number of hops", devices, type_text);
  put_matrix(page, "links: rank, 0 the fastest", devices, rank_text);
  put_matrix(page, "links: native atomics", devices,
             [](const peer_link& link) { return flag_text(link.native_atomics); });
  put_matrix(page, "links: access to arrays", devices,
             [](const peer_link& link) { return flag_text(link.array_access); });
}

}  // namespace

std::string text_report(const facts& known, detail_level level) {
  std::string page;
  put_process(page, known.process);
  for (const device_facts& each : known.devices) put_device(page, each, level);
  for (const failed_device& each : known.failed)
    put(page, "\ndevice " + std::to_string(each.device.ordinal()) + ": failed:", each.why, 2);
  put_peers(page, known.devices);
  return page;
}

}  // namespace hipvmm::tool
