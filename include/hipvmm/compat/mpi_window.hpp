// SPDX-License-Identifier: MIT
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/compat/mpi_messages.hpp>
#include <hipvmm/compat/registration.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ranks/rank_error.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>

namespace hipvmm {

enum class mpi_device_windows {
  ask,      ///< as MPIX_Query_cuda_support or MPIX_Query_rocm_support says
  assumed,  ///< without asking: an MPI that does not take them ends the process
};

/// A registrar that attaches each chunk to a dynamic window (MPI_Win_create_dynamic) while it is
/// mapped. Other ranks put and get by the addresses that update() gathers.
/// - add() and remove() are MPI_Win_attach and MPI_Win_detach, which are local. The library calls
///   them in threads of its own too: MPI_THREAD_MULTIPLE is needed.
/// - Memory must not shrink while another rank may still use it: MPI knows the end of remote
///   accesses only by the ranks' own synchronization, such as MPI_Win_unlock and a barrier.
/// - Open MPI attaches 64 chunks at most unless MCA osc_rdma_max_attach says more. Growth beyond
///   fails; larger steps make fewer chunks.
/// - The window returns errors (MPI_ERRORS_RETURN).
class mpi_window final : public library_registrar {
 public:
  /// Collective over `ranks`, which is duplicated.
  /// Throws: std::invalid_argument before MPI_Init or after MPI_Finalize, and for MPI_COMM_NULL or
  /// an inter-communicator. If one rank throws one of the following, the others throw rank_error of
  /// remote: unsupported if MPI is older than 3.0, has a lower thread level, or takes no memory of
  /// `device`; std::bad_alloc; hip_error. std::runtime_error with MPI's text.
  explicit mpi_window(MPI_Comm ranks, device_ref device,
                      mpi_device_windows takes = mpi_device_windows::ask) {
    detail::require_ranks("mpi_window", ranks);
    MPI_Comm_size(ranks, &size_);
    attempt(ranks, "make its mpi_window", [&] {
      require_ready(device, takes);
      memories_.resize(static_cast<std::size_t>(size_));
      most_ = most_attached();
    });
    require(MPI_Comm_dup(ranks, &ranks_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
    const int made = MPI_Win_create_dynamic(MPI_INFO_NULL, ranks_, &window_);
    if (made != MPI_SUCCESS) {
      MPI_Comm_free(&ranks_);
      require(made, "MPI_Win_create_dynamic");
    }
    MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
  }
  /// Collective, as MPI_Win_free is: keep a reference to the window until its memory is unmapped
  /// (drain_retired_memory()), and release it last, in a thread of the program's. After
  /// MPI_Finalize and in a child of fork() it does nothing. Drain before MPI_Finalize too, because
  /// a thread of the library could otherwise detach memory from a window that ends.
  ~mpi_window() override {
    if (lifetime_.end() != nullptr) return;
    MPI_Win_free(&window_);
    MPI_Comm_free(&ranks_);
  }

  [[nodiscard]] MPI_Win get() const noexcept { return window_; }

  /// Collective: every rank learns the attached memory of all ranks, and the base that each passes,
  /// such as data() of its vector. Call it after growth, before others use the new memory; and
  /// before memory shrinks, when no rank uses it any more.
  /// Throws: std::runtime_error with MPI's text; std::logic_error after MPI_Finalize and in a child
  /// of fork(); std::bad_alloc, and on the other ranks rank_error of remote. All ranks then keep
  /// the previous state.
  void update(const void* base) {
    require_mpi("mpi_window::update");
    constexpr const char* what = "take part in mpi_window::update()";
    std::vector<std::uint64_t> sent;
    std::vector<int> counts;
    std::vector<int> starts;
    std::vector<rank_memory> next;
    attempt(ranks_, what, [&] {
      sent.push_back(reinterpret_cast<std::uintptr_t>(base));
      for (const registered_bytes& each : chunks()) {
        sent.push_back(each.address);
        sent.push_back(each.bytes);
      }
      counts.resize(memories_.size());
      starts.resize(memories_.size());
      next.resize(memories_.size());
    });
    const int count = static_cast<int>(sent.size());
    require(MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, ranks_), "MPI_Allgather");
    std::vector<std::uint64_t> got;
    attempt(ranks_, what, [&] {
      int total = 0;
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        starts[rank] = total;
        total += counts[rank];
        next[rank].chunks.reserve(static_cast<std::size_t>(counts[rank]) / 2);
      }
      got.resize(static_cast<std::size_t>(total));
    });
    require(MPI_Allgatherv(sent.data(), count, MPI_UINT64_T, got.data(), counts.data(),
                           starts.data(), MPI_UINT64_T, ranks_),
            "MPI_Allgatherv");
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      auto at = got.begin() + starts[rank];
      const auto end = at + counts[rank];
      next[rank].base = *at++;
      for (; at != end; at += 2)
        next[rank].chunks.push_back(
            {at[0], static_cast<std::size_t>(at[1]), next[rank].chunks.size()});
    }
    memories_ = std::move(next);
  }

  /// Locates `bytes` bytes from byte `offset` behind the base of `rank`, as of the last update():
  /// one piece for each chunk, because an MPI access must not span two. The addresses are
  /// displacements for MPI_Put and MPI_Get.
  /// Throws: std::out_of_range for another rank, or memory that is not attached there.
  [[nodiscard]] std::vector<registered_bytes> locate(int rank, std::size_t offset,
                                                     std::size_t bytes) const {
    if (rank < 0 || rank >= size_)
      throw std::out_of_range{"mpi_window::locate: rank " + std::to_string(rank) + " of " +
                              std::to_string(size_)};
    const rank_memory& theirs = memories_[static_cast<std::size_t>(rank)];
    try {
      // A sum beyond the last address would wrap around to one in front of the base.
      if (offset > std::numeric_limits<std::uint64_t>::max() - theirs.base)
        throw std::out_of_range{"the offset is beyond the last address"};
      return cut_by_chunk(theirs.chunks, theirs.base + offset, bytes);
    } catch (const std::out_of_range& error) {
      throw std::out_of_range{"mpi_window::locate: rank " + std::to_string(rank) + " had " +
                              std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                              " not attached at the last update(): " + error.what()};
    }
  }

 private:
  struct rank_memory {
    std::uint64_t base = 0;
    std::vector<registered_bytes> chunks;
  };

  static void require(int result, const char* call) {
    if (result == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(result, text.data(), &length);
    throw std::runtime_error{std::string{call} + ": " + text.data()};
  }

  /// Runs `action`, and returns if it has thrown on no rank of `ranks`. All ranks call it together.
  /// Throws: the exception of `action`; else rank_error of remote, with the first rank that failed.
  template <typename Action>
  static void attempt(MPI_Comm ranks, const char* what, Action action) {
    std::array<char, 400> reason{};
    std::exception_ptr caught;
    try {
      action();
    } catch (const std::exception& error) {
      caught = std::current_exception();
      std::strncpy(reason.data(), error.what(), reason.size() - 1);
    }
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(ranks, &rank);
    MPI_Comm_size(ranks, &size);
    const int mine = caught ? rank : size;
    int first = size;
    int code = MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, ranks);
    if (code == MPI_SUCCESS && first != size)
      code = MPI_Bcast(reason.data(), static_cast<int>(reason.size()), MPI_CHAR, first, ranks);
    if (caught) std::rethrow_exception(caught);
    require(code, "MPI_Allreduce or MPI_Bcast");
    if (first != size)
      throw rank_error{
          rank_failure::remote, first,
          "rank " + std::to_string(first) + " could not " + what + ": " + reason.data()};
  }

  void require_mpi(const char* what) const {
    if (const char* const end = lifetime_.end(); end != nullptr)
      throw std::logic_error{std::string{what} + ": " + end};
  }

  static void require_ready(device_ref device, mpi_device_windows takes) {
    int major = 0;
    int minor = 0;
    MPI_Get_version(&major, &minor);
    if (major < 3)
      throw unsupported{"mpi_window: this MPI has version " + std::to_string(major) + '.' +
                        std::to_string(minor) +
                        " of the standard, and dynamic windows came with 3.0: use a newer one"};
    int threads = 0;
    MPI_Query_thread(&threads);
    if (threads < MPI_THREAD_MULTIPLE)
      throw unsupported{"mpi_window: MPI was initialized for thread level " +
                        std::to_string(threads) +
                        ", and memory is detached in threads of hipvmm: ask MPI_Init_thread for "
                        "MPI_THREAD_MULTIPLE, " +
                        std::to_string(MPI_THREAD_MULTIPLE)};
    require_reach("mpi_window", device,
                  takes == mpi_device_windows::assumed || detail::mpi_takes_device_memory(),
                  "use an MPI that is built for the device, or, if it is but does not say so, "
                  "mpi_device_windows::assumed");
  }

  /// The most pieces that Open MPI attaches, if it reports that. After one refusal, version 4.1.4
  /// waits forever at the next call that looks for a piece; so no further one is requested.
  static std::size_t most_attached() {
    std::size_t result = std::numeric_limits<std::size_t>::max();
    int level = 0;
    int variable = 0;
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) return result;
    int count = 0;
    if (MPI_T_cvar_get_index("osc_rdma_max_attach", &variable) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(variable, nullptr, &handle, &count) == MPI_SUCCESS) {
      unsigned value = 0;
      if (count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS) result = value;
      MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
    return result;
  }

  void enter(const mapped_memory& memory) override {
    require_mpi("mpi_window: memory was to be attached");
    // known() counts `memory` already.
    if (known().size() > most_)
      throw std::runtime_error{"mpi_window: " + std::to_string(most_) +
                               " chunks are attached, and this MPI attaches no more: raise "
                               "osc_rdma_max_attach (OMPI_MCA_osc_rdma_max_attach in the "
                               "environment), or grow in larger steps, which need fewer chunks"};
    require(MPI_Win_attach(window_, memory.address, static_cast<MPI_Aint>(memory.bytes)),
            "MPI_Win_attach");
  }
  void leave(const mapped_memory& memory) override {
    if (lifetime_.end() != nullptr) return;
    require(MPI_Win_detach(window_, memory.address), "MPI_Win_detach");
  }

  detail::mpi_lifetime lifetime_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  int size_ = 0;
  std::size_t most_ = 0;
  std::vector<rank_memory> memories_;
};

}  // namespace hipvmm
