// SPDX-License-Identifier: MIT
#include "settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

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

std::optional<std::size_t> parse_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::size_t> parse_bytes(std::string_view text) {
  struct unit {
    std::string_view suffix;
    unsigned shift;
  };
  constexpr std::array units{unit{"KiB", 10}, unit{"MiB", 20}, unit{"GiB", 30}, unit{"TiB", 40}};
  unsigned shift = 0;
  for (const unit& each : units) {
    if (text.ends_with(each.suffix)) {
      shift = each.shift;
      text.remove_suffix(each.suffix.size());
      break;
    }
  }
  const std::optional<std::size_t> number = parse_number(text);
  if (!number || (*number << shift) >> shift != *number) return std::nullopt;
  return *number << shift;
}

int read_devices(int otherwise) {
  const char* value = std::getenv("HIPVMM_HOST_DEVICES");
  if (value == nullptr) return otherwise;
  const std::optional<std::size_t> count = parse_number(value);
  if (!count || *count > max_devices) {
    reject("HIPVMM_HOST_DEVICES", value, "a whole number from 0 to " + std::to_string(max_devices));
  }
  return static_cast<int>(*count);
}

std::size_t read_granularity(std::size_t otherwise) {
  const char* value = std::getenv("HIPVMM_HOST_GRANULARITY");
  if (value == nullptr) return otherwise;
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::optional<std::size_t> bytes = parse_bytes(value);
  if (!bytes || !std::has_single_bit(*bytes) || *bytes < page || *bytes > gibibyte) {
    reject("HIPVMM_HOST_GRANULARITY", value,
           "a power of two of bytes from the page size, " + std::to_string(page) +
               ", to 1GiB, such as 4KiB or 2MiB");
  }
  return *bytes;
}

std::size_t read_bytes(const char* variable, std::size_t granularity, std::size_t otherwise) {
  const char* value = std::getenv(variable);
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

std::size_t default_device_bytes(std::size_t granularity) {
  const std::size_t machine = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                              static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = std::min(16 * gibibyte, machine / 4);
  return std::max(bytes / granularity, std::size_t{1}) * granularity;
}

std::vector<std::uint64_t> read_links(int devices) {
  const auto count = static_cast<std::size_t>(devices);
  std::vector<std::uint64_t> links(count, 0);
  const char* value = std::getenv("HIPVMM_HOST_PEERS");
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

}  // namespace

settings read_settings() {
  settings result;
  result.devices = read_devices(result.devices);
  result.granularity = read_granularity(result.granularity);
  result.device_bytes = read_bytes("HIPVMM_HOST_MEMORY", result.granularity,
                                   default_device_bytes(result.granularity));
  result.address_space_bytes =
      read_bytes("HIPVMM_HOST_ADDRESS_SPACE", result.granularity, default_address_space);
  result.links = read_links(result.devices);
  return result;
}

}  // namespace hipvmm::host_provider
