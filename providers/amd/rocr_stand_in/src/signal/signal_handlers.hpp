// SPDX-License-Identifier: MIT
// Functions that are called, by one thread of the stand-in, once a signal meets a condition.
#pragma once

#include <cstdint>

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

namespace stand_in {

/// The handler is called until it returns false. A null handle is called at once.
void add_handler(hsa_signal_t handle, hsa_signal_condition_t condition, std::int64_t value,
                 hsa_amd_signal_handler call, void* argument);
void remove_handlers(hsa_signal_t handle);
void wake_handlers();

}  // namespace stand_in
