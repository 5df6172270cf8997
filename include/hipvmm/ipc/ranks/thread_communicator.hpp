// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/ipc/ranks/communicator.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

namespace detail {
class thread_group;
}  // namespace detail

/// Ranks that are threads of this process. A thread_communicator of them may outlive this.
class thread_ranks {
 public:
  /// Throws: std::invalid_argument unless size > 0 and options.limit > 0.
  explicit thread_ranks(int size, const communicator_options& options = {});
  ~thread_ranks();  ///< from then on, ranks without a thread_communicator count as lost
  thread_ranks& operator=(thread_ranks&&) = delete;

  [[nodiscard]] int size() const noexcept;

 private:
  friend class thread_communicator;

  std::shared_ptr<detail::thread_group> group_;
};

/// One rank of thread_ranks: device memory travels by copies in the receivers' streams, which wait
/// for the senders'. transfer() does not wait for `stream`.
/// - Ranks may share a device.
/// - Between chunks of two devices, if the sender's engine makes the copy (ROCm 6), the receiver
///   must grant the sender's device access to its memory.
/// - When a communicator ends, as by an exception in its thread, its rank is lost: later calls of
///   the other ranks throw rank_error at once.
class thread_communicator final : public communicator {
 public:
  /// Throws: std::invalid_argument for a rank that does not exist or was made before. After any
  /// other failure (no such device; as event; std::bad_alloc) the rank is lost.
  thread_communicator(thread_ranks& ranks, int rank, device_ref device);
  ~thread_communicator() override;

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override;
  [[nodiscard]] device_ref device() const noexcept override { return device_; }
  [[nodiscard]] std::string describe() const override;

  void all_gather(const void* mine, void* all, std::size_t bytes) override;
  void all_to_all(const void* mine, void* theirs, std::size_t bytes) override;
  void transfer(const std::vector<outgoing>& out, const std::vector<incoming>& in,
                stream_ref stream) override;

 private:
  std::shared_ptr<detail::thread_group> group_;
  int rank_;
  device_ref device_;
};

}  // namespace hipvmm
