// SPDX-License-Identifier: MIT
// The includes of a test of budgets: those of support/test.hpp, budgets and their folder, files and
// tables, memory to count, and processes that hold it.
#pragma once

// IWYU pragma: begin_exports
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/budget/memory_budget.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/region/region.hpp>
#include "ipc/budget/budget_file.hpp"
#include "ipc/budget/budget_folder.hpp"
#include "ipc/budget/budget_table.hpp"
#include "ipc/budget/process_identity.hpp"
#include "ipc/fault_point.hpp"
#include "support/process/forked_child.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/region/shared_cache.hpp"
#include "support/test.hpp"
// IWYU pragma: end_exports
