// SPDX-License-Identifier: MIT
#pragma once

#if defined(__cplusplus) && __cplusplus < 201703L
#error "hipvmm needs C++17: compile with -std=c++17"
#endif

// The only definition of the version: CMakeLists.txt and packaging/release.sh read these four
// lines. A development version, 1, precedes the release of these numbers.
#define HIPVMM_VERSION_MAJOR 0
#define HIPVMM_VERSION_MINOR 3
#define HIPVMM_VERSION_PATCH 1
#define HIPVMM_VERSION_DEVELOPMENT 1

#define HIPVMM_DETAIL_TEXT_OF(number) #number
#define HIPVMM_DETAIL_DOTTED(major, minor, patch) \
  HIPVMM_DETAIL_TEXT_OF(major) "." HIPVMM_DETAIL_TEXT_OF(minor) "." HIPVMM_DETAIL_TEXT_OF(patch)
#define HIPVMM_DETAIL_RELEASE \
  HIPVMM_DETAIL_DOTTED(HIPVMM_VERSION_MAJOR, HIPVMM_VERSION_MINOR, HIPVMM_VERSION_PATCH)
#define HIPVMM_DETAIL_JOIN(major, minor, suffix) interface_##major##_##minor##suffix
#define HIPVMM_DETAIL_INTERFACE_OF(major, minor, suffix) HIPVMM_DETAIL_JOIN(major, minor, suffix)

// HIPVMM_VERSION_STRING is "0.3.0", of a development version "0.3.0-dev".
#if HIPVMM_VERSION_DEVELOPMENT
#define HIPVMM_VERSION_STRING HIPVMM_DETAIL_RELEASE "-dev"
#define HIPVMM_DETAIL_INTERFACE \
  HIPVMM_DETAIL_INTERFACE_OF(HIPVMM_VERSION_MAJOR, HIPVMM_VERSION_MINOR, _dev)
#else
#define HIPVMM_VERSION_STRING HIPVMM_DETAIL_RELEASE
#define HIPVMM_DETAIL_INTERFACE \
  HIPVMM_DETAIL_INTERFACE_OF(HIPVMM_VERSION_MAJOR, HIPVMM_VERSION_MINOR, )
#endif
