// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "memory/address.hpp"

namespace hipvmm::host_provider {

/// Possible places of a page: devices by number, and the host as hipCpuDeviceId.
struct place_set {
  device_set devices = 0;
  bool host = false;

  [[nodiscard]] static place_set just(int place) noexcept {
    place_set one;
    one.insert(place);
    return one;
  }
  [[nodiscard]] bool contains(int place) const noexcept;
  void insert(int place) noexcept;
  void erase(int place) noexcept;
  bool operator==(const place_set&) const = default;
};

struct page_state {
  bool read_mostly = false;
  bool coarse_grained = false;
  int preferred = hipInvalidDeviceId;
  int last_prefetch = hipInvalidDeviceId;
  place_set accessed_by;
  place_set residence{0, true};  // several only while it is read mostly; never none

  /// Brings the page, or a copy of one that is read mostly, to `place`.
  void move_to(int place) noexcept;
  /// Keeps one copy: that at the preferred location, of the host, or of the first device.
  void drop_copies() noexcept;
  /// Records a use by `device`, which can map pages of the host and of the devices in `reach`.
  void touch(int device, device_set reach, right used) noexcept;

  bool operator==(const page_state&) const = default;
};

/// The pages of one allocation as runs of equal state. Ranges are rounded outwards to whole pages.
/// Thread-safe; callbacks run under its lock and must not throw.
class managed_pages {
 public:
  static constexpr std::size_t page_bytes = 4096;

  managed_pages(address start, std::size_t bytes);

  void change(address start, std::size_t bytes, const std::function<void(page_state&)>& how);
  void visit(address start, std::size_t bytes,
             const std::function<void(const page_state&)>& look) const;

 private:
  using run_map = std::map<address, page_state>;

  run_map::iterator split(address at);
  void merge(run_map::iterator first, address end);

  const address end_;
  mutable std::mutex mutex_;
  run_map runs_;  // by first byte; each lasts until the next
};

struct prefetch_request {
  std::shared_ptr<managed_pages> pages;
  address start;
  std::size_t bytes;
  int place;
};
hipError_t perform(const prefetch_request& work) noexcept;

}  // namespace hipvmm::host_provider
