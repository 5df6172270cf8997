// SPDX-License-Identifier: MIT
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <memory>

#include "core/process_mark.hpp"

namespace hipvmm::detail {

/// While an object lives, its thread releases nothing for a request that lacks memory, because the
/// caller holds a lock: retry_refused_ends() and reclaim_retired() return false at once.
using without_reclaim = thread_mark<struct without_reclaim_kind>;

/// After a refusal: `pass` tries the rest, for requests that lack memory; `stop` leaves it to the
/// next time, so that a call of the program makes one failing call of HIP at most.
enum class refusals { pass, stop };

/// Something whose end HIP refused. It is kept with all that it holds, and its end is tried again
/// when memory or addresses are needed, or others were freed. Thread-safe.
class refused_end : public boost::intrusive::list_base_hook<> {
 public:
  refused_end() = default;
  virtual ~refused_end() = default;
  refused_end(const refused_end&) = delete;
  refused_end& operator=(const refused_end&) = delete;

  /// Keeps `one` for retry_refused_ends(). Allocates nothing.
  static void keep(std::unique_ptr<refused_end> one) noexcept;
  /// Ends `one`, or keeps it. If it ended, the others are tried again.
  static void end_or_keep(std::unique_ptr<refused_end> one) noexcept;
  /// Returns whether one that is kept maps something in [address, address + bytes).
  [[nodiscard]] static bool any_maps(const void* address, std::size_t bytes) noexcept;

 private:
  friend bool retry_refused_ends(refusals met) noexcept;

  /// Returns whether nothing is left to end. `reports`: refusals go to the error handler.
  virtual bool end(bool reports) noexcept = 0;
  [[nodiscard]] virtual bool maps(const void* /*address*/, std::size_t /*bytes*/) const noexcept {
    return false;
  }

  process_mark mark_;
};

/// Tries again to end what HIP refused to end, the first refused first. Refusals were reported, and
/// are not again. Returns whether something ended; false while another thread tries.
bool retry_refused_ends(refusals met) noexcept;

}  // namespace hipvmm::detail
