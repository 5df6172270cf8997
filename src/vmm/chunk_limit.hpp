// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// A limit on the bytes of the chunks that this process creates on one device. Chunks that were
/// imported or retained are not counted, and neither is memory of the host. Kept chunks are.
class chunk_limit {
 public:
  virtual ~chunk_limit() = default;
  chunk_limit(const chunk_limit&) = delete;
  chunk_limit& operator=(const chunk_limit&) = delete;

  // With the lock of the device's count; they must not wait for others.
  /// Counts what was created before the limit was set, whether or not it fits.
  virtual void begin(std::size_t bytes) noexcept = 0;
  /// Counts `bytes` more, unless they do not fit: then returns false.
  [[nodiscard]] virtual bool charge(std::size_t bytes) noexcept = 0;
  virtual void uncharge(std::size_t bytes) noexcept = 0;

  // Without it.
  /// Bytes that would fit.
  [[nodiscard]] virtual std::size_t bytes_left() const noexcept = 0;
  /// Who holds what, for the message of a request that was refused.
  [[nodiscard]] virtual std::string explain() const = 0;
  /// Has others make room for `bytes` bytes. Returns whether they fit now.
  [[nodiscard]] virtual bool make_room(std::size_t bytes) noexcept = 0;

 protected:
  chunk_limit() = default;
};

/// Sets the limit of a device. Thread-safe, like all of these functions.
/// Throws: std::invalid_argument where it has one; std::bad_alloc.
void set_chunk_limit(device_ref device, std::shared_ptr<chunk_limit> limit);
/// Ends it. What is created or released from now on it does not see.
void end_chunk_limit(device_ref device) noexcept;
/// Bytes of the chunks that this process has created on `device` and not released.
[[nodiscard]] std::size_t created_chunk_bytes(device_ref device) noexcept;

/// Counts a chunk before it is created.
/// Throws: out_of_memory with exhausted::limit where the device's limit refuses it.
void charge_chunk(device_ref device, std::size_t bytes);
/// Counts it no longer.
void uncharge_chunk(device_ref device, std::size_t bytes) noexcept;

/// After `shortage` and when this process has nothing left to release: has others make room, where
/// it was the limit of a device that refused. Returns whether the request may succeed now. May wait
/// for other processes, so that no lock may be held that their requests to this one need.
[[nodiscard]] bool make_room_within_limit(const out_of_memory& shortage) noexcept;

/// While an object lives, make_room_within_limit() in its thread returns false at once: what the
/// thread makes ahead is not worth what others hold.
class without_asking_others {
 public:
  without_asking_others() noexcept;
  ~without_asking_others();
  without_asking_others(const without_asking_others&) = delete;
  without_asking_others& operator=(const without_asking_others&) = delete;

 private:
  bool before_;
};

}  // namespace hipvmm::detail
