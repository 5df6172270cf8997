// SPDX-License-Identifier: MIT
// The HSA functions that are slow or fail, by HIPVMM_ROCR_FAULTS or by the control functions.
#pragma once

#include <cstdint>
#include <string>

#include <hsa/hsa.h>

namespace stand_in {

/// Returns a message if the text of HIPVMM_ROCR_FAULTS is wrong, else "".
std::string check_fault_plan(const std::string& plan);

/// Pre: check_fault_plan() returned "".
void add_fault_plan(const std::string& plan);

bool is_function(const std::string& function);

/// Adds a failure of the nth call from now; nth 0 cancels those of the function.
/// Returns false if no such function is exported.
bool plan_failure(const std::string& function, std::uint64_t nth, hsa_status_t status);

/// Counts a call, sleeps as planned, and returns the status with which it fails, or success.
hsa_status_t planned_status(const std::string& function);

/// Takes no lock.
bool failures_planned();

}  // namespace stand_in
