// SPDX-License-Identifier: MIT
#include "tool/info/facts.hpp"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/version.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include "core/error.hpp"
#include "runtime/device.hpp"
#include "runtime/runtime_rules.hpp"

extern char** environ;

namespace hipvmm::tool {
namespace {

std::string kernel() {
  utsname name{};
  if (::uname(&name) != 0) throw std::system_error{errno, std::generic_category(), "uname"};
  return std::string{name.sysname} + ' ' + name.release + ' ' + name.machine;
}

std::size_t open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{::opendir("/proc/self/fd"), ::closedir};
  if (!folder)
    throw std::system_error{errno, std::generic_category(), "cannot look into /proc/self/fd"};
  std::size_t count = 0;
  while (const dirent* const entry = ::readdir(folder.get()))
    if (entry->d_name[0] != '.') ++count;
  return count - 1;  // without the descriptor that reads the folder
}

std::optional<std::size_t> mappings_allowed() {
  std::ifstream file{"/proc/sys/vm/max_map_count"};
  std::size_t count = 0;
  if (file >> count) return count;
  return std::nullopt;
}

std::optional<std::size_t> largest_reservation() {
  // No processor that runs HIP gives a process more than 128 TiB.
  for (std::size_t bytes = 128 * TiB; bytes >= MiB; bytes /= 2) {
    try {
      if (detail::attempt([&] { static_cast<void>(address_reservation{bytes}); })) return bytes;
    } catch (const unsupported&) {
      return std::nullopt;
    } catch (const hip_error&) {
    }
  }
  return std::nullopt;
}

bool steers(std::string_view name) {
  constexpr std::array<std::string_view, 6> names{
      "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",    "CUDA_VISIBLE_DEVICES",
      "GPU_DEVICE_ORDINAL",  "HIP_VMEM_MANAGE_SUPPORT", "HIP_MEM_POOL_SUPPORT"};
  return name.starts_with("HIPVMM_") || name.starts_with("HSA_") ||
         std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> result;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text{*variable};
    const std::size_t end = text.find('=');
    if (end != std::string_view::npos && steers(text.substr(0, end)))
      result.emplace_back(text.substr(0, end), text.substr(end + 1));
  }
  std::sort(result.begin(), result.end());
  return result;
}

process_facts gather_process() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0)
    throw std::system_error{errno, std::generic_category(), "getrlimit"};
  return {HIPVMM_VERSION_STRING,     HIPVMM_PROVIDER_NAME,     HIPVMM_BUILT_WITH,
          detail::runtime_version(), detail::driver_version(), kernel(),
          open_descriptors(),        descriptors.rlim_cur,     descriptors.rlim_max,
          mappings_allowed(),        largest_reservation(),    environment()};
}

device_facts gather_device(device_ref device, record_source source) {
  return {device,
          device.name(),
          detail::find_uuid(device),
          detail::warp_size_of(device),
          device.total_memory(),
          device.free_memory(),
          peer_links(device),
          source == record_source::probed_anew ? probe_capability(device) : capability_of(device)};
}

}  // namespace

facts gather(const std::vector<device_ref>& devices, record_source source) {
  facts result{gather_process(), {}, {}};
  for (const device_ref device : devices) {
    try {
      result.devices.push_back(gather_device(device, source));
    } catch (const std::invalid_argument&) {
      throw;
    } catch (const std::exception& error) {
      result.failed.push_back({device, error.what()});
    }
  }
  return result;
}

std::string version_text(int number) {
  if (detail::runtime_rules{number}.is_cuda)
    return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10);
  return std::to_string(number / 10000000) + '.' + std::to_string(number / 100000 % 100) + '.' +
         std::to_string(number % 100000);
}

}  // namespace hipvmm::tool
