// SPDX-License-Identifier: MIT
#pragma once

// All that programs call. Parts for tests (<hipvmm/mr/resource_contract.hpp>), other libraries'
// interfaces (<hipvmm/adaptor/>) and the host provider's controls are not in it. Programs that need
// only the vector or the pool compile faster with <hipvmm/vector.hpp> or <hipvmm/pool.hpp>.
// IWYU pragma: begin_exports
#include <hipvmm/container/device_appender.hpp>
#include <hipvmm/container/device_appender_ref.hpp>
#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/device_scalar.hpp>
#include <hipvmm/container/device_span.hpp>
#include <hipvmm/container/device_uvector.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/copy.hpp>
#include <hipvmm/core/device.hpp>
#include <hipvmm/core/device_allocation.hpp>
#include <hipvmm/core/driver_calls.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/core/event.hpp>
#include <hipvmm/core/logger.hpp>
#include <hipvmm/core/managed_memory.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/core/stream_pool.hpp>
#include <hipvmm/mr/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/arena_resource.hpp>
#include <hipvmm/mr/binning_resource.hpp>
#include <hipvmm/mr/callback_resource.hpp>
#include <hipvmm/mr/failure_callback_resource_adaptor.hpp>
#include <hipvmm/mr/fixed_size_resource.hpp>
#include <hipvmm/mr/hip_async_resource.hpp>
#include <hipvmm/mr/hip_resource.hpp>
#include <hipvmm/mr/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/logging_resource_adaptor.hpp>
#include <hipvmm/mr/managed_resource.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/new_delete_resource.hpp>
#include <hipvmm/mr/owning_wrapper.hpp>
#include <hipvmm/mr/per_device_resource.hpp>
#include <hipvmm/mr/pinned_host_resource.hpp>
#include <hipvmm/mr/polymorphic_allocator.hpp>
#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_sharing.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/mr/prefetch_resource_adaptor.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include <hipvmm/mr/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/stream_allocator_adaptor.hpp>
#include <hipvmm/mr/system_resource.hpp>
#include <hipvmm/mr/thread_safe_resource_adaptor.hpp>
#include <hipvmm/mr/tracking_resource_adaptor.hpp>
#include <hipvmm/mr/vmm_pool_resource.hpp>
#include <hipvmm/version.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/capability.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/region.hpp>
#include <hipvmm/vmm/retirement.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
// IWYU pragma: end_exports
