// SPDX-License-Identifier: MIT
#include "vmm/idle/pressure_watches.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "vmm/idle/memory_changes.hpp"

namespace hipvmm::detail {

void pressure_watches::add(const std::shared_ptr<pressure_watch>& added) {
  static const ::pid_t process = ::getpid();
  static const bool ends_at_exit = std::atexit([] {
                                     if (::getpid() != process) return;
                                     memory_changes = nullptr;
                                     only<pressure_watches>().thread_.stop();
                                   }) == 0;
  if (!ends_at_exit || !thread_.start())
    throw std::system_error{
        std::make_error_code(std::errc::resource_unavailable_try_again),
        "pressure_subscription: no thread could be started: raise the limit on threads, and "
        "subscribe before the process exits"};
  const std::lock_guard lock{mutex_};
  watches_.push_back(added);
  memory_changes = &receiver;
}

void pressure_watches::remove(const pressure_watch* removed) noexcept {
  std::shared_ptr<pressure_watch> last;  // may end after the unlock
  const std::lock_guard lock{mutex_};
  const auto found =
      std::ranges::find_if(watches_, [&](const auto& each) { return each.get() == removed; });
  if (found == watches_.end()) return;
  last = std::move(*found);
  watches_.erase(found);
  if (watches_.empty()) memory_changes = nullptr;
}

void pressure_watches::wake() noexcept {
  const std::lock_guard lock{mutex_};
  is_woken_ = true;
  changed_.notify_one();
}

pressure_watches::watch_list pressure_watches::all() {
  const std::lock_guard lock{mutex_};
  return watches_;
}

void pressure_watches::changed(int device, std::int64_t bytes) noexcept {
  if (only<pressure_watches>().process_.is_of_parent()) return;
  if (bytes != 0) only<memory_change_ring>().add_chunks(device, bytes);
  only<pressure_watches>().note(device, bytes);
}

void pressure_watches::explained(const memory_event& event) noexcept {
  if (only<pressure_watches>().process_.is_of_parent()) return;
  only<memory_change_ring>().add(event);
  if (event.kind == memory_event_kind::out_of_memory)
    only<pressure_watches>().note(event.device, 0);
}

void pressure_watches::note(int device, std::int64_t bytes) noexcept {
  std::optional<bool> is_first;
  if (!without_pressure_calls::is_set())
    is_first = call_without_locks([]() noexcept { only<pressure_watches>().look_without_locks(); });
  const std::lock_guard lock{mutex_};
  for (const auto& each : watches_) {
    if (each->device.ordinal() != device) continue;
    each->note_change(bytes);
    if (!is_first) each->is_for_thread = true;  // because locks may be held
  }
  if (is_first) return;
  is_woken_ = true;
  changed_.notify_one();
}

// Called at the end of a request, in its thread.
void pressure_watches::look_without_locks() noexcept {
  if (process_.is_of_parent()) return;
  bool is_left = false;
  report_exceptions([&] {
    for (const auto& each : all()) {
      if (!each->is_stale() && !each->has_notes()) continue;
      bool is_done = false;
      if (each->calls_in_request()) report_exceptions([&] { is_done = look_and_call(*each); });
      if (!is_done) is_left = each->is_for_thread = true;
    }
  });
  if (is_left) wake();
}

// Returns false if the library's thread must go on.
bool pressure_watches::look_and_call(pressure_watch& watch) {
  watch.look(false);
  if (!watch.has_notes()) return true;
  const relaxed_captures relaxed;
  const scoped_device scope{watch.device};
  if (is_captured(nullptr)) return false;
  return !watch.deliver();
}

void pressure_watches::serve(const std::stop_token& stop) noexcept {
  while (!stop.stop_requested()) {
    watch_list now;
    report_exceptions([&] { now = all(); });
    std::chrono::steady_clock::time_point next = std::chrono::steady_clock::time_point::max();
    for (const auto& each : now) {
      if (each->is_for_thread.exchange(false) || each->due() <= std::chrono::steady_clock::now()) {
        report_exceptions([&] { each->look(each->due() <= std::chrono::steady_clock::now()); });
        if (each->deliver()) each->is_for_thread = true;
      }
      next = each->is_for_thread ? std::chrono::steady_clock::now() : std::min(next, each->due());
    }
    now.clear();
    std::unique_lock lock{mutex_};
    const auto is_awake = [this] { return is_woken_; };
    if (next == std::chrono::steady_clock::time_point::max())
      changed_.wait(lock, stop, is_awake);
    else
      changed_.wait_until(lock, stop, next, is_awake);
    is_woken_ = false;
  }
}

}  // namespace hipvmm::detail
