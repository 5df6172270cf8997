// SPDX-License-Identifier: MIT
#include "base/settings.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/parse.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr std::size_t gibibyte = std::size_t{1} << 30U;
constexpr std::size_t tebibyte = std::size_t{1} << 40U;

// ThreadSanitizer ends a program whose mmap results leave the range it can shadow.
#if defined(__SANITIZE_THREAD__)
constexpr std::size_t default_address_space = 512 * gibibyte;
#else
constexpr std::size_t default_address_space = 64 * tebibyte;
#endif

[[noreturn]] void reject(const char* variable, const char* value, const std::string& accepted) {
  throw std::invalid_argument{std::string{"hipvmm host provider: "} + variable + "=\"" + value +
                              "\" is not valid. Set it to " + accepted + ", or unset it."};
}

constexpr std::string_view prefix = "HIPVMM_HOST_";
constexpr std::array known_variables{
    "HIPVMM_HOST_ADDRESS_SPACE",   "HIPVMM_HOST_CHECK",         "HIPVMM_HOST_CONCURRENT_MANAGED",
    "HIPVMM_HOST_DEVICES",         "HIPVMM_HOST_FABRIC",        "HIPVMM_HOST_FAULTS",
    "HIPVMM_HOST_GRANULARITY",     "HIPVMM_HOST_LEAKS",         "HIPVMM_HOST_MEMORY",
    "HIPVMM_HOST_PAGEABLE",        "HIPVMM_HOST_PEERS",         "HIPVMM_HOST_PROFILE",
    "HIPVMM_HOST_REPORTED_MEMORY", "HIPVMM_HOST_REUSE_HANDLES", "HIPVMM_HOST_TOUCH"};

/// The number of letters to add, remove or replace, in either case, between the two.
std::size_t distance(std::string_view from, std::string_view to) {
  const auto lower = [](char each) { return std::tolower(static_cast<unsigned char>(each)); };
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(from[i]) == lower(to[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// The only place that reads a variable. A program with rights of its own (setuid) reads none,
/// because its caller must not choose its behaviour.
const char* variable_of(const char* name) noexcept { return ::secure_getenv(name); }

/// A variable with the provider's prefix that it does not know is a misspelt one.
void refuse_unknown_variables() {
  if (::getauxval(AT_SECURE) != 0) return;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(prefix)) continue;
    const auto nearest = std::min_element(
        known_variables.begin(), known_variables.end(),
        [name](const char* a, const char* b) { return distance(name, a) < distance(name, b); });
    if (name != *nearest)
      throw std::invalid_argument{"hipvmm host provider: there is no variable " +
                                  std::string{name} + ". The nearest is " + *nearest +
                                  "; set that, or unset this."};
  }
}

const profile* read_profile() {
  const char* value = variable_of("HIPVMM_HOST_PROFILE");
  if (value == nullptr) return &profiles().front();
  const profile* const found = find_profile(value);
  if (found == nullptr) {
    std::string names;
    for (const profile& each : profiles()) {
      names += names.empty() ? "one of " : ", ";
      names += each.name;
    }
    reject("HIPVMM_HOST_PROFILE", value, names);
  }
  return found;
}

host_touch read_touch(host_touch otherwise) {
  const char* const value = variable_of("HIPVMM_HOST_TOUCH");
  if (value == nullptr) return otherwise;
  const std::string_view given = value;
  if (given == "devices") return host_touch::as_devices;
  if (given != "granted") reject("HIPVMM_HOST_TOUCH", value, "devices or granted");
  return host_touch::if_granted;
}

int read_devices(int otherwise) {
  const char* value = variable_of("HIPVMM_HOST_DEVICES");
  if (value == nullptr) return otherwise;
  const std::optional<std::size_t> count = parse_number(value);
  if (!count || *count > max_devices) {
    reject("HIPVMM_HOST_DEVICES", value, "a whole number from 0 to " + std::to_string(max_devices));
  }
  return static_cast<int>(*count);
}

void read_granularity(settings& result) {
  result.granularity = result.like->minimum_granularity;
  result.recommended_granularity = result.like->recommended_granularity;
  const char* value = variable_of("HIPVMM_HOST_GRANULARITY");
  if (value == nullptr) return;
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::optional<std::size_t> bytes = parse_bytes(value);
  if (!bytes || !std::has_single_bit(*bytes) || *bytes < page || *bytes > gibibyte) {
    reject("HIPVMM_HOST_GRANULARITY", value,
           "a power of two of bytes from the page size, " + std::to_string(page) +
               ", to 1GiB, such as 4KiB or 2MiB");
  }
  result.granularity = *bytes;
  result.recommended_granularity = *bytes;
}

std::size_t read_bytes(const char* variable, std::size_t granularity, std::size_t otherwise) {
  const char* value = variable_of(variable);
  if (value == nullptr) return otherwise;
  const std::optional<std::size_t> bytes = parse_bytes(value);
  if (!bytes || *bytes < granularity) {
    reject(
        variable, value,
        "a number of bytes, such as 1048576, 512MiB, 16GiB or 1TiB, of at least the granularity, " +
            std::to_string(granularity));
  }
  return *bytes;
}

bool read_switch(const char* variable, bool otherwise) {
  const char* value = variable_of(variable);
  if (value == nullptr) return otherwise;
  const std::string_view text = value;
  if (text != "0" && text != "1") reject(variable, value, "0 or 1");
  return text == "1";
}

std::size_t machine_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t default_device_bytes(std::size_t granularity) {
  const std::size_t bytes = std::min(16 * gibibyte, machine_bytes() / 4);
  return std::max(bytes / granularity, std::size_t{1}) * granularity;
}

std::vector<std::uint64_t> read_links(int devices) {
  const auto count = static_cast<std::size_t>(devices);
  std::vector<std::uint64_t> links(count, 0);
  const char* value = variable_of("HIPVMM_HOST_PEERS");
  const std::string_view text = value == nullptr ? "all" : value;
  if (text == "none") return links;
  const auto link = [&links](std::size_t a, std::size_t b) {
    links[a] |= std::uint64_t{1} << b;
    links[b] |= std::uint64_t{1} << a;
  };
  if (text == "all") {
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = a + 1; b < count; ++b) link(a, b);
    }
    return links;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view pair = text.substr(begin, end - begin);
    const std::size_t dash = std::min(pair.find('-'), pair.size());
    const std::optional<std::size_t> a = parse_number(pair.substr(0, dash));
    const std::optional<std::size_t> b = parse_number(pair.substr(std::min(dash + 1, pair.size())));
    if (!a || !b || *a == *b || *a >= count || *b >= count) {
      reject("HIPVMM_HOST_PEERS", value,
             "\"all\", \"none\" or links between two different devices below " +
                 std::to_string(devices) + " joined by commas, such as 0-1,1-2");
    }
    link(*a, *b);
    begin = end + 1;
  }
  return links;
}

// The devices of `before` that a list keeps. As in AMD's runtime, numbers count from 0 in that
// order, the list ends at the first entry that is no device of `before`, and a device counts once.
std::vector<int> chosen_from(const std::vector<int>& before, std::string_view list) {
  std::vector<int> chosen;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view entry = list.substr(begin, end - begin);
    const std::optional<std::size_t> number = parse_number(entry);
    if (!number || std::to_string(*number) != entry || *number >= before.size()) break;
    const int place = before[*number];
    if (std::find(chosen.begin(), chosen.end(), place) == chosen.end()) chosen.push_back(place);
    begin = end + 1;
  }
  return chosen;
}

// ROCr hides devices from HIP, which numbers the rest and hides some of them; CUDA's variable
// counts if HIP's own is missing.
std::vector<int> read_visible(int machine_devices) {
  std::vector<int> visible(static_cast<std::size_t>(machine_devices));
  std::iota(visible.begin(), visible.end(), 0);
  if (const char* list = variable_of("ROCR_VISIBLE_DEVICES")) visible = chosen_from(visible, list);
  const char* list = variable_of("HIP_VISIBLE_DEVICES");
  if (list == nullptr) list = variable_of("CUDA_VISIBLE_DEVICES");
  return list == nullptr ? visible : chosen_from(visible, list);
}

std::vector<std::uint64_t> links_between(const std::vector<int>& visible,
                                         const std::vector<std::uint64_t>& of_machine) {
  std::vector<std::uint64_t> links(visible.size(), 0);
  for (std::size_t a = 0; a < visible.size(); ++a) {
    for (std::size_t b = 0; b < visible.size(); ++b) {
      const std::uint64_t reached = of_machine[static_cast<std::size_t>(visible[a])];
      if (((reached >> static_cast<unsigned>(visible[b])) & 1U) != 0) {
        links[a] |= std::uint64_t{1} << b;
      }
    }
  }
  return links;
}

std::size_t read_hidden_bytes() {
  const char* value = variable_of("HIP_HIDDEN_FREE_MEM");
  if (value == nullptr) return 0;
  const std::optional<std::size_t> mebibytes = parse_number(value);
  if (!mebibytes || *mebibytes > std::numeric_limits<std::size_t>::max() >> 20U) {
    reject("HIP_HIDDEN_FREE_MEM", value, "a whole number of MiB");
  }
  return *mebibytes << 20U;
}

fault_settings read_faults() {
  const char* value = variable_of("HIPVMM_HOST_FAULTS");
  if (value == nullptr) return {};
  try {
    return parse_faults(value);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument{std::string{"hipvmm host provider: HIPVMM_HOST_FAULTS: "} +
                                error.what() + "."};
  }
}

// FNV-1a is enough to distinguish settings; nothing here is secret.
std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char each : text) {
    hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  }
  return hash;
}

std::uint64_t fingerprint_of(const settings& from) {
  std::string text{from.like->name};
  for (const std::size_t number :
       {static_cast<std::size_t>(from.machine_devices), from.granularity,
        from.recommended_granularity, from.device_bytes, from.address_space_bytes}) {
    text += ' ' + std::to_string(number);
  }
  for (const std::uint64_t reached : from.links) text += ' ' + std::to_string(reached);
  if (from.is_integrated) text += " reported " + std::to_string(from.reported_bytes);
  if (from.pageable_access) text += " pageable";
  if (from.touch == host_touch::if_granted) text += " touched if granted";
  if (from.fabric_handles) text += " fabric";
  if (!from.concurrent_managed_access) text += " managed by turns";
  const char* faults = variable_of("HIPVMM_HOST_FAULTS");
  if (faults != nullptr) text.append(" ").append(faults);
  return hash_of(text);
}

}  // namespace

settings read_settings() {
  refuse_unknown_variables();
  settings result;
  result.like = read_profile();
  result.machine_devices = read_devices(result.machine_devices);
  result.visible = read_visible(result.machine_devices);
  read_granularity(result);
  result.device_bytes = read_bytes("HIPVMM_HOST_MEMORY", result.granularity,
                                   default_device_bytes(result.granularity));
  result.host_bytes = machine_bytes();
  result.is_integrated = variable_of("HIPVMM_HOST_REPORTED_MEMORY") != nullptr;
  result.reported_bytes =
      read_bytes("HIPVMM_HOST_REPORTED_MEMORY", result.granularity, result.device_bytes);
  result.address_space_bytes =
      read_bytes("HIPVMM_HOST_ADDRESS_SPACE", result.granularity, default_address_space);
  result.links = read_links(result.machine_devices);
  result.hidden_bytes = read_hidden_bytes();
  result.faults = read_faults();
  result.reports_leaks = read_switch("HIPVMM_HOST_LEAKS", result.reports_leaks);
  result.check_races = read_switch("HIPVMM_HOST_CHECK", result.check_races);
  if (read_switch("HIPVMM_HOST_REUSE_HANDLES", false)) {
    result.stream_and_event_handles = handle_reuse::last_first;
  }
  result.touch = read_touch(result.like->touch);
  result.pageable_access = read_switch("HIPVMM_HOST_PAGEABLE", result.pageable_access);
  result.fabric_handles = read_switch("HIPVMM_HOST_FABRIC", result.fabric_handles);
  result.concurrent_managed_access =
      read_switch("HIPVMM_HOST_CONCURRENT_MANAGED", result.concurrent_managed_access);
  // Includes all devices of the machine, so that a device keeps its identity under any list of
  // visible devices.
  result.fingerprint = fingerprint_of(result);
  result.links = links_between(result.visible, result.links);
  return result;
}

}  // namespace hipvmm::host_provider
