// SPDX-License-Identifier: MIT
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <hipvmm/hipvmm.h>
#include <hipvmm/serving.h>
#include <hipvmm/mr/adaptor/failure_callback_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/prefetch_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/tracking_resource_adaptor.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/pool/graph_pool.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/mr/resource/system_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include "c/configured_budget.hpp"
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"

namespace hipvmm::c {
namespace {

using resource_pointer = std::shared_ptr<resource_object>;

template <typename Resource, typename... Args>
resource_pointer make(const char* kind, Args&&... args) {
  return std::make_shared<resource_object>(kind, nullptr,
                                           std::make_unique<Resource>(std::forward<Args>(args)...));
}

template <typename Resource, typename... Args>
resource_pointer adapt(const char* kind, const resource_pointer& upstream, Args&&... args) {
  return std::make_shared<resource_object>(
      kind, upstream, std::make_unique<Resource>(upstream->resource, std::forward<Args>(args)...));
}

template <typename Make>
hipvmm_status create_on(const char* function, hipvmm_resource upstream, hipvmm_resource* resource,
                        Make make, const char* name = "resource") noexcept {
  return guarded(function, [&] {
    const auto from = find(upstream);
    create(resource, name, [&] { return make(from); });
  });
}

}  // namespace

extern "C" {

hipvmm_status hipvmm_hip_create(int device, hipvmm_resource* resource) {
  return create(__func__, resource, "resource",
                [&] { return make<mr::hip_resource>("hip", device_ref{device}); });
}

hipvmm_status hipvmm_managed_create(hipvmm_resource* resource) {
  return create(__func__, resource, "resource",
                [] { return make<mr::managed_resource>("managed"); });
}

hipvmm_status hipvmm_pinned_create(const char* options, hipvmm_resource* resource) {
  return create(__func__, resource, "resource",
                [&] { return make<mr::pinned_host_resource>("pinned", pinned_settings(options)); });
}

hipvmm_status hipvmm_system_create(int device, hipvmm_resource* resource) {
  return create(__func__, resource, "resource",
                [&] { return make<mr::system_resource>("system", device_ref{device}); });
}

hipvmm_status hipvmm_sam_headroom_create(int device, size_t headroom, hipvmm_resource* resource) {
  return create(__func__, resource, "resource", [&] {
    return make<mr::sam_headroom_resource>("sam_headroom", device_ref{device}, headroom);
  });
}

hipvmm_status hipvmm_async_view_create(int device, void* pool, hipvmm_resource* resource) {
  return create(__func__, resource, "resource", [&] {
    return make<mr::hip_async_resource>("async", device_of(device),
                                        static_cast<ihipMemPoolHandle_t*>(pool));
  });
}

hipvmm_status hipvmm_async_create(int device, const char* options, hipvmm_resource* resource) {
  return create(__func__, resource, "resource", [&] {
    const device_ref owner = device_of(device);
    return make<mr::hip_async_resource>("async", owner, async_settings(owner, options));
  });
}

hipvmm_status hipvmm_pool_create(int device, const char* options, hipvmm_resource* resource) {
  return create(__func__, resource, "resource", [&] {
    const device_ref owner = device_of(device);
    const mr::pool_options chosen = pool_settings(owner, options);
    join_configured_budget(owner, configured_budget(owner));
    return pool_object(owner, chosen);
  });
}

hipvmm_status hipvmm_arena_create(hipvmm_resource upstream, const char* options,
                                  hipvmm_resource* resource) {
  return create_on(__func__, upstream, resource, [&](const auto& from) {
    const arena_options settings = arena_settings(device_of(*from->resource), options);
    auto made =
        adapt<mr::arena_resource>("arena", from, settings.maximum_bytes, settings.dumps_log);
    // The arena allocates only on demand, and keeps memory that was freed.
    made->resource->deallocate_sync(made->resource->allocate_sync(settings.initial_bytes),
                                    settings.initial_bytes);
    return made;
  });
}

hipvmm_status hipvmm_fixed_size_create(hipvmm_resource upstream, const char* options,
                                       hipvmm_resource* resource) {
  return create_on(__func__, upstream, resource, [&](const auto& from) {
    const fixed_size_options settings = fixed_size_settings(device_of(*from->resource), options);
    return adapt<mr::fixed_size_resource>("fixed_size", from, settings.block_size, settings.blocks);
  });
}

hipvmm_status hipvmm_graph_pool_create(hipvmm_resource upstream, hipvmm_resource* graph_pool) {
  return create_on(
      __func__, upstream, graph_pool,
      [&](const auto& from) { return adapt<mr::graph_pool>("graph_pool", from); }, "graph_pool");
}

hipvmm_status hipvmm_binning_create(hipvmm_resource upstream, const char* options,
                                    hipvmm_resource* resource) {
  return create_on(__func__, upstream, resource, [&](const auto& from) {
    const binning_options settings = binning_settings(options);
    if (!settings.min_exponent) return adapt<mr::binning_resource>("binning", from);
    return adapt<mr::binning_resource>("binning", from,
                                       static_cast<std::int8_t>(*settings.min_exponent),
                                       static_cast<std::int8_t>(*settings.max_exponent));
  });
}

hipvmm_status hipvmm_binning_add_bin(hipvmm_resource binning, size_t bytes) {
  return with_resource(__func__, binning, [&](const resource_object& object) {
    object.as<mr::binning_resource>("binning").add_bin(bytes);
  });
}

hipvmm_status hipvmm_binning_add_bin_resource(hipvmm_resource binning, size_t bytes,
                                              hipvmm_resource bin) {
  return with_resource(__func__, binning, [&](resource_object& object) {
    auto& target = object.as<mr::binning_resource>("binning");
    const auto used = find(bin);
    const std::lock_guard lock{resource_object::bins_mutex()};
    if (used->uses(object))
      throw bad_argument{
          "the bin allocates from the binning resource itself: no request would end"};
    object.bins.reserve(object.bins.size() + 1);
    target.add_bin(bytes, used->resource);
    object.bins.push_back(used);
  });
}

hipvmm_status hipvmm_logging_create(hipvmm_resource upstream, const char* filename,
                                    const char* options, hipvmm_resource* resource) {
  return create_on(__func__, upstream, resource, [&](const auto& from) {
    using adaptor = mr::logging_resource_adaptor;
    return adapt<adaptor>("logging", from,
                          filename == nullptr ? adaptor::get_default_filename() : filename,
                          flag_setting("a log", "auto_flush", options));
  });
}

hipvmm_status hipvmm_statistics_create(hipvmm_resource upstream, hipvmm_resource* resource) {
  return create_on(__func__, upstream, resource, [&](const auto& from) {
    return adapt<mr::statistics_resource_adaptor>("statistics", from);
  });
}

hipvmm_status hipvmm_tracking_create(hipvmm_resource upstream, const char* options,
                                     hipvmm_resource* resource) {
  return create_on(__func__, upstream, resource, [&](const auto& from) {
    return adapt<mr::tracking_resource_adaptor>("tracking", from,
                                                flag_setting("a list", "stacks", options));
  });
}

hipvmm_status hipvmm_limiting_create(hipvmm_resource upstream, size_t limit, const char* options,
                                     hipvmm_resource* resource) {
  return create_on(__func__, upstream, resource, [&](const auto& from) {
    return adapt<mr::limiting_resource_adaptor>("limiting", from, limit,
                                                alignment_setting(options));
  });
}

hipvmm_status hipvmm_failure_callback_create(hipvmm_resource upstream,
                                             hipvmm_failure_callback callback, void* argument,
                                             hipvmm_resource* resource) {
  return create_on(__func__, upstream, resource, [&](const auto& from) {
    if (callback == nullptr) throw bad_argument{"callback is null"};
    return adapt<mr::failure_callback_resource_adaptor>(
        "failure_callback", from,
        [callback](std::size_t bytes, void* of) { return callback(bytes, of) != 0; }, argument);
  });
}

hipvmm_status hipvmm_prefetch_create(hipvmm_resource upstream, hipvmm_resource* resource) {
  return create_on(__func__, upstream, resource, [&](const auto& from) {
    return adapt<mr::prefetch_resource_adaptor>("prefetch", from);
  });
}

hipvmm_status hipvmm_callback_create(hipvmm_allocate_callback allocate,
                                     hipvmm_deallocate_callback deallocate, void* argument,
                                     hipvmm_resource* resource) {
  return create(__func__, resource, "resource", [&] {
    if (allocate == nullptr || deallocate == nullptr)
      throw bad_argument{std::string{allocate == nullptr ? "allocate" : "deallocate"} + " is null"};
    return make<mr::callback_resource>(
        "callback",
        [allocate](std::size_t bytes, stream_ref stream, void* of) {
          return allocate(bytes, stream.get(), of);
        },
        [deallocate](void* pointer, std::size_t bytes, stream_ref stream, void* of) {
          deallocate(pointer, bytes, stream.get(), of);
        },
        argument, argument);
  });
}

}  // extern "C"

}  // namespace hipvmm::c
