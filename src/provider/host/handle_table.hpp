// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hipvmm::host_provider {

/// Opaque handles are numbers, looked up and never followed, so a stale or forged one is found out.
/// The top byte tells the kind apart and makes the value a non-canonical address on x86-64: a
/// program that follows a handle faults at once.
enum class handle_kind : std::uint64_t {
  chunk = 0xC1,
  stream = 0xC2,
  event = 0xC3,
  pool = 0xC4,
  graph = 0xC5,
  graph_exec = 0xC6,
  graph_node = 0xC7,
};

/// Hands out values of one kind that are never used twice.
class handle_source {
 public:
  explicit constexpr handle_source(handle_kind kind) noexcept
      : next_{(static_cast<std::uint64_t>(kind) << 56U) + step} {}
  std::uint64_t next() noexcept { return std::exchange(next_, next_ + step); }

 private:
  static constexpr std::uint64_t step = 16;  // aligned as a pointer would be
  std::uint64_t next_;
};

/// The live objects of one kind by handle. Thread-safe.
template <class Object>
class handle_table {
 public:
  explicit handle_table(handle_kind kind) noexcept : source_{kind} {}

  std::uint64_t insert(std::shared_ptr<Object> object) {
    const std::lock_guard lock{mutex_};
    const std::uint64_t handle = source_.next();
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  /// The object behind `handle`, or null when there is none.
  [[nodiscard]] std::shared_ptr<Object> find(std::uint64_t handle) const {
    const std::lock_guard lock{mutex_};
    const auto at = objects_.find(handle);
    return at == objects_.end() ? nullptr : at->second;
  }

  /// Takes the object behind `handle` out, or gives null when there is none.
  [[nodiscard]] std::shared_ptr<Object> extract(std::uint64_t handle) {
    const std::lock_guard lock{mutex_};
    auto node = objects_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  /// Takes all objects out that `leaves` is true of. Throws nothing once the first is out.
  template <class Predicate>
  [[nodiscard]] std::vector<std::shared_ptr<Object>> extract_if(Predicate&& leaves) {
    const std::lock_guard lock{mutex_};
    std::vector<std::shared_ptr<Object>> found;
    found.reserve(objects_.size());
    std::erase_if(objects_, [&](auto& entry) {
      const bool goes = leaves(*entry.second);
      if (goes) found.push_back(std::move(entry.second));
      return goes;
    });
    return found;
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock{mutex_};
    return objects_.size();
  }

 private:
  mutable std::mutex mutex_;
  handle_source source_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Object>> objects_;
};

template <class Pointer>
Pointer to_handle(std::uint64_t value) noexcept {
  return reinterpret_cast<Pointer>(value);  // NOLINT(performance-no-int-to-ptr): never followed
}

template <class Pointer>
std::uint64_t from_handle(Pointer handle) noexcept {
  return reinterpret_cast<std::uint64_t>(handle);
}

}  // namespace hipvmm::host_provider
