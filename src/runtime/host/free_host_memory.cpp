// SPDX-License-Identifier: MIT
#include "runtime/host/free_host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include <hipvmm/core/bytes.hpp>

namespace hipvmm::detail {
namespace {

std::optional<std::size_t> number_in(const std::string& name, const std::string& key = {}) {
  std::ifstream file{name};
  std::string word;
  while (!key.empty() && word != key)
    if (!(file >> word)) return std::nullopt;
  std::size_t number = 0;
  if (!(file >> number)) return std::nullopt;  // a cgroup without a limit says "max"
  return number;
}

/// A cgroup's limit without its use; its file cache is evicted first and counts as free.
std::size_t free_in(const std::string& folder, const char* limit_file, const char* used_file) {
  const auto limit = number_in(folder + limit_file);
  const auto used = number_in(folder + used_file);
  if (!limit || !used) return std::numeric_limits<std::size_t>::max();
  const std::size_t cache = number_in(folder + "/memory.stat", "inactive_file").value_or(0);
  return *limit - std::min(*limit, *used - std::min(*used, cache));
}

/// The folder of one kind: ",," for version 2, ",memory," for version 1.
std::string cgroup_of_process(const std::string& root, const std::string& kind) {
  std::ifstream file{root + "/proc/self/cgroup"};
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string kinds = line.substr(first, second - first + 1);
    kinds.front() = kinds.back() = ',';
    if (kinds == kind || (kind != ",," && kinds.find(kind) != std::string::npos))
      return line.substr(second + 1);
  }
  return {};
}

/// The least that the process's cgroup, or one above it, leaves. In a container the folder may be
/// missing, because its name is the machine's; `top` is then the container's.
std::size_t free_in_all(const std::string& top, std::string folder, const char* limit_file,
                        const char* used_file) {
  std::size_t least = free_in(top, limit_file, used_file);
  while (!folder.empty()) {
    least = std::min(least, free_in(top + folder, limit_file, used_file));
    folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
  }
  return least;
}

}  // namespace

std::size_t free_host_memory(const std::string& root) {
  const std::size_t of_machine =
      number_in(root + "/proc/meminfo", "MemAvailable:").value_or(0) * KiB;
  const std::string top = root + "/sys/fs/cgroup";
  return std::min(
      {of_machine,
       free_in_all(top, cgroup_of_process(root, ",,"), "/memory.max", "/memory.current"),
       free_in_all(top + "/memory", cgroup_of_process(root, ",memory,"), "/memory.limit_in_bytes",
                   "/memory.usage_in_bytes")});
}

}  // namespace hipvmm::detail
