// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include <hipvmm/version.hpp>  // IWYU pragma: keep: refuses compilers before C++17

namespace hipvmm {

/// A HIP call failed, and not for lack of a resource (out_of_memory) or of support (unsupported).
class hip_error : public std::runtime_error {
 public:
  hip_error(int code, const char* call, const char* file, unsigned line);
  /// `context` continues the sentence.
  hip_error(int code, const char* call, const std::string& context, const char* file,
            unsigned line);
  hip_error(const hip_error& cause, const std::string& context);

  /// HIP's `hipError_t`, as an int so that catching it needs no vendor header.
  [[nodiscard]] int code() const noexcept { return code_; }
  /// Name of the HIP function, a string with static storage.
  [[nodiscard]] const char* call() const noexcept { return call_; }
  /// Place of the call in hipvmm's sources, for developers; what() omits it.
  [[nodiscard]] const char* file() const noexcept { return file_; }
  [[nodiscard]] unsigned line() const noexcept { return line_; }

 private:
  int code_;
  const char* call_;
  const char* file_;
  unsigned line_;
};

enum class exhausted {
  device_memory,  ///< physical memory of the device
  addresses,      ///< virtual address space of the process, or a resource's reserved part of it
  descriptors,    ///< open file descriptors of the process (RLIMIT_NOFILE)
  host_memory,    ///< memory of the host, pinned or not
  limit,          ///< a limit that the program set; shortage::owner names it
  budget,         ///< a memory_budget; shortage::owner names it
  fragmentation,  ///< enough is free, but not in one piece
  alignment,      ///< no address of the resource has the requested alignment
};

struct shortage {
  exhausted cause = exhausted::device_memory;
  int device = -1;  ///< ordinal; -1: the memory belongs to no device
  std::size_t requested = 0;
  /// Bytes left of the limit or budget; for fragmentation the largest request that fits; else the
  /// free memory of the device or host, as HIP or the system reported it.
  std::size_t available = 0;
  /// The setting that refused, such as "pool_options::maximum_bytes" or "budget 'training'".
  std::string owner = {};
  /// The largest request that can ever succeed. Zero means unknown, except that no request can
  /// succeed for an alignment, or for a limit with nothing `used` and nothing `available`.
  std::size_t most = 0;
  /// Bytes that callers hold of the resource that refused, if it counts them.
  std::optional<std::size_t> used = {};
  std::size_t alignment = 0;  ///< requested; 0: unknown
  std::string context = {};   ///< continues the sentence; may be empty

  [[nodiscard]] bool can_be_relieved() const noexcept {
    const bool is_zero = cause == exhausted::limit && used == std::size_t{0} && available == 0;
    return requested <= most || (most == 0 && cause != exhausted::alignment && !is_zero);
  }
  [[nodiscard]] std::string text() const;
};

/// A resource ran out. The object is unchanged, with the exceptions of docs/reference/errors.md.
class out_of_memory : public std::bad_alloc {
 public:
  explicit out_of_memory(shortage why);
  out_of_memory(exhausted resource, int device, std::size_t bytes_requested, std::size_t bytes_free,
                const std::string& context);
  /// For a program's own resource: resource() is `limit`, device() is -1, and all sizes are zero.
  explicit out_of_memory(const std::string& message);
  out_of_memory(const out_of_memory& cause, const std::string& context);
  // No move, which would leave what() without its message.
  out_of_memory(const out_of_memory&) noexcept = default;
  out_of_memory& operator=(const out_of_memory&) noexcept = default;
  ~out_of_memory() override = default;

  [[nodiscard]] const char* what() const noexcept override { return state_->message.c_str(); }
  [[nodiscard]] const shortage& why() const noexcept { return state_->why; }
  [[nodiscard]] exhausted resource() const noexcept { return why().cause; }
  [[nodiscard]] int device() const noexcept { return why().device; }
  /// Zero if HIP does not say how much a call needed, as for streams and events.
  [[nodiscard]] std::size_t bytes_requested() const noexcept { return why().requested; }
  [[nodiscard]] std::size_t bytes_free() const noexcept { return why().available; }

 private:
  struct state {
    shortage why;
    std::string message;
  };
  std::shared_ptr<const state> state_;  // shared: copying an exception must not throw
};

/// The device, the runtime or this build does not support the request, and never will.
class unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Receives failures that cannot be thrown (HIP's function and its hipError_t) and warnings (a
/// subject, hipErrorUnknown and a whole sentence). Must not throw. Any thread may call it, threads
/// of the library too: most signals are blocked in these, and in processes that they start.
using error_handler = void (*)(const char* call, int code, const char* message) noexcept;

/// Returns the previous handler. `nullptr` restores the default: one line to standard error.
error_handler set_error_handler(error_handler handler) noexcept;

}  // namespace hipvmm
