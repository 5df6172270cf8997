# SPDX-License-Identifier: MIT
# Finds the AMD-flavoured HIP header that the library and its providers are compiled against. Used by
# the build and by the installed package of the host provider.
# Defines hipvmm_hip_headers and sets HIPVMM_HIP_INCLUDE_DIR and hipvmm_hip_version; otherwise stops
# and names the packages to install.
find_path(HIPVMM_HIP_INCLUDE_DIR hip/hip_runtime_api.h
  HINTS ENV ROCM_PATH ENV HIP_PATH PATHS /opt/rocm PATH_SUFFIXES include
  DOC "Folder that holds hip/hip_runtime_api.h")
if(NOT EXISTS "${HIPVMM_HIP_INCLUDE_DIR}/hip/hip_runtime_api.h")
  message(FATAL_ERROR "hipvmm: HIPVMM_HIP_INCLUDE_DIR is '${HIPVMM_HIP_INCLUDE_DIR}', and "
    "hip/hip_runtime_api.h was not found. Install HIP's headers "
    "(Debian and Ubuntu: libamdhip64-dev; ROCm: hip-dev) or set HIPVMM_HIP_INCLUDE_DIR.")
endif()
file(STRINGS ${HIPVMM_HIP_INCLUDE_DIR}/hip/hip_version.h hip_version_lines
  REGEX "#define HIP_VERSION_(MAJOR|MINOR) +[0-9]+")
string(REGEX REPLACE "[^0-9;]" "" hipvmm_hip_version "${hip_version_lines}")
string(REPLACE ";" "." hipvmm_hip_version "${hipvmm_hip_version}")
if(hipvmm_hip_version VERSION_LESS 5.2)
  message(FATAL_ERROR "hipvmm: HIP headers ${hipvmm_hip_version} in ${HIPVMM_HIP_INCLUDE_DIR} are "
    "too old: virtual memory management came with 5.2. Install libamdhip64-dev 5.2 or newer.")
endif()

if(NOT TARGET hipvmm_hip_headers)
  add_library(hipvmm_hip_headers INTERFACE)
  target_include_directories(hipvmm_hip_headers SYSTEM INTERFACE ${HIPVMM_HIP_INCLUDE_DIR})
  target_compile_definitions(hipvmm_hip_headers INTERFACE __HIP_PLATFORM_AMD__)
  if(hipvmm_hip_version VERSION_LESS 7)
    # Those define __noinline__ as a macro, by which <format> of g++ 16 names an attribute: it comes
    # first.
    target_compile_options(hipvmm_hip_headers INTERFACE
      "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,16>>:SHELL:-include format>")
  endif()
endif()
