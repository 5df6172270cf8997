// SPDX-License-Identifier: MIT
// Whether the stand-in may be used: hsa_init() was called, and this is not the child of a fork().
#pragma once

namespace stand_in {

/// Counts one hsa_init(), one hsa_shut_down(). close() returns false if none is open.
void open_runtime();
bool close_runtime();

/// Returns true between the first hsa_init() and the last hsa_shut_down().
bool runtime_open();

/// Returns true in a process that was forked after hsa_init(): its parent's threads are missing.
bool after_fork();

}  // namespace stand_in
