// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/compat/nccl.hpp>
#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/runtime/device.hpp>
#include "support/test.hpp"

namespace hipvmm::test {

struct nccl_group {
  int size = 0;
  bool is_blocking = true;
  std::chrono::milliseconds limit{20000};
  std::function<std::unique_lock<std::mutex>()> lock = {};
};

/// NCCL allows a rank for each device. Its stand-in copies, which between mapped memory of two
/// devices needs rights that NCCL does not need: all of its ranks are on one.
inline int nccl_device_of(int rank) {
#if HIPVMM_TEST_ON_CUDA || HIPVMM_TEST_ON_AMD
  return rank;
#else
  return rank - rank;
#endif
}

/// Runs `body` in a thread for each rank, which may abort its ncclComm_t and set it to nullptr.
/// An exception of a rank is a failure of the test. A comm is aborted if its rank throws or
/// `expects_failure`, else destroyed.
inline void run_nccl_ranks(const nccl_group& group,
                           const std::function<void(nccl_communicator&, ncclComm_t&)>& body,
                           bool expects_failure = false) {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<std::string> thrown(static_cast<std::size_t>(group.size));
  in_threads(group.size, [&](int rank) {
    ncclComm_t comm = nullptr;
    bool has_failed = expects_failure;
    try {
      const scoped_device scope{device_ref{nccl_device_of(rank)}};
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = group.is_blocking ? 1 : 0;
      ncclResult_t state = ncclCommInitRankConfig(&comm, group.size, id, rank, &config);
      while (state == ncclInProgress) ncclCommGetAsyncError(comm, &state);
      if (state != ncclSuccess) throw std::runtime_error{ncclGetErrorString(state)};
      nccl_options options;
      options.limit = group.limit;
      options.lock = group.lock;
      nccl_communicator ranks{comm, options};
      body(ranks, comm);
    } catch (const std::exception& error) {
      thrown[static_cast<std::size_t>(rank)] = error.what();
      has_failed = true;
    }
    if (comm != nullptr)
      static_cast<void>(has_failed ? ncclCommAbort(comm) : ncclCommDestroy(comm));
  });
  for (const std::string& each : thrown) CHECK(each == "");
}

}  // namespace hipvmm::test
