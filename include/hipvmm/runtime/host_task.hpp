// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>

#include <hipvmm/runtime/stream.hpp>

// Stand-ins for kernels where there is no compiler for kernels or no GPU.
namespace hipvmm {

enum class memory_use {
  read,
  write,  ///< alone or with reads
};

struct used_memory {
  const void* pointer;
  std::size_t bytes;
  memory_use use;
};

/// Declares for the host provider's order checker (HIPVMM_HOST_CHECK=1) that work submitted to
/// `stream` now uses that memory. Throws, with the checker: std::invalid_argument if the stream's
/// device may not use a byte so; hip_error for an unknown or a captured stream.
void note_use(stream_ref stream, const used_memory& used);

/// Makes HIP call `task` in a thread of its own after the work of `stream`, before its later work.
/// - It may use memory that the host can use. With the host provider also device memory, except
///   mapped memory under the profile cuda-13.
/// Pre: `task` calls neither HIP nor functions of hipvmm that do, and does not throw.
/// Throws, and `task` does not run: as note_use(); hip_error, as if `stream` is captured.
void host_task(stream_ref stream, std::function<void()> task,
               std::initializer_list<used_memory> uses = {});

}  // namespace hipvmm
