// SPDX-License-Identifier: MIT
#include "run_ranks.hpp"

#if defined(RANKS_HAVE_MPI)
#include <hipvmm/compat/mpi.hpp>
#endif
#if defined(RANKS_HAVE_NCCL)
#include <hipvmm/compat/nccl.hpp>
#endif
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr hipvmm::communicator_options options{std::chrono::minutes{1}};

struct choice {
  std::string ranks = "threads:4";
  std::size_t size;
};

std::size_t number(const std::string& text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument{"\"" + text + "\" is not a number below 1000000000"};
  return std::stoull(text);
}

choice read_options(int count, char** arguments, std::size_t size) {
  choice result;
  result.size = size;
  for (int at = 1; at < count; at += 2) {
    const std::string option = arguments[at];
    if (at + 1 == count || (option != "--ranks" && option != "--size"))
      throw std::invalid_argument{"unknown option " + option +
                                  ": use --ranks threads:N, mpi, nccl or nccl:N, and --size N"};
    if (option == "--ranks")
      result.ranks = arguments[at + 1];
    else
      result.size = number(arguments[at + 1]);
  }
  return result;
}

/// The device of a rank: they take turns.
hipvmm::device_ref device_of(int rank) {
  static_cast<void>(hipvmm::device_ref::current());  // throws if there is none
  return hipvmm::device_ref{rank % hipvmm::device_count()};
}

/// Runs `of_rank` in `size` threads. Throws the error of the first rank at fault: the other errors
/// only say that it is gone.
void run_threads(int size, const std::function<void(int)>& of_rank) {
  if (size < 1) throw std::invalid_argument{"--ranks needs at least one rank"};
  static_cast<void>(device_of(0));
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const hipvmm::scoped_device scope{device_of(rank)};
        of_rank(rank);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& each : threads) each.join();
  std::exception_ptr lost;
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const hipvmm::rank_error&) {
      if (!lost) lost = failure;
    }
  }
  if (lost) std::rethrow_exception(lost);
}

// NOLINTBEGIN(bugprone-casting-through-void): Open MPI's constants are such casts.
#if defined(RANKS_HAVE_MPI)

/// MPI of this process.
class mpi_world {
 public:
  mpi_world() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  }
  ~mpi_world() {
    if (std::uncaught_exceptions() == 0) MPI_Finalize();
  }
  mpi_world(const mpi_world&) = delete;
  mpi_world& operator=(const mpi_world&) = delete;

  /// Ranks of one machine use its devices in turn.
  [[nodiscard]] static hipvmm::device_ref device() {
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    int rank = 0;
    MPI_Comm_rank(machine, &rank);
    MPI_Comm_free(&machine);
    return device_of(rank);
  }
};

/// Ends all ranks, which may wait for this one, if MPI is still in use.
void abort_mpi() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized != 0 && finalized == 0) MPI_Abort(MPI_COMM_WORLD, 1);
}

void run_mpi(const choice& chosen, const rank_program& program) {
  static_cast<void>(device_of(0));
  const mpi_world world;
  const hipvmm::device_ref device = mpi_world::device();
  const hipvmm::scoped_device scope{device};
  hipvmm::mpi_options limit;
  limit.limit = options.limit;
  hipvmm::mpi_communicator ranks{MPI_COMM_WORLD, device, limit};
  program(ranks, chosen.size);
}

#endif

#if defined(RANKS_HAVE_NCCL)

void require_nccl(ncclResult_t result) {
  if (result != ncclSuccess)
    throw std::runtime_error{std::string{"NCCL: "} + ncclGetErrorString(result)};
}

/// A thread for each GPU.
void run_nccl_threads(int size, const choice& chosen, const rank_program& program) {
  static_cast<void>(device_of(0));
  if (size < 1 || size > hipvmm::device_count())
    throw std::invalid_argument{"--ranks nccl:" + std::to_string(size) +
                                " needs as many GPUs, of " + "which there are " +
                                std::to_string(hipvmm::device_count())};
  std::vector<ncclComm_t> all(static_cast<std::size_t>(size));
  require_nccl(ncclCommInitAll(all.data(), size, nullptr));
  run_threads(size, [&](int rank) {
    try {
      hipvmm::nccl_communicator own{all[static_cast<std::size_t>(rank)]};
      program(own, chosen.size);
    } catch (const std::exception& error) {
      // The streams of other ranks may wait for this one, and know no limit.
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      std::_Exit(1);
    }
  });
  for (ncclComm_t each : all) require_nccl(ncclCommDestroy(each));
}

#endif
#if defined(RANKS_HAVE_NCCL) && defined(RANKS_HAVE_MPI)

/// The processes that mpirun started, which agree on NCCL's ranks by MPI.
void run_nccl(const choice& chosen, const rank_program& program) {
  static_cast<void>(device_of(0));
  const mpi_world world;
  const hipvmm::scoped_device scope{mpi_world::device()};
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ncclUniqueId id{};
  if (rank == 0) require_nccl(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t all = nullptr;
  require_nccl(ncclCommInitRank(&all, size, id, rank));
  {
    hipvmm::nccl_communicator ranks{all};
    program(ranks, chosen.size);
  }
  require_nccl(ncclCommDestroy(all));
}

#endif
// NOLINTEND(bugprone-casting-through-void)

void run(const choice& chosen, const rank_program& program) {
  const std::size_t colon = chosen.ranks.find(':');
  const std::string kind = chosen.ranks.substr(0, colon);
  const bool has_number = colon != std::string::npos;
  const auto size = has_number ? static_cast<int>(number(chosen.ranks.substr(colon + 1))) : 0;
  if (kind == "threads" && has_number) {
    hipvmm::thread_ranks ranks{size, options};
    return run_threads(size, [&](int rank) {
      hipvmm::thread_communicator own{ranks, rank, device_of(rank)};
      program(own, chosen.size);
    });
  }
#if defined(RANKS_HAVE_MPI)
  if (kind == "mpi" && !has_number) return run_mpi(chosen, program);
#endif
#if defined(RANKS_HAVE_NCCL)
  if (kind == "nccl" && has_number) return run_nccl_threads(size, chosen, program);
#endif
#if defined(RANKS_HAVE_NCCL) && defined(RANKS_HAVE_MPI)
  if (kind == "nccl") return run_nccl(chosen, program);
#endif
  throw std::invalid_argument{"--ranks " + chosen.ranks +
                              " is not in this program; run it with threads:N, or build it where "
                              "MPI or NCCL is found"};
}

}  // namespace

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{what};
}

int run_on_ranks(int count, char** arguments, const char* name, std::size_t size,
                 const rank_program& program) {
  try {
    run(read_options(count, arguments, size), program);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
#if defined(RANKS_HAVE_MPI)
    abort_mpi();
#endif
    return 1;
  }
}
