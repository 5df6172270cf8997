// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/version.hpp>  // IWYU pragma: keep: refuses compilers before C++17

// Marks of functions that kernels call. Programs may use HIPVMM_HOST_DEVICE too.
#if defined(__CUDACC__)
#define HIPVMM_DEVICE __device__
#define HIPVMM_HOST __host__
#define HIPVMM_HOST_DEVICE __host__ __device__
#elif defined(__HIP__)
#define HIPVMM_DEVICE __attribute__((device))
#define HIPVMM_HOST __attribute__((host))
#define HIPVMM_HOST_DEVICE __attribute__((host)) __attribute__((device))
#else
#define HIPVMM_HOST
#define HIPVMM_HOST_DEVICE
#endif
