// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <hipvmm/ipc/ranks/communicator.hpp>

/// A program's work on each rank, with the number behind --size. Throws if a result is wrong.
using rank_program = std::function<void(hipvmm::communicator& ranks, std::size_t size)>;

/// Runs `program` on all ranks that the options name, each with its device current. Returns the
/// exit status; prints one sentence that begins with `name` if it is not zero.
///   --ranks threads:N  N threads of this process; without the option, 4
///   --ranks mpi        the processes that mpirun started, if MPI was found
///   --ranks nccl:N     N threads with a GPU each, if NCCL or RCCL was found
///   --ranks nccl       the processes that mpirun started, if both were found
///   --size N           how much, see the program; without the option `size`
int run_on_ranks(int count, char** arguments, const char* name, std::size_t size,
                 const rank_program& program);

/// Throws std::runtime_error unless `holds`.
void require(bool holds, const char* what);
