// SPDX-License-Identifier: MIT
#pragma once

// The only definition of the version: CMakeLists.txt reads these three lines.
#define HIPVMM_VERSION_MAJOR 0
#define HIPVMM_VERSION_MINOR 2
#define HIPVMM_VERSION_PATCH 0
