// SPDX-License-Identifier: MIT
#include <atomic>
#include <barrier>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hipvmm/ipc/ranks/thread_communicator.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include "exchange_scenarios.hpp"

#ifdef BENCH_MPI
#include <hipvmm/compat/mpi.hpp>
#endif
#ifdef BENCH_NCCL
#include <hipvmm/compat/nccl.hpp>
#endif

namespace bench {
namespace {

/// Runs `each` in a thread for each rank. Throws: the exception of the first rank that throws.
void run_threads(int count, const std::function<void(int rank)>& each) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        each(rank);
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& each_thrown : thrown)
    if (each_thrown) std::rethrow_exception(each_thrown);
}

/// exchange_rank::agree of ranks that are threads.
class meeting {
 public:
  explicit meeting(int count) : all_{count} {}
  bool agree(bool is_right) {
    if (!is_right) ++failed_;
    all_.arrive_and_wait();
    const bool result = failed_ == 0;
    all_.arrive_and_wait();
    if (!is_right) --failed_;
    return result;
  }

 private:
  std::barrier<> all_;
  std::atomic<int> failed_{0};
};

using libraries = std::vector<std::shared_ptr<registering>>;

[[maybe_unused]] libraries joined(libraries first, const libraries& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

void run_over_threads(int count, bool registers,
                      const std::function<void(const exchange_rank&)>& each) {
  hipvmm::thread_ranks group{count};
  meeting all{count};
  const int devices = hipvmm::device_count();
  run_threads(count, [&](int rank) {
    hipvmm::thread_communicator ranks{group, rank, hipvmm::device_ref{rank % devices}};
    each({ranks,
          [&](const auto& out, const auto& in, hipvmm::stream_ref stream) {
            ranks.transfer(out, in, stream);
          },
          [&](bool is_right) { return all.agree(is_right); },
          registers ? register_with_ucx() : libraries{}});
  });
}

#if defined(BENCH_NCCL) || defined(BENCH_MPI)
/// A rank's own piece, which libraries would bring through their messages: a program that wants its
/// transfers fast copies it.
template <typename Outgoing, typename Incoming>
void copy_own(int rank, const Outgoing& out, const Incoming& in, hipvmm::stream_ref stream) {
  for (const auto& from : out)
    for (const auto& to : in)
      if (from.rank == rank && to.rank == rank)
        hipvmm::copy_async(stream, to.data, from.data, from.bytes);
}
#endif

#ifdef BENCH_NCCL
void require(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw std::runtime_error{std::string{call} + ": " + ncclGetErrorString(result)};
}

void run_over_nccl(int count, bool registers,
                   const std::function<void(const exchange_rank&)>& each) {
  if (count > hipvmm::device_count())
    throw std::invalid_argument{"NCCL needs a device for each of " + std::to_string(count) +
                                " ranks, and there are " + std::to_string(hipvmm::device_count())};
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(count));
  require(ncclCommInitAll(comms.data(), count, nullptr), "ncclCommInitAll");
  meeting all{count};
  run_threads(count, [&](int rank) {
    ncclComm_t const comm = comms[static_cast<std::size_t>(rank)];
    const hipvmm::scoped_device scope{hipvmm::device_ref{rank}};
    hipvmm::nccl_communicator ranks{comm};
    each({ranks,
          [&](const auto& out, const auto& in, hipvmm::stream_ref stream) {
            const hipvmm::detail::nccl_stream in_stream{stream};
            require(ncclGroupStart(), "ncclGroupStart");
            for (const auto& piece : out) {
              if (piece.rank == rank) continue;
              require(ncclSend(piece.data, piece.bytes, ncclInt8, piece.rank, comm, in_stream),
                      "ncclSend");
            }
            for (const auto& piece : in) {
              if (piece.rank == rank) continue;
              require(ncclRecv(piece.data, piece.bytes, ncclInt8, piece.rank, comm, in_stream),
                      "ncclRecv");
            }
            require(ncclGroupEnd(), "ncclGroupEnd");
            copy_own(rank, out, in, stream);
          },
          [&](bool is_right) { return all.agree(is_right); },
          registers ? joined(register_with_nccl(comm), register_with_ucx()) : libraries{}});
  });
  for (ncclComm_t each_comm : comms) require(ncclCommDestroy(each_comm), "ncclCommDestroy");
}
#endif

#ifdef BENCH_MPI
void run_over_mpi(bool registers, const std::function<void(const exchange_rank&)>& each) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, registers ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED,
                  &provided);
  struct finalize {
    ~finalize() { MPI_Finalize(); }
  } const at_end;
  hipvmm::mpi_communicator ranks{MPI_COMM_WORLD};
  if (ranks.describe().find("staged") != std::string::npos)
    throw std::invalid_argument{
        "this MPI takes no device memory, so that there is nothing to compare with: " +
        ranks.describe()};
  each({ranks,
        [&](const auto& out, const auto& in, hipvmm::stream_ref stream) {
          stream.synchronize();
          std::vector<MPI_Request> requests;
          for (const auto& piece : in) {
            if (piece.rank != ranks.rank())
              MPI_Irecv(piece.data, static_cast<int>(piece.bytes), MPI_BYTE, piece.rank, 1,
                        MPI_COMM_WORLD, &requests.emplace_back());
          }
          for (const auto& piece : out) {
            if (piece.rank != ranks.rank())
              MPI_Isend(piece.data, static_cast<int>(piece.bytes), MPI_BYTE, piece.rank, 1,
                        MPI_COMM_WORLD, &requests.emplace_back());
          }
          copy_own(ranks.rank(), out, in, stream);
          MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        },
        [](bool is_right) {
          const int mine = is_right ? 1 : 0;
          int least = 0;
          MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
          return least == 1;
        },
        registers ? joined(register_with_mpi(MPI_COMM_WORLD), register_with_ucx()) : libraries{}});
}
#endif

}  // namespace

void run_exchange_ranks(const std::string& library, int count, bool registers,
                        const std::function<void(const exchange_rank&)>& each) {
  if (library == "threads") return run_over_threads(count, registers, each);
#ifdef BENCH_NCCL
  if (library == "nccl") return run_over_nccl(count, registers, each);
#endif
#ifdef BENCH_MPI
  if (library == "mpi") return run_over_mpi(registers, each);
#endif
  throw std::invalid_argument{"this build has no ranks over " + library +
                              "; CMake says what it has not found"};
}

}  // namespace bench
