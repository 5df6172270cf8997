// SPDX-License-Identifier: MIT
#pragma once

// Everything that programs call. Not included: parts for tests
// (<hipvmm/testing/resource_contract.hpp>), other libraries' interfaces (<hipvmm/compat/>) and the
// host provider's controls. Programs that need only the vector or the pool compile faster with
// <hipvmm/vector.hpp> or <hipvmm/pool.hpp>.
// IWYU pragma: begin_exports
#include <hipvmm/capability/capability.hpp>
#include <hipvmm/container/device_appender.hpp>
#include <hipvmm/container/device_appender_ref.hpp>
#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/device_iterator.hpp>
#include <hipvmm/container/device_scalar.hpp>
#include <hipvmm/container/device_span.hpp>
#include <hipvmm/container/device_uvector.hpp>
#include <hipvmm/container/device_vector.hpp>
#include <hipvmm/container/element_range.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/pinned_array.hpp>
#include <hipvmm/container/reserve_all.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/device_code.hpp>
#include <hipvmm/core/driver_calls.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/core/logger.hpp>
#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/mr/adaptor/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/failure_callback_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/guard_options.hpp>
#include <hipvmm/mr/adaptor/guard_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/owning_wrapper.hpp>
#include <hipvmm/mr/adaptor/prefetch_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/stream_allocator_adaptor.hpp>
#include <hipvmm/mr/adaptor/thread_safe_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/tracking_resource_adaptor.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/pool/pool_options.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_snapshot.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/mr/resource/polymorphic_allocator.hpp>
#include <hipvmm/mr/resource/pool_sharing.hpp>
#include <hipvmm/mr/resource/system_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/host_task.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/runtime/stream_pool.hpp>
#include <hipvmm/runtime/topology/peer_link.hpp>
#include <hipvmm/version.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/chunk_cache_statistics.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
// IWYU pragma: end_exports
