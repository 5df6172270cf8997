// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace hipvmm::mr::pool {

/// Which address each offset of a pool has whose memory is slabs that lie anywhere, and who owns
/// them. Thread-safe.
template <typename Owner>
class slab_table {
 public:
  struct slab {
    Owner memory;
    std::uintptr_t start;
    std::size_t bytes;
  };
  using slab_map = std::map<std::size_t, slab>;  // by offset

  /// Throws: std::bad_alloc; then `memory` is as it was.
  void add(std::size_t offset, Owner& memory, std::uintptr_t start, std::size_t bytes) {
    std::map<std::uintptr_t, std::size_t> at;
    at.try_emplace(start, offset);
    slab_map made;
    made.try_emplace(offset, slab{Owner{}, start, bytes});
    made.begin()->second.memory = std::move(memory);
    const std::unique_lock lock{mutex_};
    slabs_.merge(made);
    starts_.merge(at);
  }
  /// Takes out the slab that begins at `offset`. Pre: there is one.
  [[nodiscard]] typename slab_map::node_type take(std::size_t offset) noexcept {
    const std::unique_lock lock{mutex_};
    auto taken = slabs_.extract(offset);
    starts_.erase(taken.mapped().start);
    return taken;
  }
  /// All that is left, by offset. Pre: no other thread uses the table.
  [[nodiscard]] slab_map& all() noexcept { return slabs_; }

  /// Pre: a slab has it.
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept {
    const std::shared_lock lock{mutex_};
    const auto& [first, around] = *std::prev(slabs_.upper_bound(offset));
    return around.start + (offset - first);
  }
  /// `none` where no slab has the address.
  [[nodiscard]] std::size_t offset_of(std::uintptr_t address, std::size_t none) const noexcept {
    const std::shared_lock lock{mutex_};
    auto at = starts_.upper_bound(address);
    if (at == starts_.begin()) return none;
    --at;
    const std::size_t inside = address - at->first;
    return inside < slabs_.find(at->second)->second.bytes ? at->second + inside : none;
  }

 private:
  mutable std::shared_mutex mutex_;
  slab_map slabs_;
  std::map<std::uintptr_t, std::size_t> starts_;  // offset of each by where it starts
};

}  // namespace hipvmm::mr::pool
