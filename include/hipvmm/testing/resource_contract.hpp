// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <stdexcept>
#include <vector>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm::mr {

/// Thrown when a resource breaks a rule of the contract; what() names the rule and the observation.
class contract_violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The resource under test, empty or in use, and the device whose streams will use its memory.
struct contract_subject {
  memory_resource& resource;
  device_ref device;
  /// The largest request that must succeed, in bytes.
  std::size_t largest_bytes;
  /// The largest alignment that must be honoured, in bytes.
  std::size_t largest_alignment = memory_resource::default_alignment;
};

/// One rule that every memory_resource keeps.
struct contract_rule {
  /// A sentence, such as "no bytes are nullptr".
  const char* name;
  /// Checks the rule; uses the resource and deallocates everything. Throws: contract_violation; an
  /// exception of the resource that the contract forbids.
  void (*verify)(const contract_subject& subject);
};

/// Returns the rules, for any test framework: run each with a subject; an exception is a failure.
[[nodiscard]] const std::vector<contract_rule>& resource_contract();

/// Runs all rules in turn and throws at the first that is broken.
void verify_resource(const contract_subject& subject);

}  // namespace hipvmm::mr
