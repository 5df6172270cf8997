// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/topology/peer_link.hpp>

namespace hipvmm::tool {

struct device_facts {
  device_ref device;
  std::string name;
  std::optional<device_uuid> uuid;  ///< none if the runtime reports none
  int lanes;                        ///< threads that run in step
  std::size_t total_bytes;
  std::size_t free_bytes;
  std::vector<peer_link> links;  ///< to all other devices, by ordinal
  capability memory;
};

struct failed_device {
  device_ref device;
  std::string why;
};

struct process_facts {
  std::string library;
  std::string provider;    ///< of the linked HIP: amd, cuda or host
  std::string built_with;  ///< the headers' version, and the toolkit's
  int runtime_version;
  int driver_version;
  std::string kernel;  ///< name, release and machine
  std::size_t open_descriptors;
  std::size_t soft_descriptors;          ///< may be open now (ulimit -n)
  std::size_t hard_descriptors;          ///< may be allowed without privileges
  std::optional<std::size_t> mappings;   ///< vm.max_map_count, if the system reports it
  std::optional<std::size_t> addresses;  ///< bytes of the largest reservation; none if it fails
  /// Variables that steer HIP or hipvmm, sorted.
  std::vector<std::pair<std::string, std::string>> environment;
};

struct facts {
  process_facts process;
  std::vector<device_facts> devices;
  std::vector<failed_device> failed;
};

enum class record_source { at_hand, probed_anew };

/// The failure of a device is reported, not thrown. Throws: std::invalid_argument when
/// HIPVMM_CAPABILITY is malformed.
facts gather(const std::vector<device_ref>& devices, record_source source);

/// "7.1.0" of HIP's 70100000, "13.0" of CUDA's 13000.
std::string version_text(int number);

}  // namespace hipvmm::tool
