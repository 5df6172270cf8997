// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

#include "machine/runtime.hpp"
#include "memory/transfer.hpp"

namespace hipvmm::host_provider {

struct copy_arguments {
  void* destination;
  const void* source;
  std::size_t bytes;  ///< of each piece
  piece_grid pieces = {};
  pitches destination_apart = {};
  pitches source_apart = {};
};

/// How long the calling thread waits for its copy.
enum class copy_wait {
  none,
  finished,
  unless_inside_device,  ///< the same, but for copies inside one device
  ordered,  ///< not at all: work that the null streams of both devices order comes before or after
};

/// Whether it is one of hipMemcpyKind.
bool is_copy_kind(int kind) noexcept;

/// Submits the copy, for which `kind` and the rights to both sides are checked.
hipError_t copy_memory(runtime& machine, const copy_arguments& what, int kind, hipStream_t stream,
                       copy_wait until);

}  // namespace hipvmm::host_provider
