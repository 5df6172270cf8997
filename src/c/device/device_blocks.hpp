// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "c/objects.hpp"

namespace hipvmm::c {

/// Memory for libraries that free by pointer alone: what is known of each allocation. Thread-safe.
class device_blocks {
 public:
  /// Never destroyed: a library may free after everything else has ended.
  static device_blocks& shared();

  /// Allocates from the resource that was set for `device`, or from pool_of() where none was.
  /// Throws: as the resource; std::bad_alloc.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes, device_ref device);
  /// The same for any stream and the host, at once.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, device_ref device);
  /// Both report failures to the error handler: a pointer that is no allocation is one.
  void deallocate(stream_ref stream, void* pointer) noexcept;
  /// The same without a stream, as safe as hipFree.
  void deallocate_sync(void* pointer) noexcept;
  /// Throws: as vmm_pool_resource::forget_stream(), for the first that does; then again is allowed.
  void forget_stream(stream_ref stream);

  /// The pool of a device, made if need be, which lives as long as the process, or as what is
  /// allocated from it at exit. It makes no stream wait for another whose memory it takes: it takes
  /// what is done. Throws: as vmm_pool_resource.
  [[nodiscard]] std::shared_ptr<resource_object> pool_of(device_ref device);

 private:
  void release_pools() noexcept;

  struct block {
    std::shared_ptr<resource_object> owner;
    std::size_t bytes;
    stream_ref stream;
    std::thread::id thread;  // of the allocation: default streams of threads differ
    bool is_stream_known;    // false: there was none, or it was forgotten
  };

  [[nodiscard]] std::shared_ptr<resource_object> source_of(device_ref device);
  void add(void* pointer, block made);
  /// Null where `pointer` is null or, after a warning for `function`, no allocation.
  [[nodiscard]] std::optional<block> take(const char* function, void* pointer);

  std::mutex pools_mutex_;
  std::unordered_map<int, std::shared_ptr<resource_object>> pools_;
  std::mutex mutex_;
  std::unordered_map<void*, block> blocks_;
  std::set<std::weak_ptr<resource_object>, std::owner_less<>> owners_;
};

}  // namespace hipvmm::c
