// SPDX-License-Identifier: MIT
#pragma once

// Moved. This path ends with 0.3.0.
#include <hipvmm/mr/resource/callback_resource.hpp>
