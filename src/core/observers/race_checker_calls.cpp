// SPDX-License-Identifier: MIT
#include "core/observers/race_checker_calls.hpp"

#include "core/observers/observers.hpp"

// Of the host provider (hipvmm/provider/host_control.h). Weak: other providers lack them.
extern "C" {
[[gnu::weak]] int hipvmm_host_checks_order();
[[gnu::weak]] int hipvmm_host_note_allocate(void* pointer, std::size_t bytes, void* stream);
[[gnu::weak]] int hipvmm_host_note_deallocate(void* pointer, std::size_t bytes, void* stream);
[[gnu::weak]] int hipvmm_host_note_allocate_sync(void* pointer, std::size_t bytes);
[[gnu::weak]] int hipvmm_host_note_deallocate_sync(void* pointer, std::size_t bytes);
[[gnu::weak]] int hipvmm_host_note_return(void* pointer, std::size_t bytes);
[[gnu::weak]] int hipvmm_host_note_use(const void* pointer, std::size_t bytes, void* stream,
                                       int writes);
[[gnu::weak]] void hipvmm_host_suspend_order_check();
[[gnu::weak]] void hipvmm_host_resume_order_check();
}

namespace hipvmm::detail {

bool is_order_checked() noexcept {
  // A provider that has one of these functions has them all.
  static const bool checked = [] {
    const bool is_on = hipvmm_host_checks_order != nullptr && hipvmm_host_checks_order() != 0;
    if (is_on) add_observer(observer::order_checker);
    return is_on;
  }();
  return checked;
}

order_check_pause::order_check_pause() noexcept {
  if (is_order_checked()) hipvmm_host_suspend_order_check();
}

order_check_pause::~order_check_pause() {
  if (is_order_checked()) hipvmm_host_resume_order_check();
}

void note_allocation(void* pointer, std::size_t bytes, ihipStream_t* stream) noexcept {
  if (!is_order_checked()) return;
  // The checker refuses a destroyed stream.
  if (hipvmm_host_note_allocate(pointer, bytes, stream) != 0) note_allocation(pointer, bytes);
}

void note_deallocation(void* pointer, std::size_t bytes, ihipStream_t* stream) noexcept {
  if (!is_order_checked()) return;
  if (hipvmm_host_note_deallocate(pointer, bytes, stream) != 0) note_deallocation(pointer, bytes);
}

void note_allocation(void* pointer, std::size_t bytes) noexcept {
  if (is_order_checked()) static_cast<void>(hipvmm_host_note_allocate_sync(pointer, bytes));
}

void note_deallocation(void* pointer, std::size_t bytes) noexcept {
  if (is_order_checked()) static_cast<void>(hipvmm_host_note_deallocate_sync(pointer, bytes));
}

void note_refused_deallocation(void* pointer, std::size_t bytes) noexcept {
  const order_check_pause unjudged;
  note_allocation(pointer, bytes);
}

void note_return(void* pointer, std::size_t bytes) noexcept {
  if (is_order_checked()) static_cast<void>(hipvmm_host_note_return(pointer, bytes));
}

int note_work(ihipStream_t* stream, const void* pointer, std::size_t bytes, bool writes) noexcept {
  if (!is_order_checked()) return 0;
  return hipvmm_host_note_use(pointer, bytes, stream, writes ? 1 : 0);
}

}  // namespace hipvmm::detail
