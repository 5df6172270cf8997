// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>

#include <hipvmm/runtime/stream.hpp>

// Stand-ins for kernels if there is no compiler for kernels or no GPU: a function that runs in a
// stream, and notes of its uses of memory, or of a kernel's, for the host provider's order checker.
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

/// Declares that work submitted to `stream` at this point uses that memory, as a kernel does. The
/// order checker of the host provider (HIPVMM_HOST_CHECK=1) then treats it like copies and fills.
/// Without the checker the call does nothing. Throws, with the checker: std::invalid_argument if
/// the stream's device may not use a byte so; hip_error for an unknown or a captured stream.
void note_use(stream_ref stream, const used_memory& used);

/// Makes HIP call `task` in a thread of its own after the work of `stream`; later work of the
/// stream waits for it. `uses` are its uses of memory, as for note_use().
/// - With the host provider it may use device memory by its address, as a kernel, except mapped
///   memory under the profile cuda-13. With others it may use only memory that the host can use.
/// Pre: `task` calls neither HIP nor functions of hipvmm that do, and does not throw.
/// Throws, and `task` does not run: as note_use; hip_error, among others if `stream` is captured.
void host_task(stream_ref stream, std::function<void()> task,
               std::initializer_list<used_memory> uses = {});

}  // namespace hipvmm
