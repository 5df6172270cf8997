// SPDX-License-Identifier: MIT
#include "ipc/export_kind.hpp"

#include <unistd.h>

#include <array>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/descriptors.hpp"

namespace hipvmm {
namespace detail {

export_kind kind_of_link(std::string_view link) noexcept {
  // Linux before 5.3 names all dma-bufs alike.
  if (link.starts_with("/dmabuf:") || link == "anon_inode:dmabuf") return export_kind::dma_buf;
  if (link.starts_with("/memfd:")) return export_kind::memory_file;
  if (link.starts_with("/dev/")) return export_kind::driver_file;
  return export_kind::unknown;
}

export_kind probe_export(device_ref device) {
  const capability found = capability_of(device);
  if (found.path() == memory_path::fallback)
    throw unsupported{"chunks of device " + std::to_string(device.ordinal()) +
                      " cannot be exported: " + found.why_fallback()};
  physical_chunk chunk{device, found.minimum_granularity(), handle_type::posix_fd};
  return kind_of(shareable_handle{chunk});
}

}  // namespace detail

export_kind kind_of(const shareable_handle& handle) {
  if (handle.empty()) throw std::invalid_argument{"kind_of: the handle has no descriptor"};
  detail::require_open_descriptor(handle.get(), "kind_of");
  std::array<char, 256> link;
  const std::string entry = "/proc/self/fd/" + std::to_string(handle.get());
  const ::ssize_t length = ::readlink(entry.c_str(), link.data(), link.size());
  if (length <= 0) return export_kind::unknown;
  return detail::kind_of_link({link.data(), static_cast<std::size_t>(length)});
}

export_kind export_kind_of(device_ref device) {
  // Never destroyed, because a program's destructors at its exit may ask.
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::map<int, export_kind>;
  require_device(device);
  {
    const std::lock_guard lock{mutex};
    if (const auto found = known.find(device.ordinal()); found != known.end()) return found->second;
  }
  const export_kind result = detail::probe_export(device);
  const std::lock_guard lock{mutex};
  known.emplace(device.ordinal(), result);
  return result;
}

bool exports_fabric(device_ref device) {
  require_device(device);
  const capability found = capability_of(device);
  if (found.path() == memory_path::fallback) return false;
  try {
    physical_chunk chunk{device, found.minimum_granularity(), handle_type::fabric};
    static_cast<void>(export_fabric(chunk));
    return true;
  } catch (const hip_error&) {
    return false;
  }
}

}  // namespace hipvmm
