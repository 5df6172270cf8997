// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "graph/graph.hpp"
#include "machine/runtime.hpp"
#include "pool/mem_pool_set.hpp"

namespace hipvmm::host_provider {
namespace {

// The status of a process that LeakSanitizer ends for the same reason.
constexpr int leak_status = 23;
// The status of other sanitizers; comes before leak_status.
constexpr int race_status = 66;
constexpr std::size_t most_listed = 8;

// Lines such as "2 reservations: 0x7f0000000000 (4194304 bytes), ...".
class leak_list {
 public:
  void add(const char* what, const std::string& item) {
    if (what_ != what) finish();
    what_ = what;
    if (++count_ > most_listed) return;
    if (!items_.empty()) items_ += ", ";
    items_ += item;
  }
  void add_count(const char* what, std::uint64_t count) {
    finish();
    if (count != 0) add_line(std::to_string(count) + " " + what);
  }
  std::string take() {
    finish();
    return std::move(text_);
  }

 private:
  void add_line(const std::string& line) { text_.append("  ").append(line).append("\n"); }

  void finish() {
    if (count_ == 0) return;
    if (count_ > most_listed) {
      items_.append(" and ").append(std::to_string(count_ - most_listed)).append(" more");
    }
    add_line(std::to_string(count_) + " " + what_ + ": " + items_);
    count_ = 0;
    items_.clear();
  }

  std::string text_;
  std::string what_;
  std::string items_;
  std::size_t count_ = 0;
};

const char* name_of(const std::optional<memory_kind>& kind) noexcept {
  if (!kind) return "of hipMemAddressReserve";
  switch (*kind) {
    case memory_kind::mapping:
      return "of hipMemMap";
    case memory_kind::device_allocation:
      return "of hipMalloc";
    case memory_kind::host_allocation:
      return "of hipHostMalloc";
    case memory_kind::managed_allocation:
      return "of hipMallocManaged";
    case memory_kind::imported_allocation:
      return "of hipIpcOpenMemHandle";
    case memory_kind::pool_block:
      return "of hipMallocAsync or a pool";
    case memory_kind::graph_allocation:
      return "of a graph";
    case memory_kind::registration:
      break;
  }
  return "of hipHostRegister";
}

std::string leaks_of(runtime& machine) {
  leak_list leaks;
  for (const chunk_table::live_handle& each : machine.chunks().live()) {
    std::ostringstream item;
    item << std::hex << std::showbase << each.handle << std::dec << " (" << each.bytes
         << " bytes of device " << each.device << ", " << each.references
         << (each.references == 1 ? " reference)" : " references)");
    leaks.add("of hipMemCreate or import", item.str());
  }
  std::vector<address_map::live_range> ranges = machine.addresses().live_ranges();
  // Not std::stable_sort, in which Clang 19 warns with the library of g++ 12.
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return std::tie(a.kind, a.start) < std::tie(b.kind, b.start);
  });
  for (const address_map::live_range& each : ranges) {
    std::ostringstream item;
    item << std::hex << std::showbase << each.start << std::dec << " (" << each.bytes << " bytes)";
    leaks.add(name_of(each.kind), item.str());
  }
  leaks.add_count("of hipMemPoolCreate or import", machine.pools().count().pools);
  leaks.add_count("of hipStreamCreate", machine.streams().size());
  leaks.add_count("of hipEventCreate", machine.events().size());
  leaks.add_count("of hipGraphCreate or capture", machine.graphs().graphs.size());
  leaks.add_count("of hipGraphInstantiate", machine.graphs().execs.size());
  return leaks.take();
}

// Runs after the program's exit handlers and static objects, which may free memory.
[[gnu::destructor]] void report_the_end() {
  runtime* const machine = runtime::existing();
  if (machine == nullptr) return;
  std::string leaks;
  if (machine->configuration().reports_leaks) leaks = leaks_of(*machine);
  const std::uint64_t races = machine->checker() == nullptr ? 0 : machine->checker()->reports();
  if (!leaks.empty()) {
    std::fprintf(stderr,
                 "hipvmm host provider: the process ends and still holds\n%s"
                 "Free each of them first; unset HIPVMM_HOST_LEAKS to end without this report.\n",
                 leaks.c_str());
  }
  if (races != 0) {
    std::fprintf(stderr,
                 "hipvmm order checker: %" PRIu64 " %s; the program ends with exit code %d.\n",
                 races, races == 1 ? "report" : "reports", race_status);
  }
  if (leaks.empty() && races == 0) return;
  std::fflush(nullptr);  // _exit does not
  _exit(races != 0 ? race_status : leak_status);
}

}  // namespace
}  // namespace hipvmm::host_provider
