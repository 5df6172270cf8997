// SPDX-License-Identifier: MIT
#include "pool/mem_pool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/failure.hpp"
#include "memory/shared_file.hpp"
#include "race/race_checker.hpp"
#include "stream/stream_owner.hpp"

namespace hipvmm::host_provider {
namespace {

// A pool's file begins with the places of the devices that may read and write; blocks follow from
// the next page on.
using rights_in_file = std::array<device_set, 2>;

std::shared_ptr<pool_rights> first_rights(const pool_support& support, pool_origin origin,
                                          int device, int file) {
  device_set readers = only(device);
  device_set writers = only(device);
  if (origin == pool_origin::imported &&
      support.rules.imported_rights == imported_pool::of_exporter) {
    rights_in_file words{};
    require(pread(file, words.data(), sizeof(words), 0) == sizeof(words));
    readers = support.places.devices_at(words[0]);
    writers = support.places.devices_at(words[1]);
  }
  return std::make_shared<pool_rights>(readers, writers);
}

void write_rights(const device_places& places, int file, device_set readers, device_set writers) {
  const rights_in_file words{places.places_of(readers), places.places_of(writers)};
  require(pwrite(file, words.data(), sizeof(words), 0) == sizeof(words), error_of_errno(errno));
}

// A block may be an eighth larger than requested, as in the newest ROCm.
std::size_t largest_for(std::size_t bytes) noexcept {
  return bytes + std::min(bytes / 8, std::numeric_limits<std::size_t>::max() - bytes);
}

}  // namespace

mem_pool::mem_pool(const pool_support& support, pool_owner& owner, device_memory& memory,
                   pool_origin origin, int device, std::uint64_t max_bytes, descriptor file)
    : support_{support},
      owner_{owner},
      memory_{memory},
      origin_{origin},
      device_{device},
      max_bytes_{max_bytes},
      file_{std::move(file)},
      rights_{first_rights(support, origin, device, file_.get())},
      next_offset_{static_cast<off_t>(page_bytes())} {
  if (support_.rules.revoke != pool_revoke::enforced) rights_->opened = rights_->readers.load();
  if (is_shareable())
    write_rights(support_.places, file_.get(), rights_->readers, rights_->writers);
}

std::size_t mem_pool::page_bytes() noexcept {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

address mem_pool::allocate(std::size_t bytes, stream_queue& queue) {
  std::vector<position> after = support_.streams.ahead_of(queue);
  after.reserve(after.size() + 1);
  idle_node found = take_ready(bytes, queue);
  const bool is_new = found.empty() && !(found = take_new(bytes)).empty();
  if (found.empty()) {
    found = take_pending(bytes, queue);
    require(!found.empty(), hipErrorOutOfMemory);
    if (found.mapped().freed) after.push_back(*found.mapped().freed);
  }
  pool_block& block = *found.mapped().block;
  try {
    lend(block, queue.put_mark(std::move(after))->where, bytes);
  } catch (...) {
    is_new ? discard(block) : put_idle(std::move(found));
    throw;
  }
  if (race_checker* const checker = support_.checker) {
    checker->lend(this, block.start(), bytes, queue);
  }
  return block.start();
}

void mem_pool::take_back(const std::shared_ptr<pool_block>& block, stream_queue* freeing) {
  idle_node idle = node_for(block->bytes());
  require(block->claim_back());
  if (freeing != nullptr && support_.rules.free_again == repeated_free::waits_for_earlier)
    block->wait_for_earlier_free();
  if (support_.rules.owner == block_owner::allocating_stream_too)
    idle.mapped().trusted = block->lent_in();
  try {
    if (freeing != nullptr) {
      idle.mapped().freed = freeing->put_mark(support_.streams.ahead_of(*freeing))->where;
    }
  } catch (...) {
    block->restore_claim();
    throw;
  }
  // Nothing fails from here on.
  block->close_at(idle.mapped().freed);
  idle.mapped().block = block;
  if (race_checker* const checker = support_.checker) {
    checker->take_back(block->start(), block->bytes(), freeing);
  }
  bool abandoned = false;
  {
    const std::lock_guard lock{mutex_};
    --blocks_held_;
    usage_.used -= block->bytes();
    abandoned = abandoned_;
    idle_.insert(std::move(idle));
    owner_.note_idle(1);
  }
  if (support_.rules.threshold == threshold_rule::ignored_when_mostly_idle) release_most();
  if (abandoned || block->pages().borrowed) {
    release(std::numeric_limits<std::uint64_t>::max());
    owner_.forget_done();
  }
}

address mem_pool::borrow(std::size_t bytes, off_t offset,
                         const std::shared_ptr<stream_queue>& null) {
  const std::shared_ptr<pool_block> made = make_block({bytes, offset, true});
  {
    const std::lock_guard lock{mutex_};
    usage_.reserved += bytes;
  }
  // The exporter's stream allocates it; the null stream's position 0 was reached long ago.
  try {
    lend(*made, {null, 0}, bytes);
  } catch (...) {
    discard(*made);
    throw;
  }
  return made->start();
}

void mem_pool::release(std::uint64_t keep) noexcept {
  // One thread at a time: a request that follows finds the memory that another thread releases,
  // too.
  const std::lock_guard one_by_one{releasing_};
  idle_map leaving;
  std::uint64_t freed = 0;
  {
    const std::lock_guard lock{mutex_};
    const bool counts_idle = support_.rules.trim == trim_measure::idle_bytes;
    std::uint64_t kept = counts_idle ? idle_bytes() : usage_.reserved;
    for (auto at = idle_.begin(); at != idle_.end();) {
      const pool_block& block = *at->second.block;
      const bool is_surplus = abandoned_ || block.pages().borrowed || kept > keep;
      if (!is_surplus || !at->second.is_over()) {
        ++at;
        continue;
      }
      kept -= block.bytes();
      if (block.pages().borrowed) {
        usage_.reserved -= block.bytes();
      } else {
        freed += unreserve(block.bytes());
      }
      leaving.insert(idle_.extract(at++));
    }
  }
  owner_.note_idle(-static_cast<std::int64_t>(leaving.size()));
  for (const auto& [bytes, idle] : leaving) give_up(*idle.block);
  memory_.release(freed);
}

void mem_pool::release_most() noexcept {
  const std::uint64_t held = usage().used;
  const bool is_mostly_idle = [this, held] {
    const std::lock_guard lock{mutex_};
    return idle_bytes() > held;
  }();
  if (is_mostly_idle) release(held);
}

std::uint64_t mem_pool::idle_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [bytes, idle] : idle_) sum += bytes;
  return sum;
}

int mem_pool::lasting_descriptor() {
  const std::lock_guard lock{mutex_};
  if (lasting_descriptor_ < 0) lasting_descriptor_ = duplicate(file_.get()).release();
  return lasting_descriptor_;
}

void mem_pool::abandon() noexcept {
  {
    const std::lock_guard lock{mutex_};
    abandoned_ = true;
  }
  release(0);
}

bool mem_pool::is_done() const {
  const std::lock_guard lock{mutex_};
  return abandoned_ && blocks_held_ == 0 && idle_.empty();
}

std::uint64_t mem_pool::blocks_held() const {
  const std::lock_guard lock{mutex_};
  return blocks_held_;
}

pool_policy mem_pool::policy() const {
  const std::lock_guard lock{mutex_};
  return policy_;
}

pool_usage mem_pool::usage() const {
  const std::lock_guard lock{mutex_};
  return usage_;
}

void mem_pool::change_rights(const access_change& change) {
  const std::lock_guard lock{mutex_};
  const device_set readers = (rights_->readers & ~change.named) | change.readers;
  const device_set writers = (rights_->writers & ~change.named) | change.writers;
  if (is_shareable()) write_rights(support_.places, file_.get(), readers, writers);
  rights_->readers = readers;
  rights_->writers = writers;
  if (support_.rules.revoke != pool_revoke::enforced) rights_->opened |= change.readers;
}

bool mem_pool::is_ready(const idle_block& idle, const stream_queue& queue,
                        bool opportunistic) const {
  if (!idle.freed || idle.freed->queue.get() == &queue) return true;
  if (idle.trusted.get() == &queue) return true;
  if (opportunistic && policy_.opportunistic && idle.is_over()) return true;
  return policy_.follow_events && queue.comes_after(*idle.freed);
}

mem_pool::idle_node mem_pool::take_ready(std::size_t bytes, const stream_queue& queue) {
  const std::lock_guard lock{mutex_};
  const std::size_t largest = largest_for(bytes);
  const bool is_limited = support_.rules.reuse == reuse_limit::an_eighth;
  for (auto at = idle_.lower_bound(bytes); at != idle_.end(); ++at) {
    if (is_limited && at->first > largest) break;
    const bool fits = at->first <= largest;
    if (at->second.block->pages().borrowed || !is_ready(at->second, queue, fits)) continue;
    owner_.note_idle(-1);
    return idle_.extract(at);
  }
  return {};
}

// When no memory is left, any block that is large enough serves, even if it must wait for other
// streams.
mem_pool::idle_node mem_pool::take_pending(std::size_t bytes, const stream_queue& queue) {
  const std::lock_guard lock{mutex_};
  for (auto at = idle_.lower_bound(bytes); at != idle_.end(); ++at) {
    if (at->second.block->pages().borrowed) continue;
    const bool may_wait =
        policy_.internal_dependencies && support_.rules.internal == internal_dependencies::used;
    if (!may_wait && !is_ready(at->second, queue, true)) continue;
    owner_.note_idle(-1);
    return idle_.extract(at);
  }
  return {};
}

mem_pool::idle_node mem_pool::take_new(std::size_t bytes) {
  const auto reserve = [this, bytes] {
    const std::lock_guard lock{mutex_};
    return try_reserve(bytes);
  };
  idle_node made = node_for(bytes);
  if (!reserve()) {
    owner_.release_idle(device_);
    if (!reserve()) return {};
  }
  try {
    made.mapped().block = make_block({bytes, claim(bytes), false});
  } catch (...) {
    const std::lock_guard lock{mutex_};
    memory_.release(unreserve(bytes));
    throw;
  }
  return made;
}

std::uint64_t mem_pool::whole_growths(std::uint64_t bytes) const noexcept {
  const std::uint64_t unit = support_.rules.pool_growth;
  return (bytes + unit - 1) / unit * unit;
}

bool mem_pool::try_reserve(std::size_t bytes) {
  const bool by_mark = support_.rules.max_size == size_limit::kept_by_high_mark;
  const std::uint64_t counted = by_mark ? usage_.own_high : own_bytes_;
  if (max_bytes_ != 0 && (counted > max_bytes_ || bytes > max_bytes_ - counted)) return false;
  if (bytes > std::numeric_limits<std::uint64_t>::max() / 2) return false;
  const std::uint64_t more = whole_growths(own_bytes_ + bytes) - whole_growths(own_bytes_);
  if (!memory_.try_charge(more)) return false;
  own_bytes_ += bytes;
  usage_.reserved += more;
  return true;
}

std::uint64_t mem_pool::unreserve(std::size_t bytes) noexcept {
  const std::uint64_t less = whole_growths(own_bytes_) - whole_growths(own_bytes_ - bytes);
  own_bytes_ -= bytes;
  usage_.reserved -= less;
  return less;
}

std::shared_ptr<pool_block> mem_pool::make_block(const block_pages& pages) {
  auto made = std::make_shared<pool_block>(weak_from_this(), rights_, pages);
  const file_backing behind{pages.borrowed || is_shareable() ? file_.get() : -1, pages.offset};
  made->placed_at(support_.addresses.place_block(device_, pages.bytes, made, behind));
  return made;
}

void mem_pool::lend(pool_block& block, position begin, std::size_t bytes) {
  block.lend(std::move(begin), bytes);
  const std::lock_guard lock{mutex_};
  ++blocks_held_;
  usage_.used += block.bytes();
  usage_.used_high = std::max(usage_.used_high, usage_.used);
  usage_.reserved_high = std::max(usage_.reserved_high, usage_.reserved);
  usage_.own_high = std::max(usage_.own_high, own_bytes_);
}

mem_pool::idle_node mem_pool::node_for(std::size_t bytes) {
  idle_map one;
  return one.extract(one.emplace(bytes, idle_block{}));
}

void mem_pool::put_idle(idle_node idle) noexcept {
  const std::lock_guard lock{mutex_};
  idle_.insert(std::move(idle));
  owner_.note_idle(1);
}

void mem_pool::discard(const pool_block& block) noexcept {
  std::uint64_t freed = 0;
  {
    const std::lock_guard lock{mutex_};
    if (block.pages().borrowed) {
      usage_.reserved -= block.bytes();
    } else {
      freed = unreserve(block.bytes());
    }
  }
  give_up(block);
  memory_.release(freed);
}

void mem_pool::give_up(const pool_block& block) noexcept {
  const block_pages pages = block.pages();
  support_.addresses.free_allocation(memory_kind::pool_block, block.start());
  if (pages.borrowed) return;
  if (is_shareable()) {
    fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pages.offset,
              static_cast<off_t>(pages.bytes));
  }
}

off_t mem_pool::claim(std::size_t bytes) {
  const std::size_t page = page_bytes();
  const auto whole = static_cast<off_t>((bytes + page - 1) / page * page);
  const std::lock_guard lock{mutex_};
  return std::exchange(next_offset_, next_offset_ + whole);
}

void free_block(const tracked_range& found, stream_queue* freeing) {
  const auto block = std::static_pointer_cast<pool_block>(found.tenant);
  const std::shared_ptr<mem_pool> pool = block->pool();
  require(pool != nullptr);
  pool->take_back(block, freeing);
}

}  // namespace hipvmm::host_provider
