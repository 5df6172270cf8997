// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include <hipvmm/capability/capability.hpp>
#include "support/devices.hpp"

namespace hipvmm::test {

/// While this lives, regions made on `device` take `findings` for true, such as
/// "tail_access=no,visibility_delay=2ms", even if a probe found others. Other devices keep
/// their findings, if they have some.
class assumed_capability {
 public:
  explicit assumed_capability(const std::string& findings, device_ref device = first_device)
      : device_{device} {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, ("assume:" + findings).c_str(), 1);
    probe_capability(device_);
  }
  ~assumed_capability() {
    if (before_) {
      ::setenv(name, before_->c_str(), 1);
    } else {
      ::unsetenv(name);
    }
    probe_capability(device_);
  }
  assumed_capability& operator=(assumed_capability&&) = delete;

 private:
  static constexpr const char* name = "HIPVMM_CAPABILITY";
  device_ref device_;
  std::optional<std::string> before_;
};

}  // namespace hipvmm::test
