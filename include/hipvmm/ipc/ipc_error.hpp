// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

namespace hipvmm {

enum class ipc_failure {
  timeout,    ///< the other side did not answer, or did not read, in time
  closed,     ///< the other side ended, or closed the connection
  malformed,  ///< it sent an invalid or inconsistent message
  refused,    ///< one side does not accept the other: user, version, provider, type, path in use
  expired,    ///< withdrawn memory was kept longer than publication_options::lease
  system,     ///< a call of the operating system failed; the message has its reason
};

class ipc_error : public std::runtime_error {
 public:
  ipc_error(ipc_failure reason, const std::string& message)
      : std::runtime_error{message}, reason_{reason} {}

  [[nodiscard]] ipc_failure reason() const noexcept { return reason_; }

 private:
  ipc_failure reason_;
};

}  // namespace hipvmm
