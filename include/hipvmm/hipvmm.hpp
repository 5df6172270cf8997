// SPDX-License-Identifier: MIT
#pragma once

// Everything hipvmm offers.
#include <hipvmm/container/append_slots.hpp>
#include <hipvmm/container/device_appender.hpp>
#include <hipvmm/container/device_appender_ref.hpp>
#include <hipvmm/container/device_span.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/copy.hpp>
#include <hipvmm/core/device.hpp>
#include <hipvmm/core/device_allocation.hpp>
#include <hipvmm/core/driver_calls.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/core/event.hpp>
#include <hipvmm/core/managed_memory.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/core/stream_pool.hpp>
#include <hipvmm/mr/hip_async_resource.hpp>
#include <hipvmm/mr/hip_resource.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_sharing.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include <hipvmm/mr/resource_contract.hpp>
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
