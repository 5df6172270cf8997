// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "core/background_thread.hpp"
#include "core/observers/memory_events.hpp"
#include "core/owner_process.hpp"
#include "vmm/idle/pressure_watch.hpp"

namespace hipvmm::detail {

class pressure_watches {
 public:
  void require_own() const { process_.require_own(); }
  /// Throws: std::system_error without a thread; std::bad_alloc.
  void add(const std::shared_ptr<pressure_watch>& added);
  void remove(const pressure_watch* removed) noexcept;
  void wake() noexcept;

 private:
  using watch_list = std::vector<std::shared_ptr<pressure_watch>>;

  static void changed(int device, std::int64_t bytes) noexcept;
  static void explained(const memory_event& event) noexcept;
  static constexpr memory_change_receiver receiver{&changed, &explained};

  void note(int device, std::int64_t bytes) noexcept;
  void look_without_locks() noexcept;
  [[nodiscard]] static bool look_and_call(pressure_watch& watch);
  [[nodiscard]] watch_list all();
  void serve(const std::stop_token& stop) noexcept;

  const owner_process process_;
  std::mutex mutex_;  // of these three; a watch's lock may be taken under it
  watch_list watches_;
  bool is_woken_ = false;
  std::condition_variable_any changed_;
  background_thread thread_{[this](const std::stop_token& stop) { serve(stop); }};
};

}  // namespace hipvmm::detail
