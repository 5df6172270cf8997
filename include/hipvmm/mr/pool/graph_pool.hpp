// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Used bytes are of requests rounded up to 512 bytes.
struct graph_pool_statistics {
  std::size_t held_bytes;  ///< from the upstream
  std::size_t used_bytes;  ///< allocated now
  std::size_t peak_bytes;  ///< most allocated at once since the newest capture began
  std::uint64_t captures;  ///< that have allocated or freed memory
};

/// Memory of a graph, or of graphs that never run at once. Keep it while they may be launched.
/// - Only a stream that is being captured allocates. Other requests, allocate_sync() too, throw
///   std::logic_error, because each launch of a graph overwrites the memory.
/// - Memory freed in the capture serves the capture again: in the stream of the free, and in
///   streams of the capture that events order after the free. If HIP does not list the edge
///   between two streams (CUDA's programmatic edges), freed memory serves only its own stream.
/// - Memory freed elsewhere, or by deallocate_sync(), serves the next capture. The caller orders
///   work outside of the graphs, such as a copy of a result, before the next launch.
/// - A new capture may have all memory that is not allocated, in any stream. So no two captures may
///   interleave: once the newer has begun, requests of the older throw std::logic_error.
/// - After a capture that failed, free its memory, or call release().
/// - The upstream must serve captured streams: a vmm_pool_resource, an arena_resource, or an
///   adaptor of one. A segment has 2 or 20 MiB; a request of 10 MiB or more gets its own.
/// - Any number of threads may use it.
/// Pre: streams of a capture live until it has ended. Another stream with the same handle would get
/// the memory that they freed.
/// Cost: a request searches all blocks. If it finds none for its stream, it asks HIP for the edges
/// of the graph.
class graph_pool final : public resource_adaptor {
 public:
  explicit graph_pool(memory_resource* upstream);
  ~graph_pool() override;  ///< as release()

  /// Returns all memory to the upstream by deallocate_sync(), allocated memory too. Does not wait.
  /// Pre: no capture under way uses the memory, and no graph that does is launched any more.
  void release() noexcept;
  [[nodiscard]] graph_pool_statistics statistics() const;

 private:
  struct state;

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  std::unique_ptr<state> state_;
};

}  // namespace hipvmm::mr
