// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/mr/pool_snapshot.hpp>

namespace hipvmm {

/// Returns snapshots and events as JSON in the form of PyTorch's torch.cuda.memory._snapshot(),
/// which pytorch.org/memory_viz shows after json.load and pickle.dump. Throws: std::bad_alloc.
/// - Of `events` only those of these pools and their mappings, up to their snapshots, are used.
///   Requested sizes come from them.
/// - Pre: `events` are in the order of time, and no other thread used the pools while the snapshots
///   were taken and the events read: the viewer goes back from the snapshot event by event.
/// - Events of slabs of hipMalloc are left out unless a snapshot has the slab.
[[nodiscard]] std::string memory_viz_json(const std::vector<mr::pool_snapshot>& pools,
                                          const std::vector<memory_event>& events = {});

}  // namespace hipvmm
