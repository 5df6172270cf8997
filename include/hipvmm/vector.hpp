// SPDX-License-Identifier: MIT
#pragma once

// The growable vector and the calls of its users: devices, streams, events, copies, errors, sizes,
// kernels that append, and memory that waits for work or is kept. <hipvmm/hipvmm.hpp> has
// everything.
// IWYU pragma: begin_exports
#include <hipvmm/container/device_appender.hpp>
#include <hipvmm/container/device_appender_ref.hpp>
#include <hipvmm/container/device_span.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/reserve_all.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/host_task.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/version.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
// IWYU pragma: end_exports
