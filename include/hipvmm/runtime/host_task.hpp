// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>

#include <hipvmm/runtime/stream.hpp>

// The stand-in for a kernel if there is no compiler for kernels or no GPU: a function that runs
// in a stream, and its uses of memory, or those of a kernel, for the host provider's order checker.
namespace hipvmm {

enum class memory_use {
  read,
  write,  ///< alone or with reads
};

/// Bytes that work of a stream uses, `bytes` of them from `pointer` on.
struct used_memory {
  const void* pointer;
  std::size_t bytes;
  memory_use use;
};

/// Declares that work submitted to `stream` at this point uses that memory, as a kernel does. The
/// order checker of the host provider (HIPVMM_HOST_CHECK=1) judges it as it judges copies and
/// fills; anywhere else the call does nothing. Throws, with the checker only: std::invalid_argument
/// if the stream's device may not use a byte so; hip_error for an unknown stream, and while
/// `stream` is captured.
void note_use(stream_ref stream, const used_memory& used);

/// Makes HIP call `task` in a thread of its own after the work of `stream`; later work of the
/// stream waits for it. With the host provider it may use device memory by its address, as a
/// kernel, except mapped memory under the profile cuda-13, which is closed to the host; with others
/// only memory that the host can use. `uses` are its uses of memory, as for note_use().
/// Throws: as note_use; hip_error, among others if `stream` is captured. `task` does not run
/// then. Pre: `task` calls no HIP, hipvmm's functions that do included, and does not throw.
void host_task(stream_ref stream, std::function<void()> task,
               std::initializer_list<used_memory> uses = {});

}  // namespace hipvmm
