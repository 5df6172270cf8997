// SPDX-License-Identifier: MIT
// The includes of a test of virtual memory: those of support/test.hpp, its objects, and regions.
#pragma once

// IWYU pragma: begin_exports
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "support/asserts/discarded_values.hpp"
#include "support/asserts/skip_if.hpp"
#include "support/region/mapped_chunk.hpp"
#include "support/test.hpp"
// IWYU pragma: end_exports
