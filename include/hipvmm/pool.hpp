// SPDX-License-Identifier: MIT
#pragma once

// The stream-ordered pool, the containers that allocate from it, and the other calls of its users:
// devices, streams, events, copies, errors, sizes, the device's current resource. Other resources
// and adaptors have one header each in <hipvmm/mr/>; <hipvmm/hipvmm.hpp> has everything.
// IWYU pragma: begin_exports
#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/device_scalar.hpp>
#include <hipvmm/container/device_span.hpp>
#include <hipvmm/container/device_uvector.hpp>
#include <hipvmm/container/device_vector.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/host_task.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/version.hpp>
// IWYU pragma: end_exports
