// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace hipvmm::detail {

/// A thread-safe table of values by allocated address, in parts so that threads rarely contend for
/// the same lock.
template <typename Value>
class address_table {
  using list = std::unordered_map<const void*, Value>;

 public:
  using entry = typename list::node_type;

  /// Makes an entry before its address is known; put() can then fail only by the growth of the
  /// table.
  [[nodiscard]] static entry prepare(Value value) {
    list made;
    made.emplace(nullptr, std::move(value));
    return made.extract(nullptr);
  }

  /// Inserts `one` for `pointer`. Returns the previous entry of that address, normally empty.
  /// Throws: std::bad_alloc; then nothing has changed.
  entry put(entry one, const void* pointer) {
    one.key() = pointer;
    part& in = part_of(pointer);
    const std::lock_guard lock{in.mutex};
    auto done = in.entries.insert(std::move(one));
    if (!done.inserted) std::swap(done.position->second, done.node.mapped());
    return std::move(done.node);
  }

  /// Removes and returns the entry of `pointer`; empty when there is none.
  [[nodiscard]] entry take(const void* pointer) noexcept {
    part& in = part_of(pointer);
    const std::lock_guard lock{in.mutex};
    return in.entries.extract(pointer);
  }

  /// Returns a copy of the value of `pointer`; nullopt when there is none.
  [[nodiscard]] std::optional<Value> find(const void* pointer) const {
    const part& in = part_of(pointer);
    const std::lock_guard lock{in.mutex};
    const auto found = in.entries.find(pointer);
    return found == in.entries.end() ? std::nullopt : std::optional{found->second};
  }

  /// Calls `visit` with each address and its value. Pre: `visit` does not use the table.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const part& each : parts_) {
      const std::lock_guard lock{each.mutex};
      for (const auto& [pointer, value] : each.entries) visit(pointer, value);
    }
  }

 private:
  struct alignas(64) part {
    mutable std::mutex mutex;
    list entries;
  };

  [[nodiscard]] static std::size_t part_index(const void* pointer) noexcept {
    // Blocks begin at multiples of 256, and large ones at multiples of much more.
    const std::uint64_t mixed =
        (reinterpret_cast<std::uintptr_t>(pointer) >> 8) * 0x9e3779b97f4a7c15U;
    return mixed >> 60;
  }
  [[nodiscard]] part& part_of(const void* pointer) noexcept { return parts_[part_index(pointer)]; }
  [[nodiscard]] const part& part_of(const void* pointer) const noexcept {
    return parts_[part_index(pointer)];
  }

  std::array<part, 16> parts_;
};

}  // namespace hipvmm::detail
