// SPDX-License-Identifier: MIT
#pragma once

// Moved. This path ends with 0.3.0.
#include <hipvmm/compat/hipmm_resource_ref.hpp>
