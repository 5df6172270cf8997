// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::host_provider {

/// Lets the process end with a sentence if host code touches memory that it was not granted. To be
/// called when memory is mapped: frameworks of tests set handlers of signals for each test.
void report_touches() noexcept;

}  // namespace hipvmm::host_provider
