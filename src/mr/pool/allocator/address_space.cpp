// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/address_space.hpp"

#include <bit>
#include <utility>

namespace hipvmm::mr::pool {

address_space::address_space(std::size_t bytes)
    : buckets_(64), table_{table::bucket_traits{buckets_.data(), buckets_.size()}} {
  front_ = &nodes_.emplace_back();
  front_->bytes = bytes;
}

void address_space::prepare_for(std::size_t count) {
  while (spare_count_ < count + kept_spare * (1 + growths_)) {
    block& added = nodes_.emplace_back();
    added.next = spare_;
    spare_ = &added;
    ++spare_count_;
  }
  if (table_.size() + count > buckets_.size()) {
    std::vector<table::bucket_type> larger(2 * std::bit_ceil(table_.size() + count));
    table_.rehash(table::bucket_traits{larger.data(), larger.size()});
    buckets_ = std::move(larger);
  }
}

block& address_space::take_spare() noexcept {
  block& taken = *spare_;
  spare_ = taken.next;
  --spare_count_;
  return taken;
}

block& address_space::cut(block& whole, std::size_t bytes) noexcept {
  block& rest = take_spare();
  rest.offset = whole.offset + bytes;
  rest.bytes = whole.bytes - bytes;
  rest.owner = whole.owner;
  rest.epoch = whole.epoch;
  rest.state = whole.state;
  rest.previous = &whole;
  rest.next = whole.next;
  if (rest.next != nullptr) rest.next->previous = &rest;
  whole.next = &rest;
  whole.bytes = bytes;
  return rest;
}

void address_space::join_next(block& one) noexcept {
  block& behind = *one.next;
  one.bytes += behind.bytes;
  one.next = behind.next;
  if (one.next != nullptr) one.next->previous = &one;
  behind.next = spare_;
  spare_ = &behind;
  ++spare_count_;
}

block* address_space::find(std::size_t offset) noexcept {
  const auto at = table_.find(offset);
  return at == table_.end() ? nullptr : &*at;
}

}  // namespace hipvmm::mr::pool
