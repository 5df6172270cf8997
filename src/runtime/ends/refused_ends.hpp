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

/// While one lives, its thread holds a lock: retry_refused_ends(), reclaim_retired() return false.
using without_reclaim = thread_mark<struct without_reclaim_kind>;

/// The ends that are tried again:
/// - stop: those that wait for no device, up to the first refusal, so that a call of the program
///   makes at most one failing call of HIP;
/// - pass: all of these, for requests that lack memory;
/// - wait: those that may wait for a device.
enum class refusals { stop, pass, wait };

/// Something whose end HIP refused, kept with all that it holds. Its end is tried again when memory
/// or addresses are needed, or others were freed. Thread-safe.
class refused_end : public boost::intrusive::list_base_hook<> {
 public:
  /// `waits`: its end may wait for a device. Such an end maps nothing.
  explicit refused_end(bool waits = false) noexcept : waits_{waits} {}
  virtual ~refused_end() = default;
  refused_end& operator=(refused_end&&) = delete;

  /// Keeps `one` for retry_refused_ends(). Allocates nothing.
  static void keep(std::unique_ptr<refused_end> one) noexcept;
  /// Ends `one`, or keeps it. If it ended, the others are tried again.
  static void end_or_keep(std::unique_ptr<refused_end> one) noexcept;
  /// Returns whether one that is kept maps something in [address, address + bytes).
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

/// Tries the ends again, the first refused first. Refusals were reported, and are not again.
/// Returns whether something ended; false while another thread tries.
bool retry_refused_ends(refusals met) noexcept;

/// Whether a call that releases a resource succeeded, or HIP does not know the resource.
[[nodiscard]] bool is_released(hipError_t result) noexcept;

/// A call that releases a resource: `Release` is hipError_t() noexcept, and has what must be kept.
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

/// Calls `release`, which is HIP's `call`; reports and keeps its refusal. Returns false if the
/// resource is lost, because the host has no memory to keep it.
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
