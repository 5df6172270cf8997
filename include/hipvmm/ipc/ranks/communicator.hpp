// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

namespace detail {
class rank_agreement;
}  // namespace detail

struct outgoing {
  int rank;
  const void* data;
  std::size_t bytes;
};

struct incoming {
  int rank;
  void* data;
  std::size_t bytes;
};

struct communicator_options {
  /// Longest wait for other ranks, more than zero; beyond it a call throws rank_error of timeout.
  std::chrono::milliseconds limit = std::chrono::minutes{5};
};

/// Ranks that exchange device memory: a group of MPI (compat/mpi.hpp), of NCCL or RCCL
/// (compat/nccl.hpp), or threads of one process (thread_communicator). all_gather(), all_to_all()
/// and transfer() are collective: every rank calls the same ones in the same order, each from one
/// thread at a time.
/// All of them throw rank_error and hip_error. Memory being received is unspecified then.
class communicator {
 public:
  communicator& operator=(communicator&&) = delete;
  virtual ~communicator() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  [[nodiscard]] virtual device_ref device() const noexcept = 0;  ///< of sent and received memory
  /// The library, its version, and how device memory travels, in one line for people.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// Host memory: `bytes` bytes of every rank, in the order of ranks, to every rank. Returns when
  /// `all` is filled: bytes * size() of them.
  virtual void all_gather(const void* mine, void* all, std::size_t bytes) = 0;
  /// Host memory: piece r of `mine` to rank r; piece r of `theirs` is from rank r. Each piece has
  /// `bytes` bytes. Returns when `theirs` is filled.
  virtual void all_to_all(const void* mine, void* theirs, std::size_t bytes) = 0;
  /// Transfers device memory in the order of `stream`, all pieces at once. After its return
  /// `stream` is ordered behind them, and may change the sources.
  /// - At most one piece for each pair of ranks and direction; the receiver expects as many bytes
  ///   as the sender sends, or no piece. A piece for the own rank is a copy.
  /// - Throws also: std::invalid_argument for an unknown rank, two pieces for a rank in one
  ///   direction, nullptr with bytes, or own pieces of different sizes. Other ranks: rank_error.
  /// - describe() says whether it waits for `stream`.
  /// - If it throws on one rank, it, or the next call, throws on all others. No transfer uses the
  ///   memory any longer then.
  /// Pre: `stream` is of device() and is not captured. A default stream is that of device().
  virtual void transfer(const std::vector<outgoing>& out, const std::vector<incoming>& in,
                        stream_ref stream) = 0;

 protected:
  /// Allocates the host memory in which ranks agree. Call it in the constructor, when size() is
  /// known: if a later call could not allocate, the other ranks would wait up to the limit.
  /// Throws: std::bad_alloc.
  void reserve_agreement() {
    agreement_.resize(static_cast<std::size_t>(size()) * agreement_bytes);
  }
  static constexpr std::size_t agreement_bytes = 640;

 private:
  friend class detail::rank_agreement;
  std::vector<std::byte> agreement_;
};

}  // namespace hipvmm
