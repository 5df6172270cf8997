// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hipvmm/hipvmm.h>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/pool/pool_options.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include "c/configured_budget.hpp"
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"
#include "core/check.hpp"
#include "core/observers/memory_events.hpp"
#include "core/owner_process.hpp"
#include "mr/resource/set_resource.hpp"

namespace hipvmm::c {
namespace {

void forget_in(const resource_object& object, stream_ref stream) {
  const auto forget = [&](auto* pool) {
    if (pool != nullptr) pool->forget_stream(stream);
  };
  forget(dynamic_cast<mr::vmm_pool_resource*>(object.resource));
  forget(dynamic_cast<mr::arena_resource*>(object.resource));
  forget(dynamic_cast<mr::fixed_size_resource*>(object.resource));
  forget(dynamic_cast<mr::binning_resource*>(object.resource));
  if (object.upstream != nullptr) forget_in(*object.upstream, stream);
  std::vector<std::shared_ptr<resource_object>> bins;
  {
    const std::lock_guard lock{resource_object::bins_mutex()};
    bins = object.bins;
  }
  for (const auto& each : bins) forget_in(*each, stream);
}

/// The table of allocations for libraries that free by pointer alone. Thread-safe.
class device_blocks {
 public:
  /// Never destroyed: a library may free after everything else has ended.
  static device_blocks& shared();

  /// Allocates in a stream or, without one, for any stream and the host at once; from the resource
  /// set for `device`, otherwise from pool_of().
  /// Throws: as the resource; std::bad_alloc. In a child of fork() the deallocations do nothing,
  /// and all other functions throw unsupported.
  [[nodiscard]] void* allocate(std::optional<stream_ref> stream, std::size_t bytes,
                               device_ref device);
  /// Failures go to the error handler, also that `pointer` is no allocation.
  void deallocate(stream_ref stream, void* pointer) noexcept;
  void deallocate_sync(void* pointer) noexcept;
  /// Throws: as vmm_pool_resource::forget_stream(); the call may then be repeated.
  void forget_stream(stream_ref stream);

  /// As hipvmm_device_pool(). Throws: as vmm_pool_resource.
  [[nodiscard]] std::shared_ptr<resource_object> pool_of(device_ref device);

 private:
  void release_pools() noexcept;

  struct block {
    std::shared_ptr<resource_object> owner;
    std::size_t bytes;
    stream_ref stream;
    std::thread::id thread;  // of the allocation: each thread has its own default stream
    bool is_stream_known;    // false: there was none, or it was forgotten
  };

  [[nodiscard]] std::shared_ptr<resource_object> source_of(device_ref device);
  void add(void* pointer, block made);
  /// nullopt if `pointer` is null or, after a warning for `function`, no allocation.
  [[nodiscard]] std::optional<block> take(const char* function, void* pointer);

  const detail::owner_process process_;
  std::mutex pools_mutex_;
  std::unordered_map<int, std::shared_ptr<resource_object>> pools_;
  std::mutex mutex_;
  std::unordered_map<void*, block> blocks_;
  std::set<std::weak_ptr<resource_object>, std::owner_less<>> owners_;
};

device_blocks& device_blocks::shared() {
  static auto& blocks = *std::make_unique<device_blocks>().release();
  return blocks;
}

std::shared_ptr<resource_object> device_blocks::pool_of(device_ref device) {
  process_.require_own();
  require_device(device);
  const detail::callbacks_wait until_unlocked;  // callbacks may ask for the pool too
  const std::lock_guard lock{pools_mutex_};
  std::shared_ptr<resource_object>& entry = pools_[device.ordinal()];
  if (entry != nullptr) return entry;
  mr::pool_options options = pool_settings(device, nullptr);
  options.reuse.allow_internal_dependencies = false;
  if (options.access.entries().empty()) options.access = all_reachable_peers(device);
  join_configured_budget(device, configured_budget(device));
  entry = pool_object(device, options);
  // Registered after the first pool has made its static objects, so that it runs before they end.
  static const bool registered = std::atexit([] { shared().release_pools(); }) == 0;
  static_cast<void>(registered);
  return entry;
}

void device_blocks::release_pools() noexcept {
  // Threads that a child of fork() lacks may hold the lock.
  if (process_.is_of_parent()) return;
  detail::report_exceptions([&] {
    decltype(pools_) ended;  // ends after the unlock; blocks keep their pools
    const std::lock_guard lock{pools_mutex_};
    ended.swap(pools_);
  });
}

std::shared_ptr<resource_object> device_blocks::source_of(device_ref device) {
  return detail::has_initial_resource(device) ? pool_of(device) : resource_of(device);
}

void device_blocks::add(void* pointer, block made) {
  const std::lock_guard lock{mutex_};
  if (made.owner->owned != nullptr) owners_.insert(made.owner);
  blocks_.insert_or_assign(pointer, std::move(made));
}

std::optional<device_blocks::block> device_blocks::take(const char* function, void* pointer) {
  if (pointer == nullptr || process_.is_of_parent()) return std::nullopt;
  std::unique_lock lock{mutex_};
  auto taken = blocks_.extract(pointer);
  lock.unlock();
  if (!taken.empty()) return std::move(taken.mapped());
  detail::warn(function,
               "a pointer is freed that hipvmm_device_allocate() and its like did not return, or "
               "was freed before: nothing was done");
  return std::nullopt;
}

void* device_blocks::allocate(std::optional<stream_ref> stream, std::size_t bytes,
                              device_ref device) {
  process_.require_own();
  require_device(device);
  if (bytes == 0) return nullptr;
  block made{source_of(device), bytes, stream_of(nullptr), {}, stream.has_value()};
  std::optional<default_stream_scope> current;
  if (stream) {
    made.stream = *stream;
    made.thread = std::this_thread::get_id();
    current.emplace(device, stream->get());
  }
  mr::memory_resource& from = *made.owner->resource;
  void* const pointer = stream ? from.allocate(*stream, bytes) : from.allocate_sync(bytes);
  try {
    add(pointer, made);
  } catch (...) {
    if (stream)
      from.deallocate(*stream, pointer, bytes);
    else
      from.deallocate_sync(pointer, bytes);
    throw;
  }
  return pointer;
}

void device_blocks::deallocate(stream_ref stream, void* pointer) noexcept {
  detail::report_exceptions([&] {
    const std::optional<block> freed = take("hipvmm_device_deallocate", pointer);
    if (!freed) return;
    mr::memory_resource* const from = freed->owner->resource;
    const bool is_ordered =
        (freed->is_stream_known || stream != freed->stream) &&
        (!stream.is_per_thread_default() || freed->thread == std::this_thread::get_id());
    const auto device = from->device();
    if (!is_ordered) {
      from->deallocate_sync(pointer, freed->bytes);
    } else if (device) {
      mr::deallocate_under(*device, from, stream, pointer, freed->bytes);
    } else {
      from->deallocate(stream, pointer, freed->bytes);
    }
  });
}

void device_blocks::deallocate_sync(void* pointer) noexcept {
  detail::report_exceptions([&] {
    if (const auto freed = take("hipvmm_device_deallocate_sync", pointer))
      freed->owner->resource->deallocate_sync(pointer, freed->bytes);
  });
}

void device_blocks::forget_stream(stream_ref stream) {
  process_.require_own();
  std::vector<std::shared_ptr<resource_object>> owners;
  {
    const std::lock_guard lock{mutex_};
    for (auto each = owners_.begin(); each != owners_.end();) {
      if (auto owner = each->lock()) {
        owners.push_back(std::move(owner));
        ++each;
      } else {
        each = owners_.erase(each);
      }
    }
    for (auto& [pointer, known] : blocks_)
      if (known.stream == stream) known.is_stream_known = false;
  }
  for (const auto& owner : owners) forget_in(*owner, stream);
}

}  // namespace

extern "C" {

void* hipvmm_device_allocate(void* stream, size_t bytes, int device) {
  void* pointer = nullptr;
  static_cast<void>(guarded(__func__, [&] {
    pointer = device_blocks::shared().allocate(stream_of(stream), bytes, device_of(device));
  }));
  return pointer;
}

void hipvmm_device_deallocate(void* stream, void* pointer, int) {
  // The process that makes the blocks keeps them, so null makes none.
  if (pointer == nullptr) return;
  detail::report_exceptions(
      [&] { device_blocks::shared().deallocate(stream_of(stream), pointer); });
}

void* hipvmm_device_allocate_sync(size_t bytes, int device) {
  void* pointer = nullptr;
  static_cast<void>(guarded(__func__, [&] {
    pointer = device_blocks::shared().allocate(std::nullopt, bytes, device_of(device));
  }));
  return pointer;
}

void hipvmm_device_deallocate_sync(void* pointer) {
  if (pointer == nullptr) return;
  device_blocks::shared().deallocate_sync(pointer);
}

hipvmm_status hipvmm_device_forget_stream(void* stream) {
  return guarded(__func__, [&] { device_blocks::shared().forget_stream(stream_of(stream)); });
}

hipvmm_status hipvmm_device_pool(int device, hipvmm_resource* pool) {
  return create(__func__, pool, "pool",
                [&] { return device_blocks::shared().pool_of(device_of(device)); });
}
}

}  // namespace hipvmm::c
