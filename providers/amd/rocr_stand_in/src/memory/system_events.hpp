// SPDX-License-Identifier: MIT
// Handlers of system events: ROCr's Runtime::SetCustomSystemEventHandler.
#pragma once

#include <cstdint>

#include <hsa/hsa_ext_amd.h>

#include "src/memory/agents.hpp"

namespace stand_in {

/// Every added handler is called.
void add_event_handler(hsa_amd_system_event_callback_t handler, void* data);

/// Calls the handlers with a memory fault of `who`. Returns whether one of them took it.
/// `reason` is of hsa_amd_memory_fault_reason_t.
bool offer_fault(const agent& who, std::uint64_t address, std::uint32_t reason);

}  // namespace stand_in
