// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

namespace hipvmm {

enum class rank_failure {
  timeout,  ///< a rank did not take part within communicator_options::limit
  lost,     ///< a rank ended, or the communication library reported an error
  refused,  ///< the ranks' requests contradict each other: element sizes, counts, functions
  remote,   ///< another rank could not do its part; the message has its reason
};

/// After timeout and lost the communicator is unusable: each later call throws the same.
class rank_error : public std::runtime_error {
 public:
  rank_error(rank_failure reason, int rank, const std::string& message)
      : std::runtime_error{message}, reason_{reason}, rank_{rank} {}

  [[nodiscard]] rank_failure reason() const noexcept { return reason_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }  ///< at fault; -1 if unknown

 private:
  rank_failure reason_;
  int rank_;
};

}  // namespace hipvmm
