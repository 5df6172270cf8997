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

/// A communicator between the even ranks and the odd ones. Collective.
/// Pre: mpi_world() was called, and there are two ranks or more.
class between_two_groups {
 public:
  between_two_groups() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half_);
    MPI_Intercomm_create(half_, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &between_);
  }
  ~between_two_groups() {
    MPI_Comm_free(&between_);
    MPI_Comm_free(&half_);
  }
  between_two_groups& operator=(between_two_groups&&) = delete;
  [[nodiscard]] MPI_Comm get() const noexcept { return between_; }

 private:
  MPI_Comm half_ = MPI_COMM_NULL;
  MPI_Comm between_ = MPI_COMM_NULL;
};

}  // namespace hipvmm::test
