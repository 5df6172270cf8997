// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/topology/peer_link.hpp>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/check.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm {
namespace {

constexpr std::array<std::string_view, 6> link_names{"unknown", "hypertransport", "qpi",
                                                     "pcie",    "infiniband",     "xgmi"};

/// False if the runtime has no such call (CUDA, HIP on other systems), or if ROCr could not report
/// the link (hipErrorInvalidHandle).
bool is_answer(hipError_t result, const char* call) {
  if (result == hipErrorNotSupported || result == hipErrorInvalidHandle) {
    detail::clear_last_error();
    return false;
  }
  detail::check(result, call);
  return true;
}

std::optional<int> attribute_of(const peer_link& link, hipDeviceP2PAttr attribute) {
  int value = 0;
  const hipError_t result =
      hipDeviceGetP2PAttribute(&value, attribute, link.device.ordinal(), link.peer.ordinal());
  return is_answer(result, "hipDeviceGetP2PAttribute") ? std::optional{value} : std::nullopt;
}

std::optional<bool> flag_of(const peer_link& link, hipDeviceP2PAttr attribute) {
  const std::optional<int> value = attribute_of(link, attribute);
  return value ? std::optional{*value != 0} : std::nullopt;
}

/// `number` is ROCr's hsa_amd_link_info_type_t.
link_type type_of(std::uint32_t number) noexcept {
  return number + 1 < link_names.size() ? static_cast<link_type>(number + 1) : link_type::unknown;
}

}  // namespace

std::string_view name_of(link_type type) noexcept {
  const auto at = static_cast<std::size_t>(type);
  return at < link_names.size() ? link_names[at] : link_names.front();
}

peer_link peer_link_between(device_ref device, device_ref peer) {
  require_device(device);
  require_device(peer);
  if (device == peer)
    throw std::invalid_argument{"device " + std::to_string(device.ordinal()) +
                                " has no link to itself: name two different devices"};
  peer_link link{device, peer};
  link.can_access = device.can_access_peer(peer);
  std::uint32_t type = 0;
  std::uint32_t hops = 0;
  if (is_answer(hipExtGetLinkTypeAndHopCount(device.ordinal(), peer.ordinal(), &type, &hops),
                "hipExtGetLinkTypeAndHopCount")) {
    link.type = type_of(type);
    link.hops = hops;
  }
  if (detail::rules_of_runtime().ranks_links)
    link.performance_rank = attribute_of(link, hipDevP2PAttrPerformanceRank);
  link.access_supported = flag_of(link, hipDevP2PAttrAccessSupported);
  link.native_atomics = flag_of(link, hipDevP2PAttrNativeAtomicSupported);
  link.array_access = flag_of(link, hipDevP2PAttrHipArrayAccessSupported);
  return link;
}

std::vector<peer_link> peer_links(device_ref device) {
  require_device(device);
  std::vector<peer_link> links;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal)
    if (ordinal != device.ordinal())
      links.push_back(peer_link_between(device, device_ref{ordinal}));
  return links;
}

std::vector<peer_link> peer_links() {
  std::vector<peer_link> links;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const std::vector<peer_link> row = peer_links(device_ref{ordinal});
    links.insert(links.end(), row.begin(), row.end());
  }
  return links;
}

}  // namespace hipvmm
