// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hipvmm/torch.h>
#include <hipvmm/mr/pool/pool_options.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "core/observers/memory_events.hpp"
#include "mr/pool/graph_blocks.hpp"

namespace hipvmm::c {

/// PyTorch's allocator for one device, on a pool. Thread-safe. An allocation that is used in its
/// own stream only, outside of captures, goes to the pool without a lock or a look-up here, because
/// PyTorch keeps its stream and size.
class torch_pool {
 public:
  /// PyTorch's name of the graphs that share memory.
  using graphs_id = std::pair<unsigned long long, unsigned long long>;
  using stream_filter = std::function<bool(ihipStream_t*)>;

  /// Reuses only memory whose work is done, so that no stream waits for another's memory.
  torch_pool(device_ref device, const mr::pool_options& options);
  torch_pool& operator=(torch_pool&&) = delete;

  [[nodiscard]] mr::vmm_pool_resource& pool() noexcept { return pool_; }
  [[nodiscard]] std::size_t allocated() const noexcept { return in_use().bytes; }
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }
  [[nodiscard]] hipvmm_torch_statistics statistics() const noexcept;
  void reset_peaks();

  /// Throws: as the pool; out_of_memory beyond set_limit().
  [[nodiscard]] void* allocate(std::size_t bytes, stream_ref stream);
  void deallocate(void* pointer, std::size_t bytes, stream_ref stream) noexcept;
  /// Throws: std::bad_alloc; then the use was not recorded.
  void record_stream(void* pointer, stream_ref stream);
  void erase_stream(void* pointer, stream_ref stream) noexcept;

  /// As the functions of torch.h. Throw: std::bad_alloc.
  void begin_graphs(graphs_id id, stream_filter filter);
  void end_graphs(graphs_id id) noexcept;
  void release_graphs(graphs_id id) noexcept;

  void set_limit(std::size_t bytes) noexcept { limit_ = bytes; }
  void release_idle();

 private:
  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

  struct graphs {
    explicit graphs(mr::vmm_pool_resource& pool) : blocks{pool} {}

    mr::pool::graph_blocks blocks;
    std::size_t users = 0;  // calls of begin_graphs() without release_graphs()
  };
  using graphs_map = std::map<graphs_id, graphs>;
  struct pool_choice {
    graphs_id id;
    std::shared_ptr<const stream_filter> filter;  // null: all streams
  };
  /// An allocation whose stream and size, as PyTorch keeps them, do not suffice to free it.
  struct recorded_use {
    graphs_map::iterator owner;  // end(): the pool
    std::vector<stream_ref> users;
  };
  using use_map = std::unordered_map<void*, recorded_use>;
  struct deferred_free {
    void* pointer;
    std::size_t bytes;
    stream_ref stream;
    std::vector<stream_ref> users;
  };

  /// A lock; the library's callbacks run after its end, because they may allocate and deallocate.
  class locked {
   public:
    explicit locked(torch_pool& of) : lock_{of.mutex_} {}

   private:
    const detail::callbacks_wait until_unlocked_;
    const std::lock_guard<std::mutex> lock_;
  };

  /// Sums that only grow, so that each call changes one; the current use is the difference of two.
  struct sums {
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> count{0};

    void add(std::size_t more) noexcept {
      bytes.fetch_add(more, std::memory_order_relaxed);
      count.fetch_add(1, std::memory_order_relaxed);
    }
  };
  struct usage {
    std::size_t bytes;
    std::uint64_t count;
  };

  [[nodiscard]] usage in_use() const noexcept;
  void count(std::size_t bytes) noexcept;
  void require_below_limit(std::size_t bytes) const;
  /// The graphs whose filter accepts a stream. Filters run without the lock, and in the pool's
  /// memory: they may allocate and deallocate.
  [[nodiscard]] std::optional<graphs_id> graphs_of(stream_ref stream);
  void* allocate_in_graphs(std::size_t bytes, stream_ref stream);
  /// These return false if the pool refused the block, and true if they postpone its deallocation.
  bool deallocate_now(void* pointer, std::size_t bytes, stream_ref stream);
  bool deallocate_recorded(use_map::iterator found, std::size_t bytes, stream_ref stream);
  bool deallocate_after(void* pointer, std::size_t bytes, stream_ref stream,
                        const std::vector<stream_ref>& users);
  /// Makes waiting_ wait for the streams. Returns false if one does not exist. Throws: hip_error.
  [[nodiscard]] bool wait_for_users(stream_ref stream, const std::vector<stream_ref>& users);
  /// Complete after the present work of the streams; empty if that is unknown.
  [[nodiscard]] std::optional<event> last_use(stream_ref stream,
                                              const std::vector<stream_ref>& users) noexcept;
  [[nodiscard]] std::vector<pool_choice>::iterator find_pool_choice(graphs_id id) noexcept;
  [[nodiscard]] static bool any_captures(stream_ref stream, const std::vector<stream_ref>& users);
  void retry_put_off();
  void release_unused(graphs_map::iterator owner) noexcept;

  mr::vmm_pool_resource pool_;
  sums allocations_;
  sums deallocations_;
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::uint64_t> refusals_{0};
  std::atomic<std::size_t> limit_{no_limit};

  // The number of entries in the members below, nearly always 0.
  std::atomic<std::size_t> entries_{0};
  std::mutex mutex_;
  graphs_map graphs_;
  std::vector<pool_choice> pool_choices_;
  use_map recorded_uses_;
  std::vector<deferred_free> deferred_frees_;
  // Waits for all streams that used an allocation, in place of any of them.
  std::optional<stream> waiting_;
};

}  // namespace hipvmm::c
