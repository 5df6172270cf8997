# SPDX-License-Identifier: MIT
# A test through HIP, linked so that it runs with the loader and the libraries of HIP_RUNTIME_ROOT.
# DT_RPATH, not DT_RUNPATH, for libLLVM's own RUNPATH hides the latter; every library that is loaded
# later is linked, so that one path serves them all.
set(hip_libraries ${HIP_RUNTIME_ROOT}/usr/lib/x86_64-linux-gnu)
file(GLOB hip_library ${hip_libraries}/libamdhip64.so.[567])
file(GLOB hip_loader ${HIP_RUNTIME_ROOT}/lib64/ld-linux-x86-64.so.2
  ${HIP_RUNTIME_ROOT}/usr/lib64/ld-linux-x86-64.so.2 ${hip_libraries}/ld-linux-x86-64.so.2)
file(GLOB hip_needed ${hip_libraries}/libamd_comgr.so.[23] ${hip_libraries}/libLLVM*.so.*
  ${hip_libraries}/lib[zL]*.so.[13] ${hip_libraries}/libzstd.so.1 ${hip_libraries}/libffi.so.8
  ${hip_libraries}/libedit.so.2 ${hip_libraries}/libtinfo.so.6 ${hip_libraries}/libxml2.so.*
  ${hip_libraries}/libbsd.so.0 ${hip_libraries}/libmd.so.0 ${hip_libraries}/liblzma.so.5)
list(REMOVE_DUPLICATES hip_needed)
if(NOT hip_library OR NOT hip_loader OR NOT EXISTS ${HIP_RUNTIME_ROOT}/usr/include/hip)
  message(FATAL_ERROR "rocr_stand_in: HIP_RUNTIME_ROOT=\"${HIP_RUNTIME_ROOT}\" has no libamdhip64, "
    "no loader or no headers. Unpack libamdhip64, its -dev package and what they need there.")
endif()
list(GET hip_loader 0 hip_loader)

add_executable(test_hip_on_stand_in hip_test.cpp main.cpp support/child.cpp)
target_include_directories(test_hip_on_stand_in PRIVATE . ${PROJECT_SOURCE_DIR} SYSTEM
  ${HIP_RUNTIME_ROOT}/usr/include)
target_compile_definitions(test_hip_on_stand_in PRIVATE __HIP_PLATFORM_AMD__)
target_compile_options(test_hip_on_stand_in PRIVATE -Wall -Wextra -Wno-unused-result)
target_link_libraries(test_hip_on_stand_in PRIVATE hsa-runtime64 ${hip_library} doctest::doctest
  Threads::Threads)
target_link_options(test_hip_on_stand_in PRIVATE -Wl,--dynamic-linker=${hip_loader}
  -Wl,--disable-new-dtags -Wl,-rpath,$<TARGET_FILE_DIR:hsa-runtime64>:${hip_libraries}
  -Wl,--allow-shlib-undefined -Wl,--no-as-needed ${hip_needed} -Wl,--as-needed)
set_target_properties(test_hip_on_stand_in PROPERTIES SKIP_BUILD_RPATH ON)
doctest_discover_tests(test_hip_on_stand_in PROPERTIES TIMEOUT 120)
