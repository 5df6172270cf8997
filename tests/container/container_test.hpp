// SPDX-License-Identifier: MIT
// The includes of a test of containers: those of support/test.hpp, vectors, arenas and the most
// common resources, elements of several sizes, idle memory, and work in streams.
#pragma once

// IWYU pragma: begin_exports
#include <hipvmm/capability/capability.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/background_task.hpp"
#include "support/blocked_stream.hpp"
#include "support/device_bytes.hpp"
#include "support/element.hpp"
#include "support/random_seed.hpp"
#include "support/region/fallback.hpp"
#include "support/region/shared_cache.hpp"
#include "support/test.hpp"
// IWYU pragma: end_exports

namespace hipvmm::test {

using vector_of_4 = growable_device_vector<element<4>>;
using vector_of_8 = growable_device_vector<element8>;
using vector_of_12 = growable_device_vector<element12>;
using vector_of_granules = growable_device_vector<granule_element>;

}  // namespace hipvmm::test
