// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hipvmm/hipvmm.h>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/ipc/attached_region.hpp>
#include <hipvmm/ipc/budget/memory_budget.hpp>
#include <hipvmm/ipc/publication.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool/pool_options.hpp>
#include <hipvmm/region/memory_checkpoint.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/sleep/evictable.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/idle/pressure_subscription.hpp>
#include "c/guard.hpp"
#include "c/handle_table.hpp"
#include "core/observers/memory_events.hpp"
#include "core/owner_process.hpp"

namespace hipvmm::c {

struct resource_object {
  static constexpr handle_kind handle = handle_kind::resource;

  const char* kind;
  std::shared_ptr<resource_object> upstream;           // outlives `owned`, as bins do
  std::vector<std::shared_ptr<resource_object>> bins;  // with bins_mutex()
  std::unique_ptr<mr::memory_resource> owned;  // null for one that C++ code of the program set
  mr::memory_resource* resource;
  detail::owner_process process;

  resource_object(const char* name, std::shared_ptr<resource_object> from,
                  std::unique_ptr<mr::memory_resource> made) noexcept
      : kind{name}, upstream{std::move(from)}, owned{std::move(made)}, resource{owned.get()} {}
  resource_object(const char* name, mr::memory_resource& others) noexcept
      : kind{name}, resource{&others} {}
  resource_object& operator=(resource_object&&) = delete;
  /// In a child of fork() the resource's memory is its parent's.
  ~resource_object() {
    if (process.is_of_parent()) static_cast<void>(owned.release());
  }

  /// Guards the bins of all resources, so that no two threads make a circle of them.
  [[nodiscard]] static std::mutex& bins_mutex() noexcept;
  /// Pre: bins_mutex() is locked.
  [[nodiscard]] bool uses(const resource_object& other) const noexcept;

  /// Throws: invalid_handle, which names both kinds, if the resource is no `Resource`.
  template <typename Resource>
  [[nodiscard]] Resource& as(const char* expected) const {
    if (auto* const found = dynamic_cast<Resource*>(resource)) return *found;
    throw invalid_handle{std::string{"a resource of the kind "} + expected +
                         " is expected, and this one is " + kind};
  }
};

[[nodiscard]] std::shared_ptr<resource_object> pool_object(device_ref device,
                                                           const mr::pool_options& options);

/// The lock of an object that serves one call at a time. lock() throws
/// - bad_argument if the calling thread has the lock: a call from a callback or the error handler
///   would wait for itself;
/// - unsupported in a child of fork(): the calls of the parent's other threads never end there, and
///   HIP does not know the memory. To destroy an object needs no lock.
class call_mutex {
 public:
  void lock();
  [[nodiscard]] bool try_lock_for(std::chrono::milliseconds patience);
  void unlock() noexcept;
  [[nodiscard]] bool is_of_caller() const noexcept {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id() &&
           !process_.is_of_parent();
  }

 private:
  void require_usable() const;

  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
  const detail::owner_process process_;
};

struct buffer_object {
  static constexpr handle_kind handle = handle_kind::buffer;

  std::shared_ptr<resource_object> source;  // null: chunks
  call_mutex mutex;
  growable_device_vector<unsigned char> bytes;

  buffer_object(std::shared_ptr<resource_object> from, device_ref device,
                const growth_options& options)
      : source{std::move(from)}, bytes{device, options} {}
};

template <typename Owned, handle_kind Kind>
struct shared_object {
  static constexpr handle_kind handle = Kind;

  Owned owned;

  explicit shared_object(Owned made) noexcept : owned{std::move(made)} {}
};
using stream_object = shared_object<stream, handle_kind::stream>;
using event_object = shared_object<event, handle_kind::event>;
using budget_object = shared_object<memory_budget, handle_kind::budget>;
using pressure_object = shared_object<pressure_subscription, handle_kind::pressure>;
using evictable_object = shared_object<evictable, handle_kind::evictable>;

template <typename Value, handle_kind Kind>
struct locked_object {
  static constexpr handle_kind handle = Kind;

  call_mutex mutex;
  Value value;

  explicit locked_object(Value made) : value{std::move(made)} {}
};
using publication_object = locked_object<publication, handle_kind::publication>;
using attachment_object = locked_object<attached_region, handle_kind::attachment>;

struct slot_arena_object {
  static constexpr handle_kind handle = handle_kind::slot_arena;

  call_mutex mutex;
  bool is_evicting = false;  // the call that has the lock runs the program's callback
  slot_arena slots;

  slot_arena_object(device_ref device, const slot_arena_options& options)
      : slots{device, options} {}
};

struct checkpoint_object {
  static constexpr handle_kind handle = handle_kind::checkpoint;

  call_mutex mutex;
  memory_checkpoint loaded;

  checkpoint_object& operator=(checkpoint_object&&) = delete;
  ~checkpoint_object() {
    for (region& each : loaded.regions) each.retire();
  }
};

/// A memory_tag by its name, with the locks of the objects that carry it: their calls wait while it
/// goes to sleep and wakes. Lives as long as the process.
class named_tag {
 public:
  explicit named_tag(const std::string& name) : tag_{name} {}

  /// Creates the tag if there is none of that name. Throws: bad_argument for an empty name.
  [[nodiscard]] static named_tag& of(const std::string& name);
  /// Throws: bad_argument, which lists all tags, if there is none of that name.
  [[nodiscard]] static named_tag& find(const char* name);

  [[nodiscard]] const memory_tag& get() const noexcept { return tag_; }

  template <typename Make>
  [[nodiscard]] auto add(Make make) {
    const detail::callbacks_wait until_unlocked;
    const std::lock_guard lock{mutex_};
    forget_ended();
    objects_.emplace_back();
    auto made = make();
    objects_.back() = std::shared_ptr<call_mutex>{made, &made->mutex};
    return made;
  }
  /// Runs `body` while no call uses an object that carries the tag.
  template <typename Body>
  void with_all(Body body) {
    constexpr std::chrono::milliseconds patience{100};
    const detail::callbacks_wait until_unlocked;
    for (std::shared_ptr<call_mutex> busy;;) {
      // Waits for `busy` with nothing locked: its call may need the other locks in a callback.
      // Below it waits for short calls, so that objects always in use do not keep this thread out.
      if (busy) const std::lock_guard passed{*busy};
      const std::lock_guard lock{mutex_};
      const auto objects = alive();
      std::vector<std::unique_lock<call_mutex>> locks;
      busy = nullptr;
      for (const auto& each : objects) {
        locks.emplace_back(*each, patience);
        if (locks.back()) continue;
        busy = each;
        break;
      }
      if (!busy) return body(tag_);
    }
  }

 private:
  void forget_ended();
  [[nodiscard]] std::vector<std::shared_ptr<call_mutex>> alive();

  const memory_tag tag_;
  call_mutex mutex_;
  std::vector<std::weak_ptr<call_mutex>> objects_;
};

template <typename Object>
[[nodiscard]] std::shared_ptr<Object> find(const void* handle) {
  return std::static_pointer_cast<Object>(handle_table::shared().find(Object::handle, handle));
}
[[nodiscard]] inline std::shared_ptr<resource_object> find(hipvmm_resource handle) {
  return find<resource_object>(handle);
}

template <typename Body>
hipvmm_status with_resource(const char* function, hipvmm_resource handle, Body body) noexcept {
  return guarded(function, [&] { body(*find(handle)); });
}

template <typename Object, typename Body>
hipvmm_status with_locked(const char* function, const void* handle, Body body) noexcept {
  return guarded(function, [&] {
    const auto object = find<Object>(handle);
    const detail::callbacks_wait until_unlocked;
    const std::lock_guard lock{object->mutex};
    body(*object);
  });
}

/// The handle is null if `make` or the table throws.
template <typename Handle, typename Make>
void create(Handle* handle, const char* name, Make make) {
  out(handle, name) = nullptr;
  auto object = make();
  using type = typename decltype(object)::element_type;
  *handle = static_cast<Handle>(handle_table::shared().insert(type::handle, std::move(object)));
}

template <typename Handle, typename Make>
hipvmm_status create(const char* function, Handle* handle, const char* name, Make make) noexcept {
  return guarded(function, [&] { create(handle, name, make); });
}

template <typename Object>
void destroy(const void* handle) {
  static_cast<void>(handle_table::shared().take(Object::handle, handle));
}

[[nodiscard]] inline device_ref device_of(const mr::memory_resource& resource) {
  const std::optional<device_ref> owner = resource.device();
  return owner ? *owner : device_ref::current();
}

/// Throws: std::invalid_argument if there is no such device.
[[nodiscard]] inline device_ref device_of(int ordinal) {
  require_device(device_ref{ordinal});
  return device_ref{ordinal};
}

[[nodiscard]] std::shared_ptr<resource_object> resource_of(device_ref device);

/// Null is the legacy default stream. Throws: bad_argument for a handle of hipvmm, which C converts
/// to void* without a warning.
[[nodiscard]] inline stream_ref stream_of(void* stream) {
  if (handle_table::has_tag(stream))
    throw bad_argument{
        "the stream is a handle of hipvmm and must be a hipStream_t, which hipvmm_stream_get() "
        "gets of a hipvmm_stream"};
  return static_cast<ihipStream_t*>(stream);
}

/// Makes `device` current if `stream` is a default stream: each device has its own, and the
/// object's is meant. Does nothing for other streams, or without a device.
class default_stream_scope {
 public:
  default_stream_scope(std::optional<device_ref> device, void* stream) {
    const stream_ref used = stream_of(stream);
    if (device && (used.is_default() || used.is_per_thread_default())) current_.emplace(*device);
  }

 private:
  std::optional<scoped_device> current_;
};

/// Throws: bad_argument for an unknown right.
[[nodiscard]] access_right right_of(hipvmm_right right);
[[nodiscard]] hipvmm_right right_of(access_right right) noexcept;
[[nodiscard]] access_list list_of(const hipvmm_access* access, std::size_t count);

}  // namespace hipvmm::c
