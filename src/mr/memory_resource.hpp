// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

#include <hipvmm/mr/memory_resource.hpp>  // IWYU pragma: export

namespace hipvmm::detail {

/// Called at the end of each resource, once one was set for a device.
extern std::atomic<void (*)(const mr::memory_resource&) noexcept> at_end_of_resource;

}  // namespace hipvmm::detail
