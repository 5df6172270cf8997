// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "bench/support/bars.hpp"
#include "bench/support/measure.hpp"
#include "registering.hpp"

namespace bench {

/// Sends and receives by the library's own calls, without a communicator of hipvmm; may return
/// before the stream has ended.
using plain_transfer =
    std::function<void(const std::vector<hipvmm::outgoing>&, const std::vector<hipvmm::incoming>&,
                       hipvmm::stream_ref)>;

/// The objects of a rank.
struct exchange_rank {
  hipvmm::communicator& ranks;
  plain_transfer plain;
  /// Waits on the host, with nothing on the device, until all ranks have called it; whether all
  /// said true.
  std::function<bool(bool)> agree;
  /// The libraries of this build that register memory, if `registers` was given.
  std::vector<std::shared_ptr<registering>> libraries;
};

struct exchange_shape {
  std::size_t bytes = 0;  ///< that each rank sends in a round
  int rounds = 2;         ///< each appends to the bytes that came before
  bool skewed = false;    ///< rank 0 receives half of all bytes
};

/// Called by all ranks at the same time. Times are those of the slowest rank, memory that of the
/// rank that held most for the bytes it received.
[[nodiscard]] std::vector<measurement> measure_exchange(const settings& chosen,
                                                        const exchange_shape& shape,
                                                        const exchange_rank& rank);

struct registration_shape {
  std::size_t bytes = 0;  ///< of a chunk
  int chunks = 16;        ///< by which a vector grows, one at a time
};

/// The cost of registering the chunks of a vector with each library of `rank`, and NCCL's gain from
/// it. Called by all ranks at the same time; times are those of the slowest rank.
[[nodiscard]] std::vector<measurement> measure_registration(const settings& chosen,
                                                            const registration_shape& shape,
                                                            const exchange_rank& rank);
[[nodiscard]] std::vector<bar> judge_registration(const std::vector<measurement>& rows,
                                                  const exchange_rank& rank);

/// Runs `each` as every rank. With `registers` they have libraries to register memory with, and MPI
/// is asked for MPI_THREAD_MULTIPLE, which its windows need; else for MPI_THREAD_SERIALIZED.
/// Throws: std::invalid_argument if the build has no `library` ("threads", "nccl" or "mpi"), or has
/// too few devices for it.
void run_exchange_ranks(const std::string& library, int count, bool registers,
                        const std::function<void(const exchange_rank&)>& each);

namespace scenario {
inline constexpr const char* exchange = "ragged all-to-all, appended";
inline constexpr const char* registered_growth = "growth, a chunk at a time";
inline constexpr const char* registered_release = "release of all chunks";
inline constexpr const char* first_transfer = "first transfer of each chunk";
inline constexpr const char* later_transfer = "later transfer of each chunk";
inline constexpr const char* range_transfer = "transfer of all chunks as one";
}  // namespace scenario

namespace name {
inline constexpr const char* known = "send and receive, counts known";
inline constexpr const char* kept = "exchange, memory kept";
inline constexpr const char* fresh = "exchange, memory new";
inline constexpr const char* worst_case = "worst case preallocated";
inline constexpr const char* copied = "count, reallocate, copy";
inline constexpr const char* not_registered = "not registered";
}  // namespace name

}  // namespace bench
