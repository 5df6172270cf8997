// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipvmm::host_provider {

class chunk;

/// Addresses of this process that no device uses.
class window {
 public:
  [[nodiscard]] std::uintptr_t start() const noexcept { return start_; }

 protected:
  window(std::size_t bytes, int flags, int file, std::int64_t offset);
  ~window();
  window(const window&) = delete;
  window& operator=(const window&) = delete;

 private:
  std::uintptr_t start_;
  std::size_t bytes_;
};

/// The provider's own window on a chunk, for copies and fills where host code may not touch the
/// addresses that devices use.
class private_view : public window {
 public:
  private_view(const chunk& memory, std::size_t bytes);
};

/// A chunk's bytes as they were when it was mapped at one more address, like lines of a cache that
/// nobody invalidates. Made in an order, which `number` tells.
class stale_view : public window {
 public:
  stale_view(const chunk& memory, std::size_t bytes);
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 private:
  std::uint64_t number_;
};

}  // namespace hipvmm::host_provider
