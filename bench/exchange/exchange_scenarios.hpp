// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "bench/support/measure.hpp"

namespace bench {

/// Sends and receives by the library's own calls, without a communicator of hipvmm; may return
/// before the stream has ended.
using plain_transfer =
    std::function<void(const std::vector<hipvmm::outgoing>&, const std::vector<hipvmm::incoming>&,
                       hipvmm::stream_ref)>;

/// What a rank has.
struct exchange_rank {
  hipvmm::communicator& ranks;
  plain_transfer plain;
};

struct exchange_shape {
  std::size_t bytes = 0;  ///< that each rank sends in a round
  int rounds = 2;         ///< each appends to what came before
};

/// Called by all ranks at the same time. Times are those of the slowest rank, memory that of the
/// rank that held most for what it received.
[[nodiscard]] std::vector<measurement> measure_exchange(const settings& chosen,
                                                        const exchange_shape& shape,
                                                        const exchange_rank& rank);

/// Runs `each` as every rank. Throws: std::invalid_argument where the build has no `library`
/// ("threads", "nccl" or "mpi"), or has too few devices for it.
void run_exchange_ranks(const std::string& library, int count,
                        const std::function<void(const exchange_rank&)>& each);

namespace scenario {
inline constexpr const char* exchange = "ragged all-to-all, appended";
}

namespace name {
inline constexpr const char* known = "send and receive, counts known";
inline constexpr const char* kept = "exchange, memory kept";
inline constexpr const char* fresh = "exchange, memory new";
inline constexpr const char* worst_case = "worst case preallocated";
inline constexpr const char* copied = "count, reallocate, copy";
}  // namespace name

}  // namespace bench
