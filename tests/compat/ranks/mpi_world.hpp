// SPDX-License-Identifier: MIT
#pragma once

#include <mpi.h>

namespace hipvmm::test {

/// Initializes MPI at its first call, which chooses the level, for the rest of the process.
inline MPI_Comm mpi_world(int threads = MPI_THREAD_SERIALIZED) {
  struct world {
    explicit world(int level) {
      int provided = 0;
      MPI_Init_thread(nullptr, nullptr, level, &provided);
    }
    ~world() { MPI_Finalize(); }
  };
  static const world only{threads};
  return MPI_COMM_WORLD;
}

}  // namespace hipvmm::test
