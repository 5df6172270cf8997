// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

struct ihipStream_t;

// Reports to the host provider's order checker (HIPVMM_HOST_CHECK=1), if it is on. None throws.
namespace hipvmm::detail {

/// Constant in a process.
[[nodiscard]] bool is_order_checked() noexcept;

/// While one lives, notes of the calling thread are not judged, and its work is not remembered.
class order_check_pause {
 public:
  order_check_pause() noexcept;
  ~order_check_pause();
  order_check_pause& operator=(order_check_pause&&) = delete;
};

/// A resource allocates or frees part of its memory for work of `stream` after this point. Default
/// streams are those of the current device. Pre of note_deallocation: exactly these bytes were
/// noted as allocated.
void note_allocation(void* pointer, std::size_t bytes, ihipStream_t* stream) noexcept;
void note_deallocation(void* pointer, std::size_t bytes, ihipStream_t* stream) noexcept;
/// The same without a stream: the resource orders all work on the bytes itself.
void note_allocation(void* pointer, std::size_t bytes) noexcept;
void note_deallocation(void* pointer, std::size_t bytes) noexcept;
/// Reverses note_deallocation of memory that stays allocated after all. Nothing is judged.
void note_refused_deallocation(void* pointer, std::size_t bytes) noexcept;
/// A resource returns memory to its upstream: its notes there are forgotten.
void note_return(void* pointer, std::size_t bytes) noexcept;
/// Work submitted to `stream` at this point reads or writes memory. Returns a hipError_t.
[[nodiscard]] int note_work(ihipStream_t* stream, const void* pointer, std::size_t bytes,
                            bool writes) noexcept;

}  // namespace hipvmm::detail
