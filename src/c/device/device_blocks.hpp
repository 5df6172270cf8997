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
#include "core/process_mark.hpp"

namespace hipvmm::c {

/// The table of allocations for libraries that free by pointer alone. Thread-safe.
class device_blocks {
 public:
  /// Never destroyed: a library may free after everything else has ended.
  static device_blocks& shared();

  /// Allocates from the resource that was set for `device`, otherwise from pool_of().
  /// Throws: as the resource; std::bad_alloc; unsupported in a child of fork(), as all but
  /// deallocate() and deallocate_sync(), which do nothing there.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes, device_ref device);
  /// The same for any stream and the host, at once.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, device_ref device);
  /// Both report failures to the error handler: a pointer that is no allocation is one.
  void deallocate(stream_ref stream, void* pointer) noexcept;
  /// The same without a stream, as safe as hipFree.
  void deallocate_sync(void* pointer) noexcept;
  /// Throws: as the first vmm_pool_resource::forget_stream() that throws; a second call is allowed.
  void forget_stream(stream_ref stream);

  /// The pool of a device, made by the first call. It lives as long as the process, or as its
  /// allocations at exit. It does not delay a stream for another one's freed memory: it reuses only
  /// memory whose work is done. Throws: as vmm_pool_resource.
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
  /// Null if `pointer` is null or, after a warning for `function`, no allocation.
  [[nodiscard]] std::optional<block> take(const char* function, void* pointer);

  const detail::process_mark process_;
  std::mutex pools_mutex_;
  std::unordered_map<int, std::shared_ptr<resource_object>> pools_;
  std::mutex mutex_;
  std::unordered_map<void*, block> blocks_;
  std::set<std::weak_ptr<resource_object>, std::owner_less<>> owners_;
};

}  // namespace hipvmm::c
