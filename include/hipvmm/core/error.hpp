// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace hipvmm {

/// A HIP call that failed for a reason that is neither lack of a resource nor lack of support.
/// Carries HIP's code as an int, so that no vendor header is needed to catch it.
class hip_error : public std::runtime_error {
 public:
  hip_error(int code, const char* call, const char* file, unsigned line);
  /// `context` continues the sentence.
  hip_error(int code, const char* call, const std::string& context, const char* file,
            unsigned line);

  /// HIP's `hipError_t` as an int.
  [[nodiscard]] int code() const noexcept { return code_; }
  /// Name of the HIP function that failed, a string with static storage.
  [[nodiscard]] const char* call() const noexcept { return call_; }
  /// Where in hipvmm it was called, for developers: what() is for users and does not tell.
  [[nodiscard]] const char* file() const noexcept { return file_; }
  [[nodiscard]] unsigned line() const noexcept { return line_; }

 private:
  int code_;
  const char* call_;
  const char* file_;
  unsigned line_;
};

/// The resource that ran out when out_of_memory is thrown.
enum class exhausted {
  device_memory,  ///< physical memory of the device
  addresses,      ///< virtual address space of the process
  descriptors,    ///< open file descriptors of the process (RLIMIT_NOFILE)
  host_memory,    ///< memory of the host, pinned or not
  limit,          ///< what the program itself allows, such as mr::limiting_resource_adaptor
};

/// A resource ran out. Nothing changed: every operation that throws it has the strong guarantee.
/// Differs from std::bad_alloc in saying which device, which resource, how much was asked and left.
class out_of_memory : public std::bad_alloc {
 public:
  /// `context` continues the sentence, such as what the caller already held; it may be empty.
  out_of_memory(exhausted resource, int device, std::size_t bytes_requested, std::size_t bytes_free,
                const std::string& context);
  /// What a program's own resource throws; resource() is `limit`, device() -1, and the rest zero.
  explicit out_of_memory(const std::string& message);
  /// The same failure, seen by a caller whose `context` continues the sentence.
  out_of_memory(const out_of_memory& cause, const std::string& context);

  [[nodiscard]] const char* what() const noexcept override { return message_->c_str(); }
  [[nodiscard]] exhausted resource() const noexcept { return resource_; }
  /// Its ordinal; -1 where the memory is no device's.
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] std::size_t bytes_requested() const noexcept { return bytes_requested_; }
  /// Memory of the device, or of the host, free when the request failed, in bytes, as hipMemGetInfo
  /// or the operating system reported it; of a limit what it left.
  [[nodiscard]] std::size_t bytes_free() const noexcept { return bytes_free_; }

 private:
  exhausted resource_;
  int device_;
  std::size_t bytes_requested_;
  std::size_t bytes_free_;
  std::shared_ptr<const std::string> message_;  // shared: copying an exception must not throw
};

/// The device, the runtime or this build cannot do what was asked, and never will.
class unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Receives failures that cannot be thrown, of destructors and of clean-up after another failure,
/// and warnings: something is not as it should be, and the library did something else instead.
/// `call` names the HIP function and `code` is its hipError_t; of a warning the subject and
/// hipErrorUnknown, with a whole sentence as `message`. Must not throw; any thread may call it.
using error_handler = void (*)(const char* call, int code, const char* message) noexcept;

/// Replaces the handler and returns the previous one; `nullptr` restores the default, which writes
/// one line to standard error.
error_handler set_error_handler(error_handler handler) noexcept;

}  // namespace hipvmm
