// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <exception>
#include <list>
#include <map>
#include <mutex>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace bench {

/// When a locked_pool records the event that another stream waits for.
enum class marking {
  when_wanted,           ///< by the stream that takes the memory: covers more, costs less
  at_each_deallocation,  ///< as RMM's pool does
};

/// The usual pool of device memory: one mutex, and for each stream one list of free blocks in the
/// order of addresses, searched for the best fit from its front and joined with their neighbours
/// when blocks come back. A stream that has nothing takes the blocks of other streams and waits for
/// their events; then the pool grows by hipMalloc, by 64 MiB at least, and never shrinks. A
/// baseline, written anew from the known behaviour of RMM's pool_memory_resource.
class locked_pool final : public hipvmm::mr::memory_resource {
 public:
  locked_pool(hipvmm::device_ref device, marking when);
  ~locked_pool() override;
  locked_pool(const locked_pool&) = delete;
  locked_pool& operator=(const locked_pool&) = delete;

 private:
  struct block {
    char* at;
    std::size_t bytes;
  };
  using block_list = std::list<block>;  // in the order of addresses, no two that could be one
  struct stream_blocks {
    block_list free = {};
    hipvmm::event given_back;  // reached when all of `free` may be used by anybody
  };

  void* do_allocate(hipvmm::stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(hipvmm::stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  [[nodiscard]] stream_blocks& blocks_of(hipvmm::stream_ref stream);
  /// Adds a block, joined with its neighbours.
  void insert(block_list& free, block one);
  /// `behind` begins at the end of `one`, and both came from one call of hipMalloc.
  [[nodiscard]] bool touch(const block& one, const block& behind) const;
  void take_from_others(hipvmm::stream_ref stream, block_list& free);
  void grow(block_list& free, std::size_t bytes);

  marking when_;
  hipvmm::mr::hip_resource upstream_;
  hipvmm::stream sync_stream_;
  std::mutex mutex_;
  std::map<ihipStream_t*, stream_blocks> streams_;
  std::map<char*, std::size_t> slabs_;  // memory of hipMalloc
  std::exception_ptr failure_;  // of a deallocation, which lost memory: told by the next call
};

}  // namespace bench
