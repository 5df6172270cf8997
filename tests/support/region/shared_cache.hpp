// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>

#include <hipvmm/region/retirement.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>

namespace hipvmm::test {

/// Gives HIP all memory that regions released: waits for retired memory, then empties the cache.
inline void release_idle_memory() {
  drain_retired_memory();
  chunk_cache::shared().trim();
}

/// While this lives, chunk_cache::shared() keeps all that regions release, for `retention`.
class shared_cache_keeps {
 public:
  explicit shared_cache_keeps(std::chrono::milliseconds retention = std::chrono::hours{1}) {
    chunk_cache::shared().set_retention(retention);
    chunk_cache::shared().set_byte_limit(std::numeric_limits<std::size_t>::max());
  }
  ~shared_cache_keeps() {
    chunk_cache::shared().set_byte_limit(limit_before_);
    chunk_cache::shared().set_retention(retention_before_);
  }
  shared_cache_keeps& operator=(shared_cache_keeps&&) = delete;

 private:
  std::size_t limit_before_ = chunk_cache::shared().byte_limit();
  std::chrono::milliseconds retention_before_ = chunk_cache::shared().retention();
};

}  // namespace hipvmm::test
