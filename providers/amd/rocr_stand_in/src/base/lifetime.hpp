// SPDX-License-Identifier: MIT
// Whether the stand-in may be used: hsa_init() was called, and this is not the child of a fork().
#pragma once

namespace stand_in {

/// Count hsa_init() and hsa_shut_down(). close_runtime() returns false if none is open.
void open_runtime();
bool close_runtime();

bool runtime_open();

/// Whether the process was forked after hsa_init(): its parent's threads are missing.
bool after_fork();

}  // namespace stand_in
