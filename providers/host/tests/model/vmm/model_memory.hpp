// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <vector>

namespace hipvmm::test::model {

/// Bytes that are zero until written; pages that nobody wrote take no memory.
class model_memory {
 public:
  static constexpr std::size_t page = 4096;

  void write(std::size_t offset, const std::byte* bytes, std::size_t count) {
    each_page(offset, count, [&](std::size_t index, std::size_t inside, std::size_t n) {
      std::copy_n(bytes, n, pages_[index].begin() + static_cast<std::ptrdiff_t>(inside));
      bytes += n;
    });
  }

  void read(std::size_t offset, std::byte* bytes, std::size_t count) const {
    each_page(offset, count, [&](std::size_t index, std::size_t inside, std::size_t n) {
      const auto found = pages_.find(index);
      if (found == pages_.end()) {
        std::fill_n(bytes, n, std::byte{0});
      } else {
        std::copy_n(found->second.begin() + static_cast<std::ptrdiff_t>(inside), n, bytes);
      }
      bytes += n;
    });
  }

  /// The starts of the pages that were written, below `limit`.
  [[nodiscard]] std::vector<std::size_t> written_pages(std::size_t limit) const {
    std::vector<std::size_t> starts;
    for (const auto& [index, bytes] : pages_)
      if (index * page < limit) starts.push_back(index * page);
    return starts;
  }

 private:
  template <class Action>
  static void each_page(std::size_t offset, std::size_t count, Action action) {
    for (const std::size_t end = offset + count; offset < end;) {
      const std::size_t inside = offset % page;
      const std::size_t n = std::min(page - inside, end - offset);
      action(offset / page, inside, n);
      offset += n;
    }
  }

  std::map<std::size_t, std::array<std::byte, page>> pages_;
};

}  // namespace hipvmm::test::model
