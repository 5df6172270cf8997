// SPDX-License-Identifier: MIT
#include "capability/capability_fingerprint.hpp"

#include <sys/utsname.h>

#include <cstdint>
#include <fstream>

#include <hipvmm/version.hpp>
#include "capability/capability_text.hpp"
#include "core/environment.hpp"
#include "runtime/device.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm::detail {
namespace {

std::string uuid_text(device_ref device) {
  const std::optional<device_uuid> uuid = find_uuid(device);
  return uuid ? to_string(*uuid) : "none";
}

/// For each other device two digits: it reaches this one, and is reached.
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

/// The version of the driver's module, which the runtime does not report: some hang or miss
/// mappings (ROCm/rocm-systems#9820). Empty if the module is the kernel's own.
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

/// The set variables that steer HIP's copies, streams, pools and memory. Left out are those for the
/// host's way to wait, kernels, modules, logs and tools, and those that other parts of the
/// fingerprint show (visible devices, the host provider's settings).
std::string settings_of_runtime() {
  std::string text;
  for (const char* const name :
       {// Presence of virtual memory and pools; kind and page faults of the device.
        "HIP_VMEM_MANAGE_SUPPORT", "HIP_MEM_POOL_SUPPORT", "HIP_MEM_POOL_USE_VM",
        "HSA_OVERRIDE_GFX_VERSION", "HSA_XNACK",
        // Engines of copies, and caches.
        "HSA_ENABLE_SDMA", "HSA_ENABLE_PEER_SDMA", "HSA_ENABLE_SDMA_GANG",
        "HSA_ENABLE_SDMA_HDP_FLUSH", "HSA_REV_COPY_DIR", "GPU_BLIT_ENGINE_TYPE",
        "GPU_FORCE_BLIT_COPY_SIZE", "ROC_P2P_SDMA_SIZE", "AMD_OPT_FLUSH", "HSA_DISABLE_CACHE",
        // Reach of the host and of peers, and return of memory.
        "ROC_ENABLE_LARGE_BAR", "HSA_FORCE_FINE_GRAIN_PCIE", "HSA_USE_SVM",
        "HSA_DISABLE_FRAGMENT_ALLOCATOR",
        // Order of work.
        "AMD_DIRECT_DISPATCH", "AMD_SERIALIZE_COPY", "AMD_SERIALIZE_KERNEL", "HIP_LAUNCH_BLOCKING",
        "GPU_MAX_HW_QUEUES", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS"})
    if (const char* const value = environment(name); value != nullptr && *value != '\0')
      text += std::string{"; "} + name + "=" + value;
  return text;
}

}  // namespace

std::string fingerprint_of(device_ref device) {
  return on_one_line(device.name() + "; uuid " + uuid_text(device) + "; peers " + peers_of(device) +
                     "; driver " + std::to_string(driver_version()) + module_version() +
                     "; runtime " + std::to_string(runtime_version()) + "; kernel " +
                     kernel_release() + settings_of_runtime() +
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
