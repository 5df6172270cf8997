// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "memory/address_map.hpp"
#include "race/race_memory.hpp"
#include "race/race_reports.hpp"
#include "race/race_streams.hpp"
#include "race/race_values.hpp"
#include "stream/operation.hpp"
#include "stream/stream_observer.hpp"
#include "stream/stream_queue.hpp"

namespace hipvmm::host_provider {

/// Finds memory used without order between streams, and between streams and the host. The submitted
/// work decides, never the order in which it happened to run. Thread-safe. The functions end the
/// program when there is no memory for their records, because a checker that forgets would miss
/// faults in silence.
class race_checker final : public stream_observer {
 public:
  explicit race_checker(const address_map& memory) noexcept : addresses_{memory} {}

  /// The calling thread runs this HIP function, which reports name.
  static void enter(const char* function) noexcept;
  /// While suspended, the calling thread's uses of memory are neither judged nor recorded; nests.
  static void suspend() noexcept;
  static void resume() noexcept;

  void name(const stream_queue& stream, std::uint64_t handle) noexcept;
  void retire(const stream_queue& stream) noexcept override;
  void overlook(const stream_queue& stream) noexcept override;

  [[nodiscard]] point place(const stream_queue& stream) noexcept override;
  [[nodiscard]] point end_of(const stream_queue& stream) noexcept override;
  [[nodiscard]] point end_of_device(int device) noexcept override;
  void learn(const race_clock& finished) noexcept override;
  void follow(const stream_queue& stream, const race_clock& finished) noexcept override;

  /// Just submitted: a wait for a number in memory, or a write of one. Later work of waiting
  /// streams comes after a write that meets their condition.
  void await_value(const stream_queue& stream, const value_wait_request& wait) noexcept;
  void write_value(const stream_queue& stream, const value_write_request& write) noexcept;

  /// Judges and records work that is about to be submitted, and returns its number in the stream.
  std::uint64_t submit(const stream_queue& stream, operation& work) noexcept;
  void withdraw(const stream_queue& stream, std::uint64_t count) noexcept;

  /// A pool lends a block at this point of the stream, or takes it back. `lender` is any address of
  /// the pool's own.
  void lend(const void* lender, address start, std::size_t bytes,
            const stream_queue& stream) noexcept;
  /// Without a stream the host takes it back, after a wait for its users.
  void take_back(address start, std::size_t bytes, const stream_queue* stream) noexcept;
  /// By a sub-allocator. False when it has not allocated exactly these bytes.
  void note_allocate(address start, std::size_t bytes, const stream_queue& stream) noexcept;
  bool note_deallocate(address start, std::size_t bytes, const stream_queue& stream) noexcept;
  /// The sub-allocator itself orders all work on the bytes.
  void note_allocate(address start, std::size_t bytes) noexcept;
  bool note_deallocate(address start, std::size_t bytes) noexcept;
  void note_return(address start, std::size_t bytes) noexcept;
  /// Work that only the program knows, such as a kernel.
  void note_use(address start, std::size_t bytes, memory_use how,
                const stream_queue& stream) noexcept;

  /// Addresses end whose memory ended before.
  void forget(address start, std::size_t bytes) noexcept;
  /// Memory ends, or devices lose rights to it, without a further wait of the provider.
  void end(address start, std::size_t bytes) noexcept;
  void revoke(address start, std::size_t bytes, const access_change& change) noexcept;
  void revoke(const void* lender, const access_change& change) noexcept;

  [[nodiscard]] std::uint64_t reports() const noexcept;
  [[nodiscard]] std::string last_report() const;
  void clear_reports() noexcept;

 private:
  using guard = std::lock_guard<std::mutex>;

  [[nodiscard]] std::shared_ptr<const race_origin> origin_on(const stream_queue& stream);
  [[nodiscard]] race_deed next_deed(const stream_queue& stream);
  [[nodiscard]] static std::shared_ptr<const race_origin> host_origin();
  [[nodiscard]] static race_party host_that_takes_away();
  void use(const race_deed& deed, race_range bytes, memory_use how, int device,
           const stream_queue& stream);
  [[nodiscard]] std::string place_of(address at) const;
  void report(race_memory::findings found);

  const address_map& addresses_;
  mutable std::mutex mutex_;
  race_streams streams_;
  race_memory memory_;
  race_values values_;
  race_reports reports_;
};

/// Work on its way into a stream. If it is not accepted in the end, it counts as never submitted.
class race_submission {
 public:
  race_submission(race_checker* checker, const stream_queue& stream, operation& work) noexcept
      : checker_{checker}, stream_{stream} {
    if (checker_ != nullptr) count_ = checker_->submit(stream, work);
  }
  race_submission& operator=(race_submission&&) = delete;
  ~race_submission() {
    if (checker_ != nullptr && !is_accepted_) checker_->withdraw(stream_, count_);
  }

  void accept() noexcept { is_accepted_ = true; }

 private:
  race_checker* const checker_;
  const stream_queue& stream_;
  std::uint64_t count_ = 0;
  bool is_accepted_ = false;
};

}  // namespace hipvmm::host_provider
