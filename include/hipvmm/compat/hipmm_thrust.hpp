// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/compat/hipmm.hpp>
#include <hipvmm/compat/thrust.hpp>

namespace hipvmm::hipmm {

using hipvmm::device_vector;
using hipvmm::exec_policy;
using hipvmm::exec_policy_nosync;

namespace mr {

using hipvmm::mr::thrust_allocator;

}  // namespace mr
}  // namespace hipvmm::hipmm
