// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace hipvmm::detail {

/// A process in one word: its ID and when it started, so that a later process with the same ID is
/// another one. Zero is none.
using process_identity = std::uint64_t;

/// Throws: ipc_error `system` where /proc cannot be read.
[[nodiscard]] process_identity own_process_identity();
[[nodiscard]] ::pid_t process_of(process_identity identity) noexcept;
/// Whether the process runs. One that ended and was not waited for (a zombie) does not. Where that
/// cannot be found out, it is taken to run.
/// Pre: it is of this PID namespace.
[[nodiscard]] bool is_running(process_identity identity) noexcept;
/// The PID namespace of this process; zero where it cannot be found out.
[[nodiscard]] std::uint64_t own_pid_namespace() noexcept;

}  // namespace hipvmm::detail
