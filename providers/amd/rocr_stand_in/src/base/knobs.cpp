// SPDX-License-Identifier: MIT
#include "src/base/knobs.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <mutex>

#include "src/base/fault_plan.hpp"
#include "src/base/text.hpp"

extern char** environ;

namespace stand_in {
namespace {

constexpr std::uint64_t most_gpus = 64;
constexpr std::uint64_t most_engines = 16;  // hsa_amd_sdma_engine_id_t

bool parse_number(const std::string& value, std::uint64_t& into) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), into);
  return !value.empty() && error == std::errc{} && end == value.data() + value.size();
}

bool parse_bytes(const std::string& value, std::uint64_t& into) {
  static constexpr std::pair<const char*, int> units[] = {
      {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
  for (const auto& [unit, shift] : units) {
    const std::size_t length = std::strlen(unit);
    if (value.size() <= length || value.compare(value.size() - length, length, unit) != 0) continue;
    std::uint64_t count = 0;
    if (!parse_number(value.substr(0, value.size() - length), count)) return false;
    if (count > (~std::uint64_t{0} >> shift)) return false;
    into = count << shift;
    return true;
  }
  return parse_number(value, into);
}

bool parse_word(const std::string& value, const char* on, const char* off, bool& into) {
  if (value != on && value != off) return false;
  into = value == on;
  return true;
}

bool parse_reports(const std::string& value, after_report& into) {
  if (value == "stop")
    into = after_report::stop;
  else if (value == "count")
    into = after_report::go_on;
  else if (value == "handlers")
    into = after_report::ask_handlers;
  else
    return false;
  return true;
}

bool parse_peers(const std::string& value, knob_values& into) {
  into.peers.clear();
  into.all_peers = value == "all";
  if (value == "all" || value == "none") return true;
  std::size_t at = 0;
  while (at <= value.size()) {
    const std::size_t comma = std::min(value.find(',', at), value.size());
    const std::string link = value.substr(at, comma - at);
    const std::size_t dash = link.find('-');
    std::uint64_t one = 0;
    std::uint64_t other = 0;
    if (dash == std::string::npos || !parse_number(link.substr(0, dash), one) ||
        !parse_number(link.substr(dash + 1), other) || one == other) {
      return false;
    }
    into.peers.emplace_back(one, other);
    at = comma + 1;
  }
  return true;
}

struct state {
  knob_values values;
  std::string problem;
  std::once_flag once;
};

state& the_state() {
  static auto* made = new state;
  return *made;
}

std::string read_environment(knob_values& values) {
  static constexpr char prefix[] = "HIPVMM_ROCR_";
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, prefix, sizeof prefix - 1) != 0) continue;
    const char* equals = std::strchr(*entry, '=');
    if (equals == nullptr) continue;
    const std::string name(static_cast<const char*>(*entry) + sizeof prefix - 1, equals);
    const std::string value(equals + 1);
    const auto& table = knob_table();
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&](const knob_row& each) { return name == each.name; });
    if (row == table.end()) {
      std::string names;
      for (const knob_row& each : table)
        names += std::string(names.empty() ? "" : ", ") + each.name;
      return text("%s%s is unknown. The names after %s are: %s.", prefix, name.c_str(), prefix,
                  names.c_str());
    }
    if (!row->parse(values, value)) {
      return text("%s%s=%s is not understood. Use %s.", prefix, name.c_str(), value.c_str(),
                  row->values);
    }
  }
  if (const auto problem = check_fault_plan(values.faults); !problem.empty()) {
    return text("%sFAULTS=%s: %s", prefix, values.faults.c_str(), problem.c_str());
  }
  for (const auto& [one, other] : values.peers) {
    if (one >= values.gpus || other >= values.gpus) {
      return text("%sPEERS links GPU %llu and GPU %llu, but the GPUs are 0 to %llu.", prefix,
                  wide(one), wide(other), wide(values.gpus) - 1);
    }
  }
  return "";
}

}  // namespace

bool knob_values::linked(std::uint64_t one, std::uint64_t other) const {
  if (one == other || all_peers) return true;
  return std::any_of(peers.begin(), peers.end(), [&](const auto& link) {
    return (link.first == one && link.second == other) ||
           (link.first == other && link.second == one);
  });
}

const knob_values& knobs() {
  read_knobs();
  return the_state().values;
}

const std::string& read_knobs() {
  state& now = the_state();
  std::call_once(now.once, [&] {
    knob_values values;
    now.problem = read_environment(values);
    if (now.problem.empty()) now.values = values;
  });
  return now.problem;
}

const std::vector<knob_row>& knob_table() {
  static const auto* table = new std::vector<knob_row>{
      {"GPUS", "a number from 0 to 64", "assumption: two show what one hides",
       [](knob_values& v, const std::string& s) {
         return parse_number(s, v.gpus) && v.gpus <= most_gpus;
       }},
      {"MEMORY", "bytes of each GPU, at least 64MiB, with KiB, MiB, GiB or TiB", "assumption",
       [](knob_values& v, const std::string& s) {
         return parse_bytes(s, v.memory) && v.memory >= (std::uint64_t{64} << 20) &&
                v.memory <= (std::uint64_t{1} << 42) && v.memory % large_page_bytes == 0;
       }},
      {"PEERS", "all, none, or pairs of GPUs such as 0-1,1-2", "assumption: one XGMI hive",
       [](knob_values& v, const std::string& s) { return parse_peers(s, v); }},
      {"ISA", "a target such as gfx90a:sramecc+:xnack-", "assumption: MI200",
       [](knob_values& v, const std::string& s) {
         v.isa = s;
         return s.rfind("gfx", 0) == 0;
       }},
      {"DELAY_US", "microseconds before each packet and copy", "assumption",
       [](knob_values& v, const std::string& s) { return parse_number(s, v.delay_us); }},
      {"LOG", "on or off", "none",
       [](knob_values& v, const std::string& s) { return parse_word(s, "on", "off", v.log); }},
      {"FAULTS", "function:nth=status, or function=TIME for each call, joined by commas", "none",
       [](knob_values& v, const std::string& s) {
         v.faults = s;
         return true;
       }},
      {"REPORTS", "stop, count or handlers",
       "ROCr, Runtime::VMFaultHandler: a fault that no handler takes aborts the process",
       [](knob_values& v, const std::string& s) { return parse_reports(s, v.reports); }},
      {"PENDING", "checked or unchecked", "assumption: queued work would fault later",
       [](knob_values& v, const std::string& s) {
         return parse_word(s, "checked", "unchecked", v.check_pending);
       }},
      {"KERNELS", "complete or stop", "assumption: kernels of the program are not run",
       [](knob_values& v, const std::string& s) {
         return parse_word(s, "stop", "complete", v.kernels_stop);
       }},
      {"PAGEABLE", "fault or allowed",
       "kernel driver without XNACK: host memory nobody registered has no GPU mapping",
       [](knob_values& v, const std::string& s) {
         return parse_word(s, "fault", "allowed", v.pageable_faults);
       }},
      {"ALLOCATION_ACCESS", "checked or unchecked",
       "ROCr, MemoryRegion::AllocateImpl: mapped to the owner; others by AllowAccess",
       [](knob_values& v, const std::string& s) {
         return parse_word(s, "checked", "unchecked", v.allocation_access_checked);
       }},
      {"COPY_AGENT", "source or destination",
       "ROCr, Runtime::CopyMemory: the source's engine where the source is a GPU",
       [](knob_values& v, const std::string& s) {
         return parse_word(s, "source", "destination", v.copy_by_source);
       }},
      {"VMM_HOST", "granted or always",
       "ROCr, MappedHandleAllowedAgent::EnableAccess: host mapping by a grant to the CPU agent",
       [](knob_values& v, const std::string& s) {
         return parse_word(s, "always", "granted", v.vmm_host_always);
       }},
      {"ADDRESSES", "reused or kept",
       "assumption: the system and the thunk find freed addresses first",
       [](knob_values& v, const std::string& s) {
         return parse_word(s, "reused", "kept", v.addresses_reused);
       }},
      {"MEMORY_RETURN", "unmap or address_free",
       "ROCr 6.4, Runtime::VMemoryHandleUnmap: the last mapping of a released handle frees it",
       [](knob_values& v, const std::string& s) {
         return parse_word(s, "address_free", "unmap", v.memory_stays);
       }},
      {"ENGINES", "a number from 1 to 16", "assumption: two copy engines, one for each direction",
       [](knob_values& v, const std::string& s) {
         return parse_number(s, v.engines) && v.engines >= 1 && v.engines <= most_engines;
       }},
      {"HOST_HANDLES", "refused or allowed",
       "ROCr 6.4, Runtime::VMemoryHandleMap takes the owner for a GPU",
       [](knob_values& v, const std::string& s) {
         return parse_word(s, "allowed", "refused", v.host_handles);
       }},
      {"SVM", "on or off", "kernel driver with CONFIG_HSA_AMD_SVM",
       [](knob_values& v, const std::string& s) { return parse_word(s, "on", "off", v.svm); }},
      {"XNACK", "on or off", "kernel driver: off unless amdgpu.noretry=0 and HSA_XNACK=1",
       [](knob_values& v, const std::string& s) { return parse_word(s, "on", "off", v.xnack); }},
  };
  return *table;
}

}  // namespace stand_in
