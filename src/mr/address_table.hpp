// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace hipvmm::detail {

/// What is known of addresses that are handed out, in parts so that threads seldom want the same
/// lock.
template <typename Value>
class address_table {
  using list = std::unordered_map<const void*, Value>;

 public:
  using entry = typename list::node_type;

  /// An entry to be put in, made before there is an address: behind that nothing can fail but the
  /// table's own growth.
  [[nodiscard]] static entry prepare(Value value) {
    list made;
    made.emplace(nullptr, std::move(value));
    return made.extract(nullptr);
  }

  /// Puts `one` in for `pointer`. Returns what was known of that address, as a rule nothing.
  /// Throws: std::bad_alloc; then nothing has changed.
  entry put(entry one, const void* pointer) {
    one.key() = pointer;
    part& in = part_of(pointer);
    const std::lock_guard lock{in.mutex};
    auto done = in.entries.insert(std::move(one));
    if (!done.inserted) std::swap(done.position->second, done.node.mapped());
    return std::move(done.node);
  }

  /// Takes out what is known of `pointer`, which may be nothing.
  [[nodiscard]] entry take(const void* pointer) noexcept {
    part& in = part_of(pointer);
    const std::lock_guard lock{in.mutex};
    return in.entries.extract(pointer);
  }

  /// Calls `visit` with each address and what is known of it. Pre: it does not use the table.
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

  [[nodiscard]] part& part_of(const void* pointer) noexcept {
    // Blocks begin at multiples of 256, and large ones at multiples of much more.
    const std::uint64_t mixed =
        (reinterpret_cast<std::uintptr_t>(pointer) >> 8) * 0x9e3779b97f4a7c15U;
    return parts_[mixed >> 60];
  }

  std::array<part, 16> parts_;
};

}  // namespace hipvmm::detail
