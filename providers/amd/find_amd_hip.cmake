# SPDX-License-Identifier: MIT
# Defines hipvmm::provider_amd, AMD's own runtime. Used by the build and by the installed package.
#
# ROCm's CMake package is taken if it is complete. Debian's hip-config.cmake stops the configure run
# when the hipcc package is missing, so it is entered only when hipcc is there; otherwise the
# library is linked directly, which is all a plain C++ program needs (seen on Debian 12, HIP 5.2.3).
if(NOT TARGET hipvmm::provider_amd)
  find_program(HIPVMM_HIPCC hipcc HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES bin)
  if(HIPVMM_HIPCC)
    find_package(hip CONFIG QUIET HINTS ENV ROCM_PATH PATHS /opt/rocm)
  endif()
  if(TARGET hip::host)
    add_library(hipvmm::provider_amd INTERFACE IMPORTED GLOBAL)
    target_link_libraries(hipvmm::provider_amd INTERFACE hip::host)
  else()
    find_library(HIPVMM_AMDHIP_LIBRARY amdhip64 HINTS ENV ROCM_PATH PATHS /opt/rocm
      PATH_SUFFIXES lib)
    if(NOT HIPVMM_AMDHIP_LIBRARY)
      message(FATAL_ERROR "hipvmm: libamdhip64 was not found. Install it (Debian and Ubuntu: "
        "libamdhip64-dev; ROCm: hip-runtime-amd) or use HIPVMM_PROVIDER=host.")
    endif()
    add_library(hipvmm::provider_amd SHARED IMPORTED GLOBAL)
    set_target_properties(hipvmm::provider_amd PROPERTIES
      IMPORTED_LOCATION ${HIPVMM_AMDHIP_LIBRARY})
  endif()
endif()
