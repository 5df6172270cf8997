// SPDX-License-Identifier: MIT
// Text for stderr: the log, notes, and reports of faults that hardware would punish.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace stand_in {

/// Writes a line if HIPVMM_ROCR_LOG=on.
__attribute__((format(printf, 1, 2))) void log(const char* format, ...);

void note(const std::string& line);

/// Writes the report and stops the program with SIGABRT, or counts it, as HIPVMM_ROCR_REPORTS says.
/// With HIPVMM_ROCR_REPORTS=handlers the program goes on if `is_taken` returns true.
void report(const std::string& what, const std::function<bool()>& is_taken = {});

[[noreturn]] void give_up(const std::string& why);

std::uint64_t report_count();

}  // namespace stand_in
