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

/// Opaque handles are numbers, looked up and never followed, so that a stale or forged one is
/// found. The top byte is the kind and makes the value a non-canonical address on x86-64: a program
/// that follows a handle faults at once.
enum class handle_kind : std::uint64_t {
  chunk = 0xC1,
  stream = 0xC2,
  event = 0xC3,
  pool = 0xC4,
  graph = 0xC5,
  graph_exec = 0xC6,
  graph_node = 0xC7,
};

class handle_source {
 public:
  explicit constexpr handle_source(handle_kind kind) noexcept
      : next_{(static_cast<std::uint64_t>(kind) << 56U) + step} {}
  std::uint64_t next() noexcept { return std::exchange(next_, next_ + step); }

 private:
  static constexpr std::uint64_t step = 16;  // aligned as a pointer would be
  std::uint64_t next_;
};

/// Reuse of the handle of an object that has ended. HIP runtimes give the one that was freed last,
/// because their handles are addresses.
enum class handle_reuse {
  none,        ///< a stale handle is always found out
  last_first,  ///< a stale handle names the next object as soon as there is one
};

/// The live objects of one kind by handle. Thread-safe.
template <class Object>
class handle_table {
 public:
  explicit handle_table(handle_kind kind, handle_reuse reuse = handle_reuse::none) noexcept
      : source_{kind}, reuse_{reuse} {}

  std::uint64_t insert(std::shared_ptr<Object> object) {
    const std::lock_guard lock{mutex_};
    if (free_ != nullptr) {
      entry& again = free_->second;
      const std::uint64_t handle = free_->first;
      free_ = std::exchange(again.next_free, nullptr);
      again.object = std::move(object);
      ++live_;
      return handle;
    }
    const std::uint64_t handle = source_.next();
    entries_.emplace(handle, entry{std::move(object), nullptr});
    ++live_;
    return handle;
  }

  [[nodiscard]] std::shared_ptr<Object> find(std::uint64_t handle) const {
    const std::lock_guard lock{mutex_};
    const auto at = entries_.find(handle);
    return at == entries_.end() ? nullptr : at->second.object;
  }

  /// Null when there is none.
  [[nodiscard]] std::shared_ptr<Object> extract(std::uint64_t handle) {
    const std::lock_guard lock{mutex_};
    const auto at = entries_.find(handle);
    return at == entries_.end() ? nullptr : take_out(at);
  }

  /// False when `object` is not, or not any more, behind `handle`.
  [[nodiscard]] bool extract(std::uint64_t handle, const Object& object) {
    std::shared_ptr<Object> last;  // dies after the lock
    const std::lock_guard lock{mutex_};
    const auto at = entries_.find(handle);
    if (at == entries_.end() || at->second.object.get() != &object) return false;
    last = take_out(at);
    return true;
  }

  /// Throws nothing once the first object is out.
  template <class Predicate>
  [[nodiscard]] std::vector<std::shared_ptr<Object>> extract_if(Predicate&& leaves) {
    const std::lock_guard lock{mutex_};
    std::vector<std::shared_ptr<Object>> found;
    found.reserve(live_);
    for (auto each = entries_.begin(); each != entries_.end();) {
      const auto at = each++;
      if (at->second.object != nullptr && leaves(*at->second.object)) found.push_back(take_out(at));
    }
    return found;
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock{mutex_};
    return live_;
  }

 private:
  struct entry;
  using named_entry = std::pair<const std::uint64_t, entry>;
  /// Kept if its handle may be reused, so that to destroy an object needs no memory.
  struct entry {
    std::shared_ptr<Object> object;  ///< null: the handle is free
    named_entry* next_free;          ///< the one that became free before
  };
  using entries = std::unordered_map<std::uint64_t, entry>;

  std::shared_ptr<Object> take_out(typename entries::iterator at) noexcept {
    std::shared_ptr<Object> object = std::move(at->second.object);
    if (object == nullptr) return object;
    --live_;
    if (reuse_ == handle_reuse::none) {
      entries_.erase(at);
    } else {
      at->second.object = nullptr;
      at->second.next_free = std::exchange(free_, &*at);
    }
    return object;
  }

  mutable std::mutex mutex_;
  handle_source source_;
  const handle_reuse reuse_;
  entries entries_;
  named_entry* free_ = nullptr;
  std::size_t live_ = 0;
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
