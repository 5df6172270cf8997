// SPDX-License-Identifier: MIT
// Memory as an agent sees it while it works: translates addresses, and reports faults that hardware
// would punish.
#pragma once

#include <cstdint>
#include <functional>

#include "src/memory/operation.hpp"

namespace stand_in {

/// Reads and writes for one operation, which must outlive it. Bytes that the agent must not use are
/// reported and skipped: they read as 0.
class device_view {
 public:
  explicit device_view(const operation& what) : what_(what) {}

  void read(void* to, std::uint64_t from, std::uint64_t bytes) const;
  void write(std::uint64_t to, const void* from, std::uint64_t bytes) const;
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) const;
  void fill(std::uint64_t to, std::uint64_t bytes, const void* pattern,
            std::uint64_t pattern_bytes) const;
  template <class Value>
  [[nodiscard]] Value load(std::uint64_t from) const {
    Value value{};
    read(&value, from, sizeof value);
    return value;
  }

  [[nodiscard]] bool stopped() const { return what_.stop != nullptr && what_.stop->load(); }

 private:
  enum class access { read, write };
  using visitor = std::function<void(char* at, std::uint64_t bytes)>;  // at: null if not there
  void for_each_piece(std::uint64_t address, std::uint64_t bytes, access how,
                      const visitor& each) const;
  const operation& what_;
};

}  // namespace stand_in
