// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm::detail {

/// As region::adopt() for each of `chunks`, by offset, all or none: neighbours get their rights by
/// one call. Takes the chunks only when it succeeds.
void adopt_chunks(region& in, std::map<std::size_t, physical_chunk>& chunks);

/// Makes another owner of the chunk that begins at `offset`, to be adopted at another one. See
/// reference_to().
/// Throws: std::invalid_argument unless a chunk begins there; std::bad_alloc.
[[nodiscard]] physical_chunk reference_chunk(region& of, std::size_t offset);

/// Replaces the chunks that begin at `offsets` by new ones with the same bytes and rights, all or
/// none: copies them in `stream`, waits for it, and maps the new ones in place of the old ones.
/// Pre: all work that uses these addresses is ordered before this call in `stream`, of a device
/// with access, and none is submitted before it returns. Throws: std::invalid_argument unless
/// chunks begin there; out_of_memory; hip_error.
void copy_chunks(region& in, const std::vector<std::size_t>& offsets, stream_ref stream);

}  // namespace hipvmm::detail
