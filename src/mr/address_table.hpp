// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace hipvmm::detail {

/// Thread-safe; in parts, so that threads rarely contend for a lock.
template <typename Value>
class address_table {
  using list = std::unordered_map<const void*, Value>;
  using order = std::set<const void*, std::less<>>;

 public:
  using entry = typename list::node_type;

  /// Makes an entry before its address is known: put() then fails only if the table cannot grow.
  [[nodiscard]] static entry prepare(Value value) {
    list made;
    made.emplace(nullptr, std::move(value));
    return made.extract(nullptr);
  }

  /// Returns the previous entry, normally empty. Throws: std::bad_alloc; then nothing has changed.
  entry put(entry one, const void* pointer) {
    one.key() = pointer;
    part& in = part_of(pointer);
    const std::lock_guard lock{in.mutex};
    order added;
    if (in.ordered) added.insert(pointer);
    auto done = in.entries.insert(std::move(one));
    if (in.ordered) in.ordered->merge(added);  // cannot fail
    if (!done.inserted) std::swap(done.position->second, done.node.mapped());
    return std::move(done.node);
  }

  [[nodiscard]] entry take(const void* pointer) noexcept {
    part& in = part_of(pointer);
    const std::lock_guard lock{in.mutex};
    if (in.ordered) in.ordered->erase(pointer);
    return in.entries.extract(pointer);
  }

  [[nodiscard]] std::optional<Value> find(const void* pointer) const {
    part& in = part_of(pointer);
    const std::lock_guard lock{in.mutex};
    const auto found = in.entries.find(pointer);
    return found == in.entries.end() ? std::nullopt : std::optional{found->second};
  }

  /// Returns the last address not above `pointer`, with its value. From the first call on, put()
  /// and take() keep all addresses in order, at a cost. Throws: std::bad_alloc.
  [[nodiscard]] std::optional<std::pair<const void*, Value>> last_not_above(
      const void* pointer) const {
    std::optional<std::pair<const void*, Value>> result;
    for (part& each : parts_) {
      const std::lock_guard lock{each.mutex};
      if (!each.ordered) {
        order made;
        for (const auto& one : each.entries) made.insert(one.first);
        each.ordered = std::move(made);
      }
      const auto above = each.ordered->upper_bound(pointer);
      if (above == each.ordered->begin()) continue;
      const void* const found = *std::prev(above);
      if (!result || std::less<>{}(result->first, found))
        result.emplace(found, each.entries.find(found)->second);
    }
    return result;
  }

  /// Pre: `visit` does not use the table.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (part& each : parts_) {
      const std::lock_guard lock{each.mutex};
      for (const auto& [pointer, value] : each.entries) visit(pointer, value);
    }
  }

 private:
  struct alignas(64) part {
    std::mutex mutex;
    list entries;
    std::optional<order> ordered;  // once the addresses were asked for in order
  };

  [[nodiscard]] part& part_of(const void* pointer) const noexcept {
    // Blocks begin at multiples of 256, and large ones at multiples of much more.
    const std::uint64_t mixed =
        (reinterpret_cast<std::uintptr_t>(pointer) >> 8) * 0x9e3779b97f4a7c15U;
    return parts_[mixed >> 60];
  }

  mutable std::array<part, 16> parts_;
};

}  // namespace hipvmm::detail
