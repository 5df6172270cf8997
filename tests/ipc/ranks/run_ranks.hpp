// SPDX-License-Identifier: MIT
// The includes of a test of ranks, and ranks that are threads.
#pragma once

// IWYU pragma: begin_exports
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/ipc/ranks/exchange.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/ipc/ranks/thread_communicator.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/test.hpp"
// IWYU pragma: end_exports

namespace hipvmm::test {

struct thread_rank {
  communicator& ranks;
  hipvmm::stream stream{ranks.device()};
};

struct rank_end {
  std::string thrown;  ///< empty if nothing was
  std::optional<rank_failure> reason;
  int at_fault = -2;
};

inline rank_end caught_in_rank(const std::exception_ptr& caught) {
  rank_end result;
  try {
    if (caught) std::rethrow_exception(caught);
  } catch (const rank_error& error) {
    result = {error.what(), error.reason(), error.rank()};
  } catch (const std::exception& error) {
    result.thrown = error.what();
  }
  return result;
}

/// Runs `body` as each of the ranks, with the devices in turn, and returns how they ended.
inline std::vector<rank_end> run_ranks_to_end(int size, const std::vector<device_ref>& devices,
                                              const communicator_options& options,
                                              const std::function<void(thread_rank&)>& body) {
  std::vector<std::exception_ptr> caught(static_cast<std::size_t>(size));
  thread_ranks group{size, options};
  in_threads(size, [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    try {
      thread_communicator ranks{group, rank, devices[index % devices.size()]};
      thread_rank one{ranks};
      body(one);
      one.stream.synchronize();
    } catch (...) {
      caught[index] = std::current_exception();
    }
  });
  std::vector<rank_end> result;
  for (const std::exception_ptr& each : caught) result.push_back(caught_in_rank(each));
  return result;
}

/// The same if none may fail.
inline void run_ranks(int size, const std::vector<device_ref>& devices,
                      const std::function<void(thread_rank&)>& body) {
  for (const rank_end& each : run_ranks_to_end(size, devices, {}, body)) CHECK(each.thrown == "");
}

/// Lets all devices that reach the vector's write to it, because copies of ROCm 6 need that.
template <typename Vector>
void grant_to_all(Vector& vector, const std::vector<device_ref>& devices) {
  for (const device_ref each : devices)
    if (each != vector.device() && each.can_access_peer(vector.device())) vector.grant(each);
}

}  // namespace hipvmm::test
