// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/owner_process.hpp"

namespace hipvmm::detail {

/// A limit on the bytes of chunks that this process creates on one device, kept ones too, without
/// imported, retained and host memory.
class chunk_limit {
 public:
  virtual ~chunk_limit() = default;
  chunk_limit& operator=(chunk_limit&&) = delete;

  // Called with the lock of the device's count: they must not wait.
  /// `bytes`: chunks created before.
  virtual void begin(std::size_t bytes) noexcept = 0;
  /// Returns false, and counts nothing, if `bytes` do not fit.
  [[nodiscard]] virtual bool charge(std::size_t bytes) noexcept = 0;
  virtual void uncharge(std::size_t bytes) noexcept = 0;

  // Called without the lock.
  [[nodiscard]] virtual std::size_t bytes_left() const noexcept = 0;
  /// 0: unknown.
  [[nodiscard]] virtual std::size_t most() const noexcept { return 0; }
  [[nodiscard]] virtual std::string explain() const = 0;
  [[nodiscard]] virtual shortage refusal(device_ref device, std::size_t bytes) const {
    return {.cause = exhausted::budget,
            .device = device.ordinal(),
            .requested = bytes,
            .available = bytes_left(),
            .context = explain()};
  }
  /// Has others make room for `bytes` bytes. Returns whether they fit now.
  [[nodiscard]] virtual bool make_room(std::size_t bytes) noexcept = 0;

 protected:
  chunk_limit() = default;
};

/// Thread-safe, as all below. Without a limit the bytes left are the greatest number, and the most
/// is 0. Throws: std::invalid_argument for a second limit; std::bad_alloc.
void set_chunk_limit(device_ref device, std::shared_ptr<chunk_limit> limit);
/// The limit does not see chunks created or released from now on.
void end_chunk_limit(device_ref device) noexcept;
[[nodiscard]] std::size_t chunk_bytes_left(device_ref device) noexcept;
[[nodiscard]] std::size_t most_chunk_bytes(device_ref device) noexcept;
[[nodiscard]] std::size_t created_chunk_bytes(device_ref device) noexcept;
/// Throws: out_of_memory, for `requested` bytes, if the device, or its limit, could never hold
/// chunks of `bytes`.
void require_possible_chunks(device_ref device, std::size_t bytes, std::size_t requested);

/// Counts one chunk's memory within its device's limit. The chunk's owners share it with the
/// addresses that pin the memory (chunk_pins).
class chunk_charge {
 public:
  /// Pre: the chunk is not created yet. Throws: out_of_memory (exhausted::budget) over the limit.
  chunk_charge(device_ref device, std::size_t bytes);
  ~chunk_charge();
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// HIP has made the chunk: its memory is the process's until the object ends.
  void note_creation() noexcept;
  /// HIP keeps the memory for good, and the limit counts it. Thread-safe.
  void stay() noexcept { stays_ = true; }
  chunk_charge& operator=(chunk_charge&&) = delete;

  std::atomic<std::size_t> pins{0};  ///< reservations that pin the memory

 private:
  device_ref device_;
  std::size_t bytes_;
  bool is_created_ = false;
  std::atomic<bool> stays_{false};
  owner_process process_;
};

/// If a device's limit caused `shortage`, and this process has nothing left to release: others make
/// room for the request, or for `bytes` if they are more. Returns whether it may succeed now. May
/// wait for other processes: the caller holds no lock that their requests to this one need.
[[nodiscard]] bool make_room_within_limit(const out_of_memory& shortage,
                                          std::size_t bytes = 0) noexcept;

/// While one lives, make_room_within_limit() and ask_idle_holders() of its thread return false: a
/// chunk made ahead is not worth memory that others hold.
using without_asking_others = thread_mark<struct without_asking_others_kind>;

}  // namespace hipvmm::detail
