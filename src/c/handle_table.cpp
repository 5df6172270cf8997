// SPDX-License-Identifier: MIT
#include "c/handle_table.hpp"

#include <pthread.h>

#include <array>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

namespace hipvmm::c {
namespace {

static_assert(sizeof(void*) == 8, "handles are 64 bits wide");

// No address of a user's program has bit 63 set and bit 62 clear.
constexpr std::uint64_t handle_tag = 0xa5;
constexpr unsigned tag_bit = 56;
constexpr unsigned generation_bit = 24;
constexpr std::uint64_t index_mask = (std::uint64_t{1} << generation_bit) - 1;

void* make_handle(std::uint32_t index, std::uint32_t generation) noexcept {
  const std::uint64_t value =
      handle_tag << tag_bit | std::uint64_t{generation} << generation_bit | std::uint64_t{index};
  return reinterpret_cast<void*>(value);  // NOLINT(performance-no-int-to-ptr): never dereferenced
}

[[noreturn]] void refuse(handle_kind kind, const std::string& why) {
  throw invalid_handle{"the handle of " + std::string{name_of(kind)} + " is expected, and " + why};
}

}  // namespace

const char* name_of(handle_kind kind) noexcept {
  static constexpr std::array names{
      "an object",     "a buffer",     "a resource", "a stream", "a publication",
      "an attachment", "a slot arena", "a budget",   "an event", "a pressure subscription",
      "an evictable",  "a checkpoint"};
  const auto index = static_cast<std::size_t>(kind);
  return names[index < names.size() ? index : 0];
}

handle_table& handle_table::shared() {
  static auto& table = *[] {
    auto* const made = new handle_table;
    register_fork_handlers();
    return made;
  }();
  return table;
}

// A child of fork() lacks threads that may have the lock. Without memory for handlers it may hang.
void handle_table::register_fork_handlers() noexcept {
  static_cast<void>(::pthread_atfork([] { shared().mutex_.lock(); },
                                     [] { shared().mutex_.unlock(); },
                                     [] { shared().mutex_.unlock(); }));
}

void* handle_table::insert(handle_kind kind, std::shared_ptr<void> object) {
  const std::lock_guard lock{mutex_};
  if (first_free_ == no_slot) {
    if (slots_.size() >= no_slot)
      throw std::length_error{"there are " + std::to_string(slots_.size()) +
                              " handles already: destroy those that are no longer used"};
    first_free_ = static_cast<std::uint32_t>(slots_.size());
    try {
      slots_.emplace_back().next_free = no_slot;
    } catch (...) {
      first_free_ = no_slot;
      throw;
    }
  }
  const std::uint32_t index = first_free_;
  slot& used = slots_[index];
  first_free_ = used.next_free;
  used.object = std::move(object);
  used.kind = kind;
  used.process = {};
  ++live_;
  return make_handle(index, used.generation);
}

std::size_t handle_table::require(handle_kind kind, const void* handle) const {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  if (value == 0) refuse(kind, "this one is null");
  const std::uint64_t index = value & index_mask;
  const auto generation = static_cast<std::uint32_t>(value >> generation_bit);
  if (!has_tag(handle) || index >= slots_.size() || generation == 0 ||
      generation > slots_[index].generation)
    refuse(kind, "this value was never a handle of hipvmm");
  const slot& found = slots_[index];
  if (found.object == nullptr || found.generation != generation)
    refuse(kind, "this one was destroyed");
  if (found.kind != kind) refuse(kind, "this one is of " + std::string{name_of(found.kind)});
  return index;
}

std::shared_ptr<void> handle_table::find(handle_kind kind, const void* handle) const {
  const std::lock_guard lock{mutex_};
  const slot& found = slots_[require(kind, handle)];
  found.process.require_own();
  return found.object;
}

std::shared_ptr<void> handle_table::take(handle_kind kind, const void* handle) {
  const std::lock_guard lock{mutex_};
  const std::size_t index = require(kind, handle);
  slot& left = slots_[index];
  if (left.generation != std::numeric_limits<std::uint32_t>::max()) {
    ++left.generation;
    left.next_free = std::exchange(first_free_, static_cast<std::uint32_t>(index));
  }
  --live_;
  return std::exchange(left.object, nullptr);
}

bool handle_table::has_tag(const void* value) noexcept {
  return reinterpret_cast<std::uint64_t>(value) >> tag_bit == handle_tag;
}

std::size_t handle_table::size() const {
  const std::lock_guard lock{mutex_};
  return live_;
}

}  // namespace hipvmm::c
