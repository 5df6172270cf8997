// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/logger.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/runtime/stream_pool.hpp>

namespace hipvmm::hipmm {

class cuda_device_id : public device_ref {
 public:
  using value_type = int;

  cuda_device_id() : device_ref{device_ref::current()} {}
  explicit constexpr cuda_device_id(value_type id) noexcept : device_ref{id} {}
  // NOLINTNEXTLINE(google-explicit-constructor): converts to hipMM's parameters
  constexpr cuda_device_id(device_ref device) noexcept : device_ref{device} {}

  [[nodiscard]] constexpr value_type value() const noexcept { return ordinal(); }
};

[[nodiscard]] inline cuda_device_id get_current_cuda_device() { return {}; }
[[nodiscard]] inline int get_num_cuda_devices() { return device_count(); }
using cuda_set_device_raii = scoped_device;
using hipvmm::available_device_memory;
using hipvmm::percent_of_free_device_memory;

class cuda_stream_view : public stream_ref {
 public:
  using stream_ref::stream_ref;
  cuda_stream_view() noexcept : stream_ref{stream_ref::legacy_default()} {}
  // NOLINTNEXTLINE(google-explicit-constructor): converts to hipMM's parameters
  cuda_stream_view(stream_ref stream) noexcept : stream_ref{stream} {}

  [[nodiscard]] ihipStream_t* value() const noexcept { return get(); }
  // NOLINTNEXTLINE(google-explicit-constructor): converts to HIP's parameters
  operator ihipStream_t*() const noexcept { return get(); }
};

inline const cuda_stream_view cuda_stream_default{};
inline const cuda_stream_view cuda_stream_legacy{};
inline const cuda_stream_view cuda_stream_per_thread{stream_ref::per_thread_default()};

/// A stream; as in hipMM, it waits for the null stream unless constructed otherwise.
class cuda_stream {
 public:
  enum class flags { sync_default, non_blocking };

  explicit cuda_stream(flags chosen = flags::sync_default) : stream_{kind(chosen)} {}

  [[nodiscard]] static constexpr stream_kind kind(flags chosen) noexcept {
    return chosen == flags::sync_default ? stream_kind::blocking : stream_kind::non_blocking;
  }
  [[nodiscard]] bool is_valid() const noexcept { return !stream_.empty(); }
  [[nodiscard]] ihipStream_t* value() const noexcept { return stream_.get(); }
  explicit operator ihipStream_t*() const noexcept { return value(); }
  /// Throws: std::invalid_argument when moved from.
  [[nodiscard]] cuda_stream_view view() const { return stream_.ref(); }
  // NOLINTNEXTLINE(google-explicit-constructor): converts to parameters that are views
  operator cuda_stream_view() const { return view(); }
  friend bool operator==(const cuda_stream& a, const cuda_stream& b) noexcept {
    return a.value() == b.value();
  }
  friend bool operator!=(const cuda_stream& a, const cuda_stream& b) noexcept { return !(a == b); }
  void synchronize() const { stream_.synchronize(); }
  void synchronize_no_throw() const noexcept {
    if (is_valid()) stream_ref{value()}.synchronize_no_throw();
  }

 private:
  stream stream_;
};

class cuda_stream_pool {
 public:
  static constexpr std::size_t default_size = stream_pool::default_size;

  explicit cuda_stream_pool(std::size_t pool_size = default_size,
                            cuda_stream::flags flags = cuda_stream::flags::sync_default)
      : pool_{pool_size, cuda_stream::kind(flags)} {}

  [[nodiscard]] cuda_stream_view get_stream() const { return pool_.get_stream(); }
  [[nodiscard]] cuda_stream_view get_stream(std::size_t id) const { return pool_.get_stream(id); }
  [[nodiscard]] std::size_t get_pool_size() const noexcept { return pool_.size(); }

 private:
  stream_pool pool_;
};

using level_enum = log_level;
using hipvmm::default_logger;
using hipvmm::logger;

inline constexpr std::size_t CUDA_ALLOCATION_ALIGNMENT = 256;
inline constexpr std::size_t RMM_DEFAULT_HOST_ALIGNMENT = alignof(std::max_align_t);

[[nodiscard]] constexpr bool is_pow2(std::size_t value) noexcept { return is_power_of_two(value); }
[[nodiscard]] constexpr bool is_supported_alignment(std::size_t alignment) noexcept {
  return is_pow2(alignment);
}
using hipvmm::align_down;
/// Wraps around past the largest value. Pre: `alignment` is a power of two.
[[nodiscard]] constexpr std::size_t align_up(std::size_t value, std::size_t alignment) noexcept {
  return align_down(value + alignment - 1, alignment);
}
[[nodiscard]] constexpr bool is_aligned(std::size_t value, std::size_t alignment) noexcept {
  return value == align_down(value, alignment);
}
[[nodiscard]] inline bool is_pointer_aligned(
    const void* pointer, std::size_t alignment = CUDA_ALLOCATION_ALIGNMENT) noexcept {
  return is_aligned(reinterpret_cast<std::uintptr_t>(pointer), alignment);
}

}  // namespace hipvmm::hipmm
