// SPDX-License-Identifier: MIT
#pragma once

// IWYU pragma: begin_exports
#include <hipvmm/adaptor/hipmm_adaptors.hpp>
#include <hipvmm/adaptor/hipmm_containers.hpp>
#include <hipvmm/adaptor/hipmm_core.hpp>
#include <hipvmm/adaptor/hipmm_error.hpp>
#include <hipvmm/adaptor/hipmm_pools.hpp>
#include <hipvmm/adaptor/hipmm_resource_ref.hpp>
#include <hipvmm/adaptor/hipmm_resources.hpp>
#include <hipvmm/mr/polymorphic_allocator.hpp>
#include <hipvmm/mr/stream_allocator_adaptor.hpp>
// IWYU pragma: end_exports

// hipMM's and RMM's C++ names over ours: a program moves by including this instead of <rmm/...>,
// and by one line, `namespace rmm = hipvmm::hipmm;`. What differs, and the few names that are
// missing: docs/guides/coming_from_hipmm.md. New code is better written in hipvmm's own names.
namespace hipvmm::hipmm::mr {

using hipvmm::mr::polymorphic_allocator;
using hipvmm::mr::stream_allocator_adaptor;

}  // namespace hipvmm::hipmm::mr
