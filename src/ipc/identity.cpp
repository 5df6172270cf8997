// SPDX-License-Identifier: MIT
#include "ipc/identity.hpp"

#include <algorithm>
#include <string_view>

#include <hipvmm/version.hpp>
#include "runtime/runtime_rules.hpp"

// Only the host provider defines it.
extern "C" [[gnu::weak]] int hipvmm_host_checks_order();

namespace hipvmm::detail {
namespace {

std::string text_of(const build_identity& which) {
  const auto end = std::find(which.provider.begin(), which.provider.end(), '\0');
  return "hipvmm " + std::to_string(which.version[0]) + '.' + std::to_string(which.version[1]) +
         '.' + std::to_string(which.version[2]) + " on the " +
         std::string(which.provider.begin(), end) + " provider, HIP runtime " +
         std::to_string(which.runtime);
}

}  // namespace

const char* provider_of_build() {
  if (&hipvmm_host_checks_order != nullptr) return "host";
  return rules_of_runtime().is_cuda ? "cuda" : "amd";
}

build_identity own_identity() {
  build_identity result{};
  result.version = {HIPVMM_VERSION_MAJOR, HIPVMM_VERSION_MINOR, HIPVMM_VERSION_PATCH};
  const std::string_view provider = provider_of_build();
  std::copy(provider.begin(), provider.end(), result.provider.begin());
  result.runtime = static_cast<std::uint64_t>(rules_of_runtime().version);
  return result;
}

std::string why_refused(const build_identity& own, const build_identity& peer) {
  if (own == peer) return {};
  return "the publication is of " + text_of(own) + ", the importer of " + text_of(peer) +
         ": use the same on both sides";
}

}  // namespace hipvmm::detail
