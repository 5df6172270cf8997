// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/owner_process.hpp"

namespace hipvmm::detail {

/// While one lives, its thread holds a lock: retry_refused_ends() and reclaim_retired() return
/// false.
using without_reclaim = thread_mark<struct without_reclaim_kind>;

/// - stop: ends that wait for no device, up to the first refusal: a call of the program makes at
///   most one failing call of HIP;
/// - pass: all of these, for requests that lack memory;
/// - wait: ends that may wait for a device.
enum class refusals { stop, pass, wait };

/// An end that HIP refused, kept with all that it holds. It is tried again when memory or addresses
/// are needed, or others were freed. Thread-safe.
class refused_end : public boost::intrusive::list_base_hook<> {
 public:
  /// `waits`: its end may wait for a device. Such an end maps nothing.
  explicit refused_end(bool waits = false) noexcept : waits_{waits} {}
  virtual ~refused_end() = default;
  refused_end& operator=(refused_end&&) = delete;

  /// Keeps `one` for retry_refused_ends(). Allocates nothing.
  static void keep(std::unique_ptr<refused_end> one) noexcept;
  /// Also tries the others again if `one` has ended.
  static void end_or_keep(std::unique_ptr<refused_end> one) noexcept;
  /// Whether a kept one maps something in [address, address + bytes).
  [[nodiscard]] static bool any_maps(const void* address, std::size_t bytes) noexcept;

 protected:
  [[nodiscard]] bool may_wait() const noexcept { return waits_; }

 private:
  friend bool retry_refused_ends(refusals met) noexcept;

  /// Returns whether nothing is left to end. `reports`: refusals go to the error handler.
  virtual bool end(bool reports) noexcept = 0;
  [[nodiscard]] virtual bool maps(const void* /*address*/, std::size_t /*bytes*/) const noexcept {
    return false;
  }

  const bool waits_;
  owner_process mark_;
};

/// Tries the ends again, the first refused first, without reports. Returns whether something ended;
/// false while another thread tries.
bool retry_refused_ends(refusals met) noexcept;

/// Also true if HIP does not know the resource.
[[nodiscard]] bool is_released(hipError_t result) noexcept;

/// A call that releases a resource: `Release` is hipError_t() noexcept and holds what it needs.
template <typename Release>
class refused_release final : public refused_end {
 public:
  refused_release(Release release, bool waits) noexcept
      : refused_end{waits}, release_{std::move(release)} {}

 private:
  bool end(bool /*reports*/) noexcept override {
    try {
      std::optional<relaxed_captures> relaxed;  // a request may run beside a capture
      if (may_wait()) relaxed.emplace();
      const hipError_t result = release_();
      if (result != hipSuccess) clear_last_error();
      return is_released(result);
    } catch (const std::exception&) {
      return false;
    }
  }

  Release release_;
};

/// Reports and keeps a refusal. Returns false if the host has no memory to keep the resource.
template <typename Release>
bool release_or_keep(Release release, const char* call, bool waits) noexcept {
  const hipError_t result = release();
  report(result, call);
  if (is_released(result)) return true;
  std::unique_ptr<refused_end> kept{new (std::nothrow)
                                        refused_release<Release>{std::move(release), waits}};
  if (!kept) return false;
  refused_end::keep(std::move(kept));
  return true;
}

}  // namespace hipvmm::detail
