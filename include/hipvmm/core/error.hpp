// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace hipvmm {

/// A HIP call that failed for a reason that is neither lack of a resource nor lack of support.
/// Carries HIP's code as an int: catching it needs no vendor header.
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
  /// Source file, and line, in hipvmm of the call, for developers; what() is for users and omits
  /// them.
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
  limit,          ///< what programs allow, such as mr::limiting_resource_adaptor, memory_budget
};

/// A resource ran out. Nothing changed: every operation that throws it has the strong guarantee.
/// Unlike std::bad_alloc it names the device, the resource, and the amounts requested and free.
class out_of_memory : public std::bad_alloc {
 public:
  /// `context` is appended to the sentence, such as what the caller already held; it may be empty.
  out_of_memory(exhausted resource, int device, std::size_t bytes_requested, std::size_t bytes_free,
                const std::string& context);
  /// For a program's own resource: resource() is `limit`, device() is -1, and the rest is zero.
  explicit out_of_memory(const std::string& message);
  /// Copies `cause` and appends the `context` of a caller.
  out_of_memory(const out_of_memory& cause, const std::string& context);

  [[nodiscard]] const char* what() const noexcept override { return message_->c_str(); }
  [[nodiscard]] exhausted resource() const noexcept { return resource_; }
  /// The device's ordinal; -1 where the memory belongs to no device.
  [[nodiscard]] int device() const noexcept { return device_; }
  /// Zero where HIP does not say how much a call needed, as for streams and events.
  [[nodiscard]] std::size_t bytes_requested() const noexcept { return bytes_requested_; }
  /// Free memory of the device or the host when the request failed, in bytes, as hipMemGetInfo or
  /// the operating system reported it. For a limit: what the limit left.
  [[nodiscard]] std::size_t bytes_free() const noexcept { return bytes_free_; }

 private:
  exhausted resource_;
  int device_;
  std::size_t bytes_requested_;
  std::size_t bytes_free_;
  std::shared_ptr<const std::string> message_;  // shared: copying an exception must not throw
};

/// The device, the runtime or this build does not support the request, and never will.
class unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Receives failures that cannot be thrown, and warnings.
/// - Failure (in a destructor, or in clean-up after another failure): `call` names the HIP function
///   and `code` is its hipError_t.
/// - Warning (something is wrong, and the library did something else instead): `call` is the
///   subject, `code` is hipErrorUnknown and `message` is a whole sentence.
/// Must not throw. Any thread may call it, one of the library too: in that most signals are
/// blocked, and with them in a process that is started there.
using error_handler = void (*)(const char* call, int code, const char* message) noexcept;

/// Replaces the error handler and returns the previous one. `nullptr` restores the default, which
/// writes one line to standard error.
error_handler set_error_handler(error_handler handler) noexcept;

}  // namespace hipvmm
