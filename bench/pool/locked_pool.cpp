// SPDX-License-Identifier: MIT
#include "locked_pool.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>

namespace bench {
namespace {

constexpr std::size_t unit = hipvmm::mr::memory_resource::default_alignment;
constexpr std::size_t least_slab = 64 * hipvmm::MiB;

}  // namespace

locked_pool::locked_pool(hipvmm::device_ref device, marking when)
    : when_{when}, upstream_{device}, sync_stream_{device} {}

locked_pool::~locked_pool() {
  for (const auto& [at, bytes] : slabs_) upstream_.deallocate_sync(at, bytes);
}

locked_pool::stream_blocks& locked_pool::blocks_of(hipvmm::stream_ref stream) {
  const auto found = streams_.find(stream.get());
  if (found != streams_.end()) return found->second;
  return streams_.emplace(stream.get(), stream_blocks{{}, hipvmm::event{sync_stream_.device()}})
      .first->second;
}

bool locked_pool::touch(const block& one, const block& behind) const {
  return one.at + one.bytes == behind.at && slabs_.count(behind.at) == 0;
}

void locked_pool::insert(block_list& free, block one) {
  const auto behind =
      std::find_if(free.begin(), free.end(), [&](const block& each) { return each.at > one.at; });
  const bool joins_behind = behind != free.end() && touch(one, *behind);
  if (behind != free.begin() && touch(*std::prev(behind), one)) {
    block& before = *std::prev(behind);
    before.bytes += one.bytes;
    if (!joins_behind) return;
    before.bytes += behind->bytes;
    free.erase(behind);
  } else if (joins_behind) {
    *behind = {one.at, one.bytes + behind->bytes};
  } else {
    free.insert(behind, one);
  }
}

void locked_pool::take_from_others(hipvmm::stream_ref stream, block_list& free) {
  for (auto& [name, other] : streams_) {
    if (&other.free == &free || other.free.empty()) continue;
    if (when_ == marking::when_wanted) other.given_back.record(name);
    stream.wait(other.given_back);
    for (const block& each : other.free) insert(free, each);
    other.free.clear();
  }
}

void locked_pool::grow(block_list& free, std::size_t bytes) {
  const std::size_t more = std::max(bytes, least_slab);
  auto* const slab = static_cast<char*>(upstream_.allocate_sync(more));
  slabs_.emplace(slab, more);
  insert(free, {slab, more});
}

void* locked_pool::do_allocate(hipvmm::stream_ref stream, std::size_t bytes,
                               std::size_t alignment) {
  if (alignment > unit)
    throw std::invalid_argument{"locked_pool: no alignment above " + std::to_string(unit)};
  const std::size_t wanted = hipvmm::align_up(bytes, unit);
  const std::lock_guard lock{mutex_};
  if (failure_) std::rethrow_exception(failure_);
  block_list& free = blocks_of(stream).free;
  const auto take = [&]() -> void* {
    auto best = free.end();
    for (auto at = free.begin(); at != free.end(); ++at) {
      if (at->bytes < wanted || (best != free.end() && at->bytes >= best->bytes)) continue;
      best = at;
      if (at->bytes == wanted) break;
    }
    if (best == free.end()) return nullptr;
    void* const taken = best->at;
    if (best->bytes == wanted)
      free.erase(best);
    else
      *best = {best->at + wanted, best->bytes - wanted};
    return taken;
  };
  if (void* const taken = take()) return taken;
  take_from_others(stream, free);
  if (void* const taken = take()) return taken;
  grow(free, wanted);
  return take();
}

void locked_pool::do_deallocate(hipvmm::stream_ref stream, void* pointer, std::size_t bytes,
                                std::size_t) noexcept {
  const std::lock_guard lock{mutex_};
  try {
    stream_blocks& blocks = blocks_of(stream);
    if (when_ == marking::at_each_deallocation) blocks.given_back.record(stream);
    insert(blocks.free, {static_cast<char*>(pointer), hipvmm::align_up(bytes, unit)});
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void* locked_pool::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  void* const pointer = do_allocate(sync_stream_, bytes, alignment);
  sync_stream_.synchronize();
  return pointer;
}

void locked_pool::do_deallocate_sync(void* pointer, std::size_t bytes,
                                     std::size_t alignment) noexcept {
  do_deallocate(sync_stream_, pointer, bytes, alignment);
}

}  // namespace bench
