// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>

namespace hipvmm::hipmm {

// hipvmm throws these classes or derived ones. bad_alloc takes no text: throw out_of_memory.
using logic_error = std::logic_error;
using out_of_range = std::out_of_range;
using bad_alloc = std::bad_alloc;
using out_of_memory = hipvmm::out_of_memory;
using cuda_error = hip_error;

namespace detail {

/// Throws hip_error unless `code`, a hipError_t, is success, and clears HIP's last error then.
/// `call` has static storage.
void require_success(int code, const char* call, const char* file, unsigned line);
/// The same for a call that allocates `bytes`: throws out_of_memory if HIP reports that.
void require_allocation(int code, const char* call, const char* file, unsigned line,
                        std::size_t bytes = 0);

template <typename Exception>
void require_success_as(int code, const char* call, const char* file, unsigned line) {
  try {
    require_success(code, call, file, line);
  } catch (const hip_error& error) {
    throw Exception{std::string{error.what()}};
  }
}

template <typename Exception = logic_error>
[[noreturn]] void fail(const char* reason, const char* file, unsigned line) {
  throw Exception{std::string{reason} + " (" + file + ":" + std::to_string(line) + ")"};
}

}  // namespace detail
}  // namespace hipvmm::hipmm

// hipMM's macros, in all their forms. A type as last argument is the exception to throw.
#ifndef RMM_CUDA_TRY
#define HIPVMM_HIPMM_THIRD(first, second, third, ...) third
#define HIPVMM_HIPMM_FOURTH(first, second, third, fourth, ...) fourth

/// Throws hip_error, or the exception that a second argument names, when the HIP call fails.
#define RMM_CUDA_TRY(...) \
  HIPVMM_HIPMM_THIRD(__VA_ARGS__, HIPVMM_HIPMM_TRY_AS, HIPVMM_HIPMM_TRY, )(__VA_ARGS__)
#define HIPVMM_HIPMM_TRY(call) \
  ::hipvmm::hipmm::detail::require_success(static_cast<int>(call), #call, __FILE__, __LINE__)
#define HIPVMM_HIPMM_TRY_AS(call, exception)                                                      \
  ::hipvmm::hipmm::detail::require_success_as<exception>(static_cast<int>(call), #call, __FILE__, \
                                                         __LINE__)

/// RMM_CUDA_TRY for a call that allocates; a second argument is the number of bytes. Throws
/// out_of_memory when memory is lacking, else hip_error; hipMM throws bad_alloc then.
#define RMM_CUDA_TRY_ALLOC(...)                                                     \
  HIPVMM_HIPMM_THIRD(__VA_ARGS__, HIPVMM_HIPMM_TRY_BYTES, HIPVMM_HIPMM_TRY_ALLOC, ) \
  (__VA_ARGS__)
#define HIPVMM_HIPMM_TRY_ALLOC(call) HIPVMM_HIPMM_TRY_BYTES(call, 0)
#define HIPVMM_HIPMM_TRY_BYTES(call, bytes)                                                      \
  ::hipvmm::hipmm::detail::require_allocation(static_cast<int>(call), #call, __FILE__, __LINE__, \
                                              bytes)

/// An assert that the call succeeds. Without asserts the call is still made.
#ifdef NDEBUG
#define RMM_ASSERT_CUDA_SUCCESS(call) static_cast<void>(call)
#else
#define RMM_ASSERT_CUDA_SUCCESS(call) assert(static_cast<int>(call) == 0)
#endif

/// Throws logic_error, or the exception that a third argument names, unless the condition holds.
#define RMM_EXPECTS(...)                                                            \
  HIPVMM_HIPMM_FOURTH(__VA_ARGS__, HIPVMM_HIPMM_EXPECTS_AS, HIPVMM_HIPMM_EXPECTS, ) \
  (__VA_ARGS__)
#define HIPVMM_HIPMM_EXPECTS(condition, reason) \
  HIPVMM_HIPMM_EXPECTS_AS(condition, reason, ::hipvmm::hipmm::logic_error)
#define HIPVMM_HIPMM_EXPECTS_AS(condition, reason, exception) \
  ((condition) ? static_cast<void>(0) : RMM_FAIL(reason, exception))

#define RMM_FAIL(...) \
  HIPVMM_HIPMM_THIRD(__VA_ARGS__, HIPVMM_HIPMM_FAIL_AS, HIPVMM_HIPMM_FAIL, )(__VA_ARGS__)
#define HIPVMM_HIPMM_FAIL(reason) HIPVMM_HIPMM_FAIL_AS(reason, ::hipvmm::hipmm::logic_error)
#define HIPVMM_HIPMM_FAIL_AS(reason, exception) \
  ::hipvmm::hipmm::detail::fail<exception>(reason, __FILE__, __LINE__)
#endif
