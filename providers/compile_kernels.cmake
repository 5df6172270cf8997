# SPDX-License-Identifier: MIT
# Kernels of tests, samples and benchmarks; the library has none.
#
# HIPVMM_KERNELS: the compiler of kernels, nvcc or hipcc, or empty without one. The host provider has
# none, and takes a source that says so as plain C++.
# HIPVMM_KERNEL_THRUST: whether they have Thrust: CUDA's own, or rocThrust and hipCUB.
# hipvmm_add_kernels(<target> <file>...): adds files with kernels to a program or library.
# The target hipvmm_kernels compiles all of them and links none.
set(HIPVMM_KERNELS "")
set(HIPVMM_KERNEL_THRUST OFF)
if(NOT (HIPVMM_TESTS OR HIPVMM_SAMPLES OR HIPVMM_BENCH))
  return()
endif()

if(HIPVMM_PROVIDER_CHOSEN STREQUAL cuda)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(HIPVMM_KERNELS nvcc)
    set(HIPVMM_KERNEL_THRUST ON)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES native)
      if(NOT EXISTS /dev/nvidiactl)
        set(CMAKE_CUDA_ARCHITECTURES 80)
      endif()
    endif()
    enable_language(CUDA)
  endif()
elseif(HIPVMM_PROVIDER_CHOSEN STREQUAL amd AND HIPVMM_HIPCC AND
       HIPVMM_HIP_VERSION VERSION_GREATER_EQUAL 6)  # older ones lack functions of the kernels
  # hipcc itself: CMake's language HIP wants Clang and ROCm's packages in places that distributions
  # do not have.
  set(HIPVMM_KERNELS hipcc)
  if(NOT DEFINED CMAKE_HIP_ARCHITECTURES)
    set(CMAKE_HIP_ARCHITECTURES native)
    if(NOT EXISTS /dev/kfd)
      set(CMAKE_HIP_ARCHITECTURES gfx942)
    endif()
  endif()
  # hipcc finds the headers by itself.
  foreach(header thrust/system/hip/execution_policy.h hipcub/hipcub.hpp)
    string(MAKE_C_IDENTIFIER HIPVMM_FOLDER_OF_${header} folder)
    find_path(${folder} ${header} HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES include)
    mark_as_advanced(${folder})
    list(APPEND thrust_folders ${${folder}})
  endforeach()
  if(NOT thrust_folders MATCHES NOTFOUND)
    set(HIPVMM_KERNEL_THRUST ON)
  else()
    message(STATUS "hipvmm: kernels without Thrust: rocThrust or hipCUB is missing "
      "(Debian: librocthrust-dev, libhipcub-dev)")
  endif()
endif()
if(NOT HIPVMM_KERNELS AND NOT HIPVMM_PROVIDER_CHOSEN STREQUAL host)
  message(STATUS "hipvmm: no kernels in tests, samples and benchmarks: neither nvcc nor hipcc 6 or "
    "newer was found for the provider ${HIPVMM_PROVIDER_CHOSEN}")
endif()
add_custom_target(hipvmm_kernels)

# hipvmm_compile_by_hipcc(<target> <file>): adds the file's object to the target.
function(hipvmm_compile_by_hipcc target file)
  get_filename_component(name ${file} NAME)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.o)
  set(includes $<FILTER:$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>,EXCLUDE,^/usr/include$>)
  set(definitions $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  list(TRANSFORM CMAKE_HIP_ARCHITECTURES PREPEND --offload-arch= OUTPUT_VARIABLE architectures)
  set(warnings "")
  if(CMAKE_COMPILE_WARNING_AS_ERROR)
    set(warnings -Wall -Wextra -Wshadow -Werror -Wno-unused-command-line-argument)
  endif()
  add_custom_command(OUTPUT ${object}
    COMMAND ${HIPVMM_HIPCC} -x hip -std=c++20 -O2 ${warnings} ${architectures}
      "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>"
      "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
      -MD -MF ${object}.d -MT ${object} -c ${CMAKE_CURRENT_SOURCE_DIR}/${file} -o ${object}
    DEPENDS ${file} DEPFILE ${object}.d COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Building HIP object ${target}_${name}.o")
  target_sources(${target} PRIVATE ${object})
  # Makefiles make the object if a target of its own asks for it.
  add_custom_target(${target}_${name}_object DEPENDS ${object})
  add_dependencies(${target} ${target}_${name}_object)
  add_dependencies(hipvmm_kernels ${target}_${name}_object)
endfunction()

function(hipvmm_add_kernels target)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  foreach(file IN LISTS ARGN)
    if(HIPVMM_KERNELS STREQUAL hipcc)
      hipvmm_compile_by_hipcc(${target} ${file})
      continue()
    endif()
    target_sources(${target} PRIVATE ${file})
    if(HIPVMM_KERNELS STREQUAL nvcc)
      set_source_files_properties(${file} PROPERTIES LANGUAGE CUDA)
      set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
      add_dependencies(hipvmm_kernels ${target})
    else()
      set_source_files_properties(${file} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
    endif()
  endforeach()
endfunction()
