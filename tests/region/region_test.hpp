// SPDX-License-Identifier: MIT
// The includes of a test of regions: those of a test of virtual memory, the contents of regions,
// what devices can do, and work in streams.
#pragma once

// IWYU pragma: begin_exports
#include <hipvmm/capability/capability.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "core/background_task.hpp"
#include "support/blocked_stream.hpp"
#include "support/device_bytes.hpp"
#include "support/region/assumed_capability.hpp"
#include "support/region/region_contents.hpp"
#include "vmm/vmm_test.hpp"
// IWYU pragma: end_exports
