// SPDX-License-Identifier: MIT
#include "capability/capability_fingerprint.hpp"

#include <sys/utsname.h>

#include <cstdint>
#include <fstream>

#include <hipvmm/version.hpp>
#include "capability/capability_text.hpp"
#include "runtime/device.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm::detail {
namespace {

std::string uuid_text(device_ref device) {
  const std::optional<device_uuid> uuid = find_uuid(device);
  return uuid ? to_string(*uuid) : "none";
}

/// Access between devices: for each other device whether it reaches this one and is reached.
std::string peers_of(device_ref device) {
  std::string text;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const device_ref other{ordinal};
    if (other == device) continue;
    if (!text.empty()) text += ' ';
    text += other.can_access_peer(device) ? '1' : '0';
    text += device.can_access_peer(other) ? '1' : '0';
  }
  return text.empty() ? "none" : text;
}

/// The version of the driver's module: the runtime does not tell it, and hangs and missed mappings
/// come from there (ROCm/rocm-systems#9820). Empty if it is the kernel's own.
std::string module_version() {
  std::string text;
  for (const char* module : {"amdgpu", "nvidia"}) {
    std::ifstream file{std::string{"/sys/module/"} + module + "/version"};
    std::string version;
    if (std::getline(file, version)) text += std::string{"; module "} + module + " " + version;
  }
  return text;
}

std::string kernel_release() {
  utsname system{};
  return ::uname(&system) == 0 ? system.release : "unknown";
}

}  // namespace

std::string fingerprint_of(device_ref device) {
  return on_one_line(device.name() + "; uuid " + uuid_text(device) + "; peers " + peers_of(device) +
                     "; driver " + std::to_string(driver_version()) + module_version() +
                     "; runtime " + std::to_string(runtime_version()) + "; kernel " +
                     kernel_release() +
                     "; hipvmm " HIPVMM_VERSION_STRING ", probes " HIPVMM_PROBE_SOURCES);
}

std::string hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  constexpr const char* digits = "0123456789abcdef";
  std::string result;
  for (int shift = 60; shift >= 0; shift -= 4) result += digits[(hash >> shift) & 15U];
  return result;
}

}  // namespace hipvmm::detail
