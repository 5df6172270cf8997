// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "region/device_work.hpp"

namespace hipvmm::detail {

/// Blocks of a HIP pool that were deallocated and that work may still use. hipFreeAsync frees them
/// only after that work. Thread-safe; shared by all resources of one pool.
/// - Blocks deallocated without a stream are not reused until then: no stream follows that work.
/// - Blocks deallocated in a stream are kept because AMD's runtime reuses a block in the stream of
///   its allocation without waiting for the stream of its free, and blocks the host in hipFreeAsync
///   until the earlier free of a reused block has passed. Meanwhile such a block serves requests of
///   the stream that freed it, so that memory is still reused in stream order.
class pending_frees {
 public:
  /// Makes one if no resource of `pool` is alive. Throws: hip_error, std::bad_alloc.
  [[nodiscard]] static std::shared_ptr<pending_frees> of(hipMemPool_t pool, device_ref device);
  explicit pending_frees(device_ref device);
  /// As free_all(). Blocks are lost if HIP refuses to wait, or to free them for capture_patience.
  ~pending_frees();
  pending_frees& operator=(pending_frees&&) = delete;

  /// Keeps a block of at least `bytes` until all work now in `stream` has passed; frees it at once
  /// if that needs no event. Throws: hip_error, std::bad_alloc; then the block is not kept.
  void add(stream_ref stream, void* pointer, std::size_t bytes);
  /// Keeps a block until all work submitted to `users` so far is done; a thread of the library
  /// waits. Returns false if no thread can, and throws std::bad_alloc; then nothing is kept.
  [[nodiscard]] bool add_without_stream(void* pointer, std::size_t bytes, device_list users);
  /// Takes a block, at most an eighth larger than `bytes`, that `stream` freed, or whose free HIP
  /// refused. Returns nullptr without one. Throws: hip_error, std::bad_alloc; nothing changes.
  [[nodiscard]] void* take(stream_ref stream, std::size_t bytes, std::size_t alignment);
  /// Takes the smallest kept block that fits, of any stream, and makes `stream` wait for its free.
  /// Returns and throws as take().
  [[nodiscard]] void* take_of_any(stream_ref stream, std::size_t bytes, std::size_t alignment);
  /// HIP allocated `pointer` anew: forgets an earlier block at that address.
  void note_new(void* pointer);

  /// Frees blocks whose work has passed, unless earlier frees are under way, and does not wait:
  /// all, or with `only` those of that stream, of one other stream and of no stream.
  void free_passed(std::optional<stream_ref> only = {}) noexcept;
  /// Waits for the frees made so far: a trim releases only blocks whose free has passed.
  void wait_for_frees() noexcept;
  /// Waits for the work that uses kept blocks; frees all but those for which HIP refuses to wait.
  void free_all() noexcept;
  /// As free_all(), for blocks deallocated without a stream, if one of them fits `bytes` well.
  void free_fitting_without_stream(std::size_t bytes) noexcept;
  /// Frees a block that no work uses any more: at once, or at a later call if HIP refuses, as AMD's
  /// runtime does while a blocking stream is captured.
  void free_idle(void* pointer, std::size_t bytes) noexcept;

  /// Also true while a call waits for any blocks or frees them.
  [[nodiscard]] bool has_any_without_stream() const;

  [[nodiscard]] std::size_t bytes() const;

 private:
  struct block {
    void* pointer;
    std::size_t bytes;
    std::optional<event> freed = {};
    device_list users = {};  // waited for if it was deallocated without a stream
    std::weak_ptr<char> waited_for = {};
    [[nodiscard]] bool has_passed() const {
      return freed ? freed->is_done() : waited_for.expired();
    }
  };
  /// In the order in which they were deallocated, as they are waited for.
  using blocks = std::list<block>;
  /// The handle of a stream; nothing for blocks that were deallocated without one. For a new stream
  /// with a reused handle, the wait for the event provides the order.
  using stream_key = std::optional<ihipStream_t*>;
  using streams = std::map<stream_key, blocks>;

  [[nodiscard]] event take_event(stream_ref stream);
  [[nodiscard]] void* take_for(stream_ref stream, streams::iterator of, blocks::iterator which,
                               std::size_t bytes);
  [[nodiscard]] std::size_t forget_size(void* pointer, std::size_t bytes);
  [[nodiscard]] static std::size_t bytes_of(const blocks& of) noexcept;
  /// Takes blocks out by `take(taken)`, waits for the work that uses them, and frees them. Those
  /// for which HIP refuses to wait return to their lists. Pre: waiting_ is held.
  template <typename Take>
  void wait_and_free(Take take) noexcept;
  [[nodiscard]] bool wait_until_passed(const event& freed) const noexcept;
  /// Frees the blocks that HIP refused to free. Returns whether none is left.
  bool retry_refused() noexcept;
  /// Frees idle blocks, which waited_bytes_ counts; keeps those that HIP refuses.
  void free(blocks& passed) noexcept;

  const stream frees_;  // used for hipFreeAsync only
  // Locked in this order. A call that finds no memory waits for the calls that release some.
  std::mutex waiting_;  // held from a wait for kept blocks to the end of their frees
  std::mutex freeing_;  // held by free_passed() and wait_for_frees()
  mutable std::mutex mutex_;
  streams kept_;
  blocks refused_;                // idle
  std::size_t waited_bytes_ = 0;  // of blocks in no list: a call waits for them, or frees them
  stream_key next_;               // the stream to check next
  std::vector<event> spare_;
  // Blocks in use that are larger than requested.
  std::unordered_map<void*, std::size_t> larger_;
};

}  // namespace hipvmm::detail
