// SPDX-License-Identifier: MIT
#include <hipvmm/container/slot_arena.hpp>

#include <stdexcept>
#include <string>
#include <utility>

#include "container/slot_allocator.hpp"

namespace hipvmm {
namespace {
void require_array(const char* call, const void* array, std::size_t count) {
  if (array == nullptr && count != 0)
    throw std::invalid_argument{std::string{call} + ": an array of " + std::to_string(count) +
                                " is nullptr: pass its address"};
}
}  // namespace

slot_arena::slot_arena(device_ref device, const slot_arena_options& options)
    : table_{std::make_unique<detail::slot_allocator>(device, options)} {}

slot_arena::~slot_arena() {
  if (table_ && table_->process().is_of_parent()) static_cast<void>(table_.release());
}

slot_arena::slot_arena(slot_arena&& other) noexcept = default;

slot_arena& slot_arena::operator=(slot_arena&& other) noexcept {
  slot_arena moved{std::move(other)};
  table_.swap(moved.table_);
  return *this;
}

detail::slot_allocator& slot_arena::live() const {
  if (!table_) throw std::invalid_argument{"the slot_arena is empty: it was moved from"};
  table_->process().require_own();
  return *table_;
}

void slot_arena::require_same_size(std::size_t slots, std::size_t lengths) {
  if (slots != lengths)
    throw std::invalid_argument{"slot_arena::commit: " + std::to_string(slots) + " slots and " +
                                std::to_string(lengths) +
                                " lengths: give one length for each slot"};
}

std::size_t slot_arena::acquire(stream_ref stream) { return live().acquire(stream); }
void slot_arena::commit(const std::size_t* slots, const std::size_t* lengths, std::size_t count,
                        stream_ref stream) {
  require_array("slot_arena::commit", slots, count);
  require_array("slot_arena::commit", lengths, count);
  live().commit(slots, lengths, count, stream);
}
void slot_arena::release(std::size_t slot, stream_ref stream) { live().release(slot, stream); }
void slot_arena::truncate(std::size_t slot, std::size_t length, stream_ref stream) {
  live().truncate(slot, length, stream);
}
void slot_arena::share_prefix(std::size_t from, const std::size_t* to, std::size_t count,
                              std::size_t length, stream_ref stream) {
  require_array("slot_arena::share_prefix", to, count);
  live().share_prefix(from, to, count, length, stream);
}
void slot_arena::make_writable(std::size_t slot, std::size_t offset, std::size_t bytes,
                               stream_ref stream) {
  live().make_writable(slot, offset, bytes, stream);
}
void* slot_arena::pointer(std::size_t slot, std::size_t plane) const {
  return live().pointer(slot, plane);
}
std::size_t slot_arena::length(std::size_t slot) const { return live().length(slot); }
std::size_t slot_arena::capacity(std::size_t slot) const { return live().capacity(slot); }
bool slot_arena::in_use(std::size_t slot) const { return live().in_use(slot); }
std::size_t slot_arena::slots_that_fit(std::size_t length) const {
  return live().slots_that_fit(length);
}
void slot_arena::set_eviction(std::function<void(std::size_t)> evict) {
  live().set_eviction(std::move(evict));
}
void slot_arena::set_budget(std::size_t bytes) { live().set_budget(bytes); }
std::size_t slot_arena::trim() { return live().trim(); }
slot_arena_statistics slot_arena::statistics() const { return live().statistics(); }
void* slot_arena::base() const { return live().base(); }
std::size_t slot_arena::slot_stride() const { return live().geometry().stride; }
std::size_t slot_arena::plane_stride() const { return live().geometry().plane; }
std::size_t slot_arena::slots() const { return live().geometry().slots; }
std::size_t slot_arena::planes() const { return live().geometry().planes; }
std::size_t slot_arena::bytes_per_slot() const { return live().geometry().most; }
std::size_t slot_arena::block_bytes() const { return live().geometry().block; }
device_ref slot_arena::device() const { return live().device(); }

}  // namespace hipvmm
