// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipvmm::host_provider {

class chunk;

class host_view {
 public:
  [[nodiscard]] std::uintptr_t start() const noexcept { return start_; }

 protected:
  host_view(std::size_t bytes, int flags, int file, std::int64_t offset);
  ~host_view();
  host_view& operator=(host_view&&) = delete;

 private:
  std::uintptr_t start_;
  std::size_t bytes_;
};

/// The host's own view of a chunk, for copies and fills, if host code may not touch the addresses
/// that devices use.
class private_view : public host_view {
 public:
  private_view(const chunk& memory, std::size_t bytes);
};

/// A chunk's bytes at the time of its second mapping, like lines of a cache that nobody
/// invalidates. Made in the order of `number`.
class stale_view : public host_view {
 public:
  stale_view(const chunk& memory, std::size_t bytes);
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 private:
  std::uint64_t number_;
};

}  // namespace hipvmm::host_provider
