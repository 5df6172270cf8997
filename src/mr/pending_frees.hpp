// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <hipvmm/core/event.hpp>
#include <hipvmm/core/stream.hpp>
#include "vmm/device_work.hpp"

namespace hipvmm::detail {

/// Blocks of a pool of HIP's that were deallocated and that work may still use. They are freed by
/// hipFreeAsync only when that work has passed.
///
/// Blocks that were deallocated without a stream serve nobody until then: no stream is ordered
/// behind that work. Blocks that were deallocated in a stream are kept here because AMD's runtime
///  - gives a block to the stream of its allocation without a wait for the stream of its free, and
///  - blocks the host in hipFreeAsync while the earlier free of a reused block has not passed.
/// Until then such a block serves requests of the stream that freed it, so that memory is reused in
/// stream order as before. Thread-safe; shared by all resources of one pool.
class pending_frees {
 public:
  /// The one of `pool`, which is on `device`; made where no resource of that pool is alive.
  /// Throws: hip_error, std::bad_alloc.
  [[nodiscard]] static std::shared_ptr<pending_frees> of(hipMemPool_t pool, device_ref device);
  explicit pending_frees(device_ref device);
  /// As free_all(). What HIP refused to wait for is never freed.
  ~pending_frees() { free_all(); }
  pending_frees(const pending_frees&) = delete;
  pending_frees& operator=(const pending_frees&) = delete;

  /// Keeps a block of at least `bytes` until all work now in `stream` has passed.
  /// Throws: hip_error, std::bad_alloc; then the block is not kept.
  void add(stream_ref stream, void* pointer, std::size_t bytes);
  /// Keeps a block until all work that `users` have been given so far is over, which a thread of
  /// the library waits for. Returns false, nothing kept, where no thread does. Throws:
  /// std::bad_alloc; then nothing is kept either.
  [[nodiscard]] bool add_without_stream(void* pointer, std::size_t bytes, device_list users);
  /// A kept block for `stream`, at most an eighth larger than `bytes`: of those that the same
  /// stream freed. Returns nullptr where there is none. Throws: hip_error; then nothing changes.
  [[nodiscard]] void* take(stream_ref stream, std::size_t bytes, std::size_t alignment);
  /// The smallest kept block that fits, of any stream: `stream` waits for its free.
  /// Returns nullptr where there is none. Throws: hip_error; then nothing changes.
  [[nodiscard]] void* take_of_any(stream_ref stream, std::size_t bytes, std::size_t alignment);
  /// Notes that HIP gave `pointer` anew: what was known of an earlier block there is forgotten.
  void note_new(void* pointer);

  /// Frees what has passed of `stream`, of one other and of no stream. Waits for nothing.
  void free_some_passed(stream_ref stream) noexcept;
  /// Frees all that has passed. Waits for nothing.
  void free_passed() noexcept;
  /// Waits for the frees made so far, which are of idle blocks: a trim sees only what has passed.
  void wait_for_frees() noexcept;
  /// Waits for the work that uses kept blocks, and frees all of them but those for which HIP
  /// refuses to wait.
  void free_all() noexcept;
  /// As free_all(), for the blocks that were deallocated without a stream, if one of them could
  /// serve a request of `bytes` well.
  void free_fitting_without_stream(std::size_t bytes) noexcept;
  /// Frees at once a block that no work uses any more.
  void free_idle(void* pointer) const noexcept;

  /// Whether there are blocks that were deallocated without a stream.
  [[nodiscard]] bool has_any_without_stream() const noexcept { return count_without_stream_ != 0; }

  /// Bytes of the blocks that are kept.
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct block {
    void* pointer;
    std::size_t bytes;
    event freed;
  };
  /// Blocks in the order in which one stream freed them.
  using blocks = std::list<block>;
  struct block_without_stream {
    void* pointer;
    std::size_t bytes;
    device_list users;
    std::weak_ptr<char> waited_for;
    [[nodiscard]] bool has_passed() const { return waited_for.expired(); }
  };
  using blocks_without_stream = std::list<block_without_stream>;
  /// Streams by handle: of a new stream with an old handle the wait for the event makes up.
  using streams = std::map<ihipStream_t*, blocks>;

  [[nodiscard]] event take_event();
  [[nodiscard]] void* hand_over(stream_ref stream, streams::iterator of, blocks::iterator which,
                                std::size_t bytes);
  [[nodiscard]] std::size_t forget_size(void* pointer, std::size_t bytes);
  void collect_passed(blocks& from, blocks& to);
  void collect_passed(blocks_without_stream& to);
  void free_all_without_stream() noexcept;
  [[nodiscard]] bool wait_until_passed(const event& freed) const noexcept;
  void free(blocks& passed) noexcept;
  void free(const blocks_without_stream& passed) noexcept;

  const stream frees_;  // of nothing but hipFreeAsync
  event freed_;         // behind the last of them
  mutable std::mutex mutex_;
  streams kept_;
  blocks_without_stream without_stream_;
  std::atomic<std::size_t> count_without_stream_{0};
  std::size_t bytes_ = 0;
  ihipStream_t* next_ = nullptr;  // the stream to look at next
  std::vector<event> spare_;
  // Blocks in use that are larger than what was asked for.
  std::unordered_map<void*, std::size_t> larger_;
};

}  // namespace hipvmm::detail
