// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>

#include <hipvmm/core/owner_process.hpp>
#include <hipvmm/runtime/device.hpp>

// Both handles convert without a vendor header.
struct ihipStream_t;
struct CUstream_st;

namespace hipvmm {

class event;

/// Names a stream without owning it. Converts from hipStream_t and cudaStream_t, but not from an
/// integer or nullptr: name the null stream by legacy_default().
class stream_ref {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): callers pass foreign streams as a stream_ref
  stream_ref(ihipStream_t* stream) noexcept : value_{stream} {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  stream_ref(CUstream_st* stream) noexcept : value_{stream} {}
  stream_ref(int) = delete;
  stream_ref(std::nullptr_t) = delete;

  /// The legacy null stream of the device that is current when the stream is used.
  [[nodiscard]] static stream_ref legacy_default() noexcept;
  /// The calling thread's default stream (HIP's hipStreamPerThread).
  [[nodiscard]] static stream_ref per_thread_default() noexcept;

  [[nodiscard]] ihipStream_t* get() const noexcept { return static_cast<ihipStream_t*>(value_); }

  /// True for null and hipStreamLegacy (1), however the program is compiled.
  [[nodiscard]] bool is_default() const noexcept;
  /// True for hipStreamPerThread, which is another stream in each thread.
  [[nodiscard]] bool is_per_thread_default() const noexcept;

  void synchronize() const;
  /// Reports failures to the error handler.
  void synchronize_no_throw() const noexcept;
  [[nodiscard]] bool is_done() const;
  /// Whether work submitted to the stream is captured, also while the capture is invalid. Unlike
  /// is_done(), it invalidates none. Throws: hip_error for the null stream while a blocking stream
  /// of its device is captured.
  [[nodiscard]] bool is_capturing() const;
  /// Later work waits for `event`; the caller does not. Defined in <hipvmm/runtime/event.hpp>.
  inline void wait(const event& event) const;

  friend bool operator==(stream_ref a, stream_ref b) noexcept { return a.value_ == b.value_; }
  friend bool operator!=(stream_ref a, stream_ref b) noexcept { return a.value_ != b.value_; }

 private:
  void* value_;
};

/// Whether a stream synchronizes with its device's null stream.
enum class stream_kind {
  non_blocking,  ///< independent of the null stream
  blocking,      ///< waits for the null stream and is waited for by it
};

/// Owns one HIP stream of one device. Movable.
/// - One thread at a time may move or destroy it; any number of threads may submit work.
/// - Destruction lets submitted work finish; on AMD it waits for that, as hipStreamDestroy does.
class stream {
 public:
  /// Uses the current device. Throws: out_of_memory, of 0 bytes, if HIP reports it; hip_error.
  explicit stream(stream_kind kind = stream_kind::non_blocking);
  explicit stream(device_ref device, stream_kind kind = stream_kind::non_blocking);
  ~stream();
  stream(stream&& other) noexcept
      : value_{std::exchange(other.value_, nullptr)},
        device_{other.device_},
        process_{other.process_} {}
  stream& operator=(stream&& other) noexcept;

  [[nodiscard]] ihipStream_t* get() const noexcept { return value_; }
  /// Releases ownership; the caller destroys the stream with hipStreamDestroy, and tells pools by
  /// mr::vmm_pool_resource::forget_stream.
  [[nodiscard]] ihipStream_t* release() noexcept;
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  [[nodiscard]] bool empty() const noexcept { return value_ == nullptr; }

  /// Throws: std::invalid_argument if empty, which would be the null stream.
  [[nodiscard]] stream_ref ref() const;
  // NOLINTNEXTLINE(google-explicit-constructor): callers pass an owner as a reference
  operator stream_ref() const { return ref(); }

  void synchronize() const { ref().synchronize(); }
  [[nodiscard]] bool is_done() const { return ref().is_done(); }
  inline void wait(const event& event) const;

 private:
  ihipStream_t* value_;
  device_ref device_;
  detail::owner_process process_;
};

}  // namespace hipvmm
