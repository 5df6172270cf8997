// SPDX-License-Identifier: MIT
#include "mem_pool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "failure.hpp"
#include "mem_pool_set.hpp"
#include "runtime.hpp"

namespace hipvmm::host_provider {
namespace {

// A pool's file begins with the rights of its readers and writers; blocks follow from the next
// page on.
using rights_in_file = std::array<device_set, 2>;

std::shared_ptr<pool_rights> first_rights(pool_origin origin, int device, int file) {
  rights_in_file rights{only(device), only(device)};
  if (origin == pool_origin::imported) {
    require(pread(file, rights.data(), sizeof(rights), 0) == sizeof(rights));
  }
  return std::make_shared<pool_rights>(rights[0], rights[1]);
}

void write_rights(int file, const pool_rights& rights) {
  const rights_in_file words{rights.readers.load(), rights.writers.load()};
  require(pwrite(file, words.data(), sizeof(words), 0) == sizeof(words), error_of_errno(errno));
}

// A block may be larger than asked for by an eighth, as in the newest ROCm.
std::size_t largest_for(std::size_t bytes) noexcept {
  return bytes + std::min(bytes / 8, std::numeric_limits<std::size_t>::max() - bytes);
}

std::vector<position> ahead_of(runtime& machine, const stream_queue& queue) {
  return machine.device(queue.device()).streams.ahead_of(queue);
}

}  // namespace

mem_pool::mem_pool(runtime& machine, pool_origin origin, int device, std::uint64_t max_bytes,
                   descriptor file)
    : machine_{machine},
      origin_{origin},
      device_{device},
      max_bytes_{max_bytes},
      file_{std::move(file)},
      rights_{first_rights(origin, device, file_.get())},
      next_offset_{static_cast<off_t>(page_bytes())} {
  if (is_shareable()) write_rights(file_.get(), *rights_);
}

std::size_t mem_pool::page_bytes() noexcept {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

address mem_pool::allocate(std::size_t bytes, stream_queue& queue) {
  std::vector<position> after = ahead_of(machine_, queue);
  std::optional<idle_block> found = take_ready(bytes, queue);
  if (!found) found = take_new(bytes);
  if (!found) {
    found = take_pending(bytes, queue);
    require(found.has_value(), hipErrorOutOfMemory);
    if (found->freed) after.push_back(*found->freed);
  }
  try {
    lend(*found, queue.put_mark(std::move(after))->where, bytes);
  } catch (...) {
    put_idle(*std::move(found));
    throw;
  }
  return found->block->start();
}

void mem_pool::take_back(const std::shared_ptr<pool_block>& block, stream_queue* freeing) {
  require(block->claim_back());
  std::optional<position> until;
  try {
    if (freeing != nullptr) until = freeing->put_mark(ahead_of(machine_, *freeing))->where;
  } catch (...) {
    block->restore_claim();
    throw;
  }
  block->close_at(until);
  bool abandoned = false;
  {
    const std::lock_guard lock{mutex_};
    --blocks_held_;
    usage_.used -= block->bytes();
    abandoned = abandoned_;
  }
  put_idle({block, until});
  if (abandoned || block->pages().borrowed) {
    release(std::numeric_limits<std::uint64_t>::max());
    machine_.pools().forget_done();
  }
}

address mem_pool::borrow(std::size_t bytes, off_t offset) {
  const idle_block found{make_block({bytes, offset, true}), std::nullopt};
  {
    const std::lock_guard lock{mutex_};
    usage_.reserved += bytes;
    usage_.reserved_high = std::max(usage_.reserved_high, usage_.reserved);
  }
  // The stream that allocates it is the exporter's; the null stream's end is a point long reached.
  lend(found, {machine_.device(device_).streams.null(), 0}, bytes);
  return found.block->start();
}

void mem_pool::release(std::uint64_t keep) {
  std::vector<std::shared_ptr<pool_block>> leaving;
  {
    const std::lock_guard lock{mutex_};
    for (auto at = idle_.begin(); at != idle_.end();) {
      const pool_block& block = *at->second.block;
      const bool is_surplus =
          abandoned_ || block.pages().borrowed || usage_.reserved - block.bytes() >= keep;
      if (!is_surplus || !at->second.is_over()) {
        ++at;
        continue;
      }
      usage_.reserved -= block.bytes();
      leaving.push_back(std::move(at->second.block));
      at = idle_.erase(at);
    }
  }
  machine_.pools().note_idle(-static_cast<std::int64_t>(leaving.size()));
  for (const std::shared_ptr<pool_block>& each : leaving) give_up(*each);
}

void mem_pool::abandon() {
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
  rights_->readers = (rights_->readers & ~change.named) | change.readers;
  rights_->writers = (rights_->writers & ~change.named) | change.writers;
  if (is_shareable()) write_rights(file_.get(), *rights_);
}

bool mem_pool::is_ready(const idle_block& idle, const stream_queue& queue) const {
  if (!idle.freed || idle.freed->queue.get() == &queue) return true;
  if (policy_.opportunistic && idle.is_over()) return true;
  return policy_.follow_events && queue.comes_after(*idle.freed);
}

std::optional<mem_pool::idle_block> mem_pool::take_ready(std::size_t bytes,
                                                         const stream_queue& queue) {
  const std::lock_guard lock{mutex_};
  const std::size_t largest = largest_for(bytes);
  for (auto at = idle_.lower_bound(bytes); at != idle_.end() && at->first <= largest; ++at) {
    if (at->second.block->pages().borrowed || !is_ready(at->second, queue)) continue;
    machine_.pools().note_idle(-1);
    return std::move(idle_.extract(at).mapped());
  }
  return std::nullopt;
}

// There is no memory left: whatever is large enough will do, and other streams may be waited for.
std::optional<mem_pool::idle_block> mem_pool::take_pending(std::size_t bytes,
                                                           const stream_queue& queue) {
  const std::lock_guard lock{mutex_};
  for (auto at = idle_.lower_bound(bytes); at != idle_.end(); ++at) {
    if (at->second.block->pages().borrowed) continue;
    if (!policy_.internal_dependencies && !is_ready(at->second, queue)) continue;
    machine_.pools().note_idle(-1);
    return std::move(idle_.extract(at).mapped());
  }
  return std::nullopt;
}

std::optional<mem_pool::idle_block> mem_pool::take_new(std::size_t bytes) {
  const auto reserve = [this, bytes] {
    const std::lock_guard lock{mutex_};
    if (max_bytes_ != 0 && (usage_.reserved > max_bytes_ || bytes > max_bytes_ - usage_.reserved)) {
      return false;
    }
    if (!machine_.device(device_).memory.try_take(bytes)) return false;
    usage_.reserved += bytes;
    return true;
  };
  if (!reserve()) {
    machine_.pools().release_idle(device_);
    if (!reserve()) return std::nullopt;
  }
  try {
    idle_block made{make_block({bytes, claim(bytes), false}), std::nullopt};
    const std::lock_guard lock{mutex_};
    usage_.reserved_high = std::max(usage_.reserved_high, usage_.reserved);
    return made;
  } catch (...) {
    machine_.device(device_).memory.give_back(bytes);
    const std::lock_guard lock{mutex_};
    usage_.reserved -= bytes;
    throw;
  }
}

std::shared_ptr<pool_block> mem_pool::make_block(const block_pages& pages) {
  auto made = std::make_shared<pool_block>(weak_from_this(), rights_, pages);
  const backing behind{pages.borrowed || is_shareable() ? file_.get() : -1, pages.offset};
  made->placed_at(machine_.addresses().place_block(device_, pages.bytes, made, behind));
  return made;
}

void mem_pool::lend(const idle_block& from, position begin, std::size_t bytes) {
  from.block->lend(std::move(begin), bytes);
  const std::lock_guard lock{mutex_};
  ++blocks_held_;
  usage_.used += from.block->bytes();
  usage_.used_high = std::max(usage_.used_high, usage_.used);
}

void mem_pool::put_idle(idle_block idle) {
  const std::size_t bytes = idle.block->bytes();
  {
    const std::lock_guard lock{mutex_};
    idle_.emplace(bytes, std::move(idle));
  }
  machine_.pools().note_idle(1);
}

void mem_pool::give_up(const pool_block& block) noexcept {
  const block_pages pages = block.pages();
  machine_.addresses().free_allocation(memory_kind::pool_block, block.start());
  if (pages.borrowed) return;
  if (is_shareable()) {
    fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pages.offset,
              static_cast<off_t>(pages.bytes));
  }
  machine_.device(device_).memory.give_back(pages.bytes);
}

off_t mem_pool::claim(std::size_t bytes) {
  const std::size_t page = page_bytes();
  const auto whole = static_cast<off_t>((bytes + page - 1) / page * page);
  const std::lock_guard lock{mutex_};
  return std::exchange(next_offset_, next_offset_ + whole);
}

void free_block(const region& found, stream_queue* freeing) {
  const auto block = std::static_pointer_cast<pool_block>(found.tenant);
  const std::shared_ptr<mem_pool> pool = block->pool();
  require(pool != nullptr);
  pool->take_back(block, freeing);
}

}  // namespace hipvmm::host_provider
