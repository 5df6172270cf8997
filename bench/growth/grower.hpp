// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>

// No header of HIP or of the library: nvcc and hipcc compile files that include this, too.
namespace bench {

/// Memory of one device that grows by one method, from nothing. Destroying it gives everything
/// back; that is never in the times, and neither is making it.
class grower {
 public:
  grower() = default;
  virtual ~grower() = default;
  grower(const grower&) = delete;
  grower& operator=(const grower&) = delete;

  /// Holds `bytes` usable bytes when it returns, earlier ones included.
  virtual void grow(std::size_t bytes) = 0;
  [[nodiscard]] virtual void* data() = 0;
};

/// Called by methods that hold old and new memory at once, at the moment when they hold both.
using peak_hook = std::function<void()>;

}  // namespace bench
