// SPDX-License-Identifier: MIT
// The includes of a test of resources: those of support/test.hpp, the most common resources, and
// streams and the work in them.
#pragma once

// IWYU pragma: begin_exports
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "mr/pool/pool_limit.hpp"
#include "support/asserts/discarded_values.hpp"
#include "support/asserts/skip_if.hpp"
#include "support/blocked_stream.hpp"
#include "support/test.hpp"
// IWYU pragma: end_exports
