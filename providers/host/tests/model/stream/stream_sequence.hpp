// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hipvmm::test::model {

/// The outcome of a random sequence of calls with streams, events, pools of HIP's own and captures.
struct stream_outcome {
  std::size_t effects = 0;
  std::size_t refusals = 0;
  std::string difference;  ///< the last calls and the difference; empty if there was none
};

/// Makes `count` calls on the runtime of the process, in a child process, and compares each code
/// with the model of the release called `profile` (HIPVMM_HOST_PROFILE).
/// A call that takes longer than 60 s is a difference.
/// Throws: std::system_error when no process can be started.
[[nodiscard]] stream_outcome run_stream_sequence(std::string_view profile, std::uint32_t seed,
                                                 std::size_t count);

}  // namespace hipvmm::test::model
