// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/chunk_cache.hpp>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <compare>
#include <mutex>
#include <tuple>

#include <hipvmm/core/error.hpp>

namespace hipvmm {
namespace {

namespace intrusive = boost::intrusive;

/// Where a kept chunk stands: by what it is, then in the order of creation.
struct position {
  int device;
  handle_type shareable;
  std::size_t bytes;
  std::uint64_t creation_index;

  friend auto operator<=>(const position&, const position&) = default;
};

struct kept_chunk : intrusive::set_base_hook<>, intrusive::list_base_hook<> {
  explicit kept_chunk(physical_chunk&& kept) noexcept : chunk{std::move(kept)} {}
  physical_chunk chunk;
};

struct position_of {
  using type = position;
  position operator()(const kept_chunk& kept) const {
    const physical_chunk& chunk = kept.chunk;
    return {chunk.device().ordinal(), chunk.shareable(), chunk.bytes(), chunk.creation_index()};
  }
};

using by_position = intrusive::set<kept_chunk, intrusive::key_of_value<position_of>>;
using by_age = intrusive::list<kept_chunk>;

/// Chunks on their way back to the driver: released when it dies, which must be outside the lock.
class departing {
 public:
  departing() = default;
  departing(const departing&) = delete;
  departing& operator=(const departing&) = delete;
  ~departing() { chunks_.clear_and_dispose(std::default_delete<kept_chunk>{}); }
  void add(kept_chunk& kept) { chunks_.push_back(kept); }

 private:
  by_age chunks_;
};

}  // namespace

struct chunk_cache::state {
  explicit state(std::size_t limit) : byte_limit{limit} {}

  void take_out(kept_chunk& kept) {
    chunks.erase(chunks.iterator_to(kept));
    ages.erase(ages.iterator_to(kept));
    statistics.bytes -= kept.chunk.bytes();
    --statistics.chunks;
  }
  void drop(kept_chunk& kept, departing& out) {
    take_out(kept);
    out.add(kept);
    ++statistics.dropped;
  }
  /// Takes out what exceeds `bytes_to_keep`, those kept longest first; returns its bytes.
  std::size_t drop_down_to(std::size_t bytes_to_keep, departing& out) {
    const std::size_t before = statistics.bytes;
    while (statistics.bytes > bytes_to_keep) drop(ages.front(), out);
    return before - statistics.bytes;
  }
  /// Takes out all chunks of a device.
  void drop_device(device_ref device, departing& out) {
    for (auto at = ages.begin(); at != ages.end();) {
      kept_chunk& kept = *at++;
      if (kept.chunk.device() == device) drop(kept, out);
    }
  }

  mutable std::mutex mutex;
  by_position chunks;
  by_age ages;
  chunk_cache_statistics statistics{};
  std::size_t byte_limit;
};

chunk_cache& chunk_cache::shared() {
  // Never destroyed: regions of static storage may return chunks while the process exits.
  static auto& cache = *new chunk_cache{};
  return cache;
}

chunk_cache::chunk_cache(std::size_t byte_limit) : state_{std::make_unique<state>(byte_limit)} {}

chunk_cache::~chunk_cache() { trim(); }

physical_chunk chunk_cache::acquire(device_ref device, std::size_t bytes, handle_type shareable) {
  {
    const std::lock_guard lock{state_->mutex};
    const auto at = state_->chunks.lower_bound(position{device.ordinal(), shareable, bytes, 0});
    if (at != state_->chunks.end() && at->chunk.device() == device && at->chunk.bytes() == bytes &&
        at->chunk.shareable() == shareable) {
      state_->take_out(*at);
      ++state_->statistics.hits;
      const std::unique_ptr<kept_chunk> kept{&*at};
      return std::move(kept->chunk);
    }
    ++state_->statistics.misses;
  }
  try {
    return physical_chunk{device, bytes, shareable};
  } catch (const out_of_memory&) {
    departing full_device;
    {
      const std::lock_guard lock{state_->mutex};
      const std::size_t before = state_->statistics.bytes;
      state_->drop_device(device, full_device);
      if (state_->statistics.bytes == before) throw;
    }
  }
  return physical_chunk{device, bytes, shareable};
}

void chunk_cache::recycle(physical_chunk chunk) noexcept {
  if (chunk.empty() || chunk.shared()) return;
  auto kept = std::unique_ptr<kept_chunk>{new (std::nothrow) kept_chunk{std::move(chunk)}};
  if (!kept) return;
  departing out;
  const std::lock_guard lock{state_->mutex};
  if (kept->chunk.bytes() > state_->byte_limit) {
    ++state_->statistics.dropped;
    return out.add(*kept.release());
  }
  state_->statistics.bytes += kept->chunk.bytes();
  ++state_->statistics.chunks;
  state_->chunks.insert(*kept);
  state_->ages.push_back(*kept.release());
  state_->drop_down_to(state_->byte_limit, out);
}

std::size_t chunk_cache::trim(std::size_t bytes_to_keep) noexcept {
  departing out;
  const std::lock_guard lock{state_->mutex};
  return state_->drop_down_to(bytes_to_keep, out);
}

void chunk_cache::set_byte_limit(std::size_t byte_limit) noexcept {
  departing out;
  const std::lock_guard lock{state_->mutex};
  state_->byte_limit = byte_limit;
  state_->drop_down_to(byte_limit, out);
}

std::size_t chunk_cache::byte_limit() const noexcept {
  const std::lock_guard lock{state_->mutex};
  return state_->byte_limit;
}

chunk_cache_statistics chunk_cache::statistics() const noexcept {
  const std::lock_guard lock{state_->mutex};
  return state_->statistics;
}

}  // namespace hipvmm
