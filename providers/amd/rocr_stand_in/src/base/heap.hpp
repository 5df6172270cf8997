// SPDX-License-Identifier: MIT
// An agent's physical memory: a sparse file, mapped once. An offset in it is a physical address.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace stand_in {

/// Owns a file and its mapping until the process ends. Thread-safe.
class heap {
 public:
  /// `budget` bytes may be allocated. The file is larger, so that gaps between allocations do not
  /// make one fail that a real device's pages would serve.
  heap(unsigned node, std::uint64_t budget);
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;

  /// Returns false if the budget is spent.
  bool allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& offset);
  void free(std::uint64_t offset, std::uint64_t bytes);
  /// Frees the budget, but keeps pages and offset, which another process may use.
  void retire(std::uint64_t bytes);

  /// The offset of the file's record of an exported range.
  [[nodiscard]] std::uint64_t record_offset(std::uint64_t offset) const;

  [[nodiscard]] int file() const { return file_; }
  [[nodiscard]] char* base() const { return base_; }
  [[nodiscard]] std::uint64_t span() const { return span_; }
  [[nodiscard]] std::uint64_t budget() const { return budget_; }
  [[nodiscard]] std::uint64_t used() const;
  [[nodiscard]] std::uint64_t peak() const;
  [[nodiscard]] bool contains(std::uint64_t address) const;

 private:
  bool find_gap(std::uint64_t from, std::uint64_t bytes, std::uint64_t alignment,
                std::uint64_t& offset) const;

  std::uint64_t budget_;
  std::uint64_t span_;
  int file_;
  char* base_;
  mutable std::mutex lock_;
  std::map<std::uint64_t, std::uint64_t> gaps_;  // offset -> bytes
  std::uint64_t used_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t next_ = 0;  // the start of a search if addresses are not to be reused at once
};

/// The description of an exported range for the process that imports it.
struct export_record {
  std::uint64_t magic;
  std::uint64_t bytes;
};
constexpr std::uint64_t export_magic = 0x524f435253544400;  // plus the node

}  // namespace stand_in
