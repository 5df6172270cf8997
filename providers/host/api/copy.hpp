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

enum class copy_wait {
  none,
  finished,
  unless_inside_device,  ///< the same, but for copies inside one device
  ordered,  ///< not at all: work that the null streams of both devices order comes before or after
};

bool is_copy_kind(int kind) noexcept;

/// Checks `kind` and the rights to both sides, and submits the copy.
hipError_t copy_memory(runtime& machine, const copy_arguments& what, int kind, hipStream_t stream,
                       copy_wait until);

}  // namespace hipvmm::host_provider
