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

/// A limit on the bytes of the chunks, kept ones too, that this process creates on one device.
/// Imported and retained chunks, and memory of the host, are not counted.
class chunk_limit {
 public:
  virtual ~chunk_limit() = default;
  chunk_limit& operator=(chunk_limit&&) = delete;

  // Called with the lock of the device's count; they must not wait for others.
  /// Counts chunks created before the limit was set, whether or not they fit.
  virtual void begin(std::size_t bytes) noexcept = 0;
  /// Returns false, and counts nothing, if `bytes` do not fit.
  [[nodiscard]] virtual bool charge(std::size_t bytes) noexcept = 0;
  virtual void uncharge(std::size_t bytes) noexcept = 0;

  // Called without it.
  [[nodiscard]] virtual std::size_t bytes_left() const noexcept = 0;
  /// 0 if it is not known.
  [[nodiscard]] virtual std::size_t most() const noexcept { return 0; }
  /// The holders and their bytes, for the message of a refused request.
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

/// Thread-safe, as all below. Throws: std::invalid_argument if there is one; std::bad_alloc.
void set_chunk_limit(device_ref device, std::shared_ptr<chunk_limit> limit);
/// Ends it. It does not see chunks created or released from now on.
void end_chunk_limit(device_ref device) noexcept;
/// The greatest number without a limit.
[[nodiscard]] std::size_t chunk_bytes_left(device_ref device) noexcept;
/// 0 without a limit.
[[nodiscard]] std::size_t most_chunk_bytes(device_ref device) noexcept;
/// The bytes of all chunk_charge of `device`.
[[nodiscard]] std::size_t created_chunk_bytes(device_ref device) noexcept;

/// Counts the memory of one chunk within its device's limit. The owners of the chunk share it with
/// the addresses that pin the memory (chunk_pins): released memory counts until it returns.
class chunk_charge {
 public:
  /// Pre: the chunk is not created. Throws: out_of_memory (exhausted::budget) over the limit.
  chunk_charge(device_ref device, std::size_t bytes);
  ~chunk_charge();
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// HIP has made the chunk: its memory is the process's, until the object ends.
  void note_creation() noexcept;
  /// HIP keeps the memory for good: the limit counts it from now on without end. Thread-safe.
  void stay() noexcept { stays_ = true; }
  chunk_charge& operator=(chunk_charge&&) = delete;

  std::atomic<std::size_t> pins{0};  ///< reservations that hold the memory until they are freed

 private:
  device_ref device_;
  std::size_t bytes_;
  bool is_created_ = false;
  std::atomic<bool> stays_{false};
  owner_process process_;
};

/// If the limit of a device caused `shortage`, and this process has nothing left to release: others
/// make room for the request, or for `bytes` if they are more. Returns whether it may succeed now.
/// May wait for other processes: the caller holds no lock that their requests to this one need.
[[nodiscard]] bool make_room_within_limit(const out_of_memory& shortage,
                                          std::size_t bytes = 0) noexcept;

/// While one lives, make_room_within_limit() and ask_idle_holders() in its thread return false at
/// once: a chunk made ahead is not worth memory that others hold.
using without_asking_others = thread_mark<struct without_asking_others_kind>;

}  // namespace hipvmm::detail
