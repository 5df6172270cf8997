// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include <hipvmm/hipvmm.h>

namespace hipvmm::c {

class too_small : public std::length_error {
 public:
  using std::length_error::length_error;
};

/// An argument of the C interface itself is wrong, such as a null pointer for a result.
class bad_argument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// A message of the C++ library in the words of the C interface: members become options behind
/// `section`, such as "pool."; enumerators lose their enumeration. Throws: std::bad_alloc.
[[nodiscard]] std::string with_option_names(std::string_view sentence,
                                            std::string_view section = {});

[[nodiscard]] std::uint64_t count_of_failures() noexcept;

struct callback_failed {
  hipvmm_status status;
  const char* callback;
  std::uint64_t failures_before;
};

/// Throws callback_failed unless the callback returns HIPVMM_OK. hipvmm_last_error() then has the
/// message of the call that failed in it, if any.
template <typename Callback>
void require_ok(const char* name, Callback callback) {
  const std::uint64_t before = count_of_failures();
  if (const hipvmm_status status = callback(); status != HIPVMM_OK)
    throw callback_failed{status, name, before};
}

/// Keeps the exception that is being handled as the calling thread's last failure and returns its
/// status. `function` begins the message of an exception of this layer.
hipvmm_status keep_failure(const char* function) noexcept;

template <typename Body>
hipvmm_status guarded(const char* function, Body body) noexcept {
  try {
    body();
    return HIPVMM_OK;
  } catch (...) {
    return keep_failure(function);
  }
}

inline std::string path_of(const char* path) {
  if (path == nullptr) throw bad_argument{"path is null"};
  return path;
}

template <typename T>
T& out(T* result, const char* name) {
  if (result == nullptr)
    throw bad_argument{std::string{name} + " is null; pass the address of the result"};
  return *result;
}

template <typename T>
void out_if_wanted(T* result, T value) noexcept {
  if (result != nullptr) *result = value;
}

void require_memory(const void* memory, std::size_t bytes, const char* name);

/// Copies a text as hipvmm.h says. Throws: bad_argument, too_small.
void copy_text(const std::string& from, char* text, std::size_t capacity, std::size_t* length);

/// Copies as much of a struct as its struct_size says, and leaves that. Throws: bad_argument.
void copy_struct(void* to, const void* from, std::size_t bytes, const char* name);
template <typename T>
void copy_struct(T* to, const std::type_identity_t<T>& from, const char* name) {
  copy_struct(static_cast<void*>(to), &from, sizeof from, name);
}

[[nodiscard]] const char* last_text() noexcept;
[[nodiscard]] const hipvmm_failure& last_failure() noexcept;

}  // namespace hipvmm::c
