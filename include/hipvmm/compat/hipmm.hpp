// SPDX-License-Identifier: MIT
#pragma once

// IWYU pragma: begin_exports
#include <hipvmm/compat/hipmm_adaptors.hpp>
#include <hipvmm/compat/hipmm_containers.hpp>
#include <hipvmm/compat/hipmm_core.hpp>
#include <hipvmm/compat/hipmm_error.hpp>
#include <hipvmm/compat/hipmm_pools.hpp>
#include <hipvmm/compat/hipmm_resource_ref.hpp>
#include <hipvmm/compat/hipmm_resources.hpp>
#include <hipvmm/mr/adaptor/stream_allocator_adaptor.hpp>
#include <hipvmm/mr/resource/polymorphic_allocator.hpp>
// IWYU pragma: end_exports

// hipMM's and RMM's C++ names, mapped to those of hipvmm. To port a program, include this instead
// of <rmm/...> and add one line, `namespace rmm = hipvmm::hipmm;`. Differences, and the few missing
// names: docs/guides/coming_from_hipmm.md. New code should use hipvmm's own names.
namespace hipvmm::hipmm::mr {

using hipvmm::mr::polymorphic_allocator;
using hipvmm::mr::stream_allocator_adaptor;

}  // namespace hipvmm::hipmm::mr
