// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace hipvmm::mr::pool {

/// Translates between offsets and addresses of slabs, and owns them. Thread-safe. Each thread
/// caches its last slab, because a lock costs as much as a request that a cache serves.
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
    state_.store(next_state(), std::memory_order_release);
  }
  /// Pre: a slab begins at `offset`.
  [[nodiscard]] typename slab_map::node_type take(std::size_t offset) noexcept {
    const std::unique_lock lock{mutex_};
    auto taken = slabs_.extract(offset);
    starts_.erase(taken.mapped().start);
    state_.store(next_state(), std::memory_order_release);
    return taken;
  }
  /// All remaining slabs, by offset. Pre: no other thread uses the table.
  [[nodiscard]] slab_map& all() noexcept { return slabs_; }

  /// Pre: a slab contains `offset`.
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept {
    const remembered& known = last();
    if (is_present(known) && offset - known.offset < known.bytes)
      return known.start + (offset - known.offset);
    const std::shared_lock lock{mutex_};
    const auto& [first, around] = *std::prev(slabs_.upper_bound(offset));
    remember(first, around);
    return around.start + (offset - first);
  }
  /// Pre: a slab contains `offset`, and stays while the result is used.
  [[nodiscard]] const Owner& owner_of(std::size_t offset) const noexcept {
    const std::shared_lock lock{mutex_};
    return std::prev(slabs_.upper_bound(offset))->second.memory;
  }
  /// `none` if no slab contains `address`.
  [[nodiscard]] std::size_t offset_of(std::uintptr_t address, std::size_t none) const noexcept {
    const remembered& known = last();
    if (is_present(known) && address - known.start < known.bytes)
      return known.offset + (address - known.start);
    const std::shared_lock lock{mutex_};
    auto at = starts_.upper_bound(address);
    if (at == starts_.begin()) return none;
    --at;
    const std::size_t inside = address - at->first;
    const slab& around = slabs_.find(at->second)->second;
    if (inside >= around.bytes) return none;
    remember(at->second, around);
    return at->second + inside;
  }

 private:
  struct remembered {
    std::uint64_t state = 0;
    std::size_t offset = 0;
    std::uintptr_t start = 0;
    std::size_t bytes = 0;
  };

  [[nodiscard]] static remembered& last() noexcept {
    thread_local constinit remembered one;
    return one;
  }
  /// Unique across all tables.
  [[nodiscard]] static std::uint64_t next_state() noexcept {
    static std::atomic<std::uint64_t> made{0};
    return ++made;
  }
  // A caller knows an address in a slab only after add(), so it sees the state of add() or later.
  [[nodiscard]] bool is_present(const remembered& known) const noexcept {
    return known.state == state_.load(std::memory_order_acquire);
  }
  /// Pre: the lock is held.
  void remember(std::size_t offset, const slab& one) const noexcept {
    last() = {state_.load(std::memory_order_relaxed), offset, one.start, one.bytes};
  }

  mutable std::shared_mutex mutex_;
  slab_map slabs_;
  std::map<std::uintptr_t, std::size_t> starts_;  // offset of each slab by its start address
  std::atomic<std::uint64_t> state_{next_state()};
};

}  // namespace hipvmm::mr::pool
