// SPDX-License-Identifier: MIT
#pragma once

#include <mpi.h>

namespace hipvmm::test {

/// Initializes MPI at its first call, for the rest of the process.
inline MPI_Comm mpi_world() {
  struct world {
    world() {
      int provided = 0;
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    }
    ~world() { MPI_Finalize(); }
  };
  static const world only;
  return MPI_COMM_WORLD;
}

}  // namespace hipvmm::test
