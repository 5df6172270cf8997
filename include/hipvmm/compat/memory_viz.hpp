// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/mr/pool_snapshot.hpp>

namespace hipvmm {

/// Returns snapshots and events as JSON in the form of PyTorch's torch.cuda.memory._snapshot(),
/// which pytorch.org/memory_viz shows after json.load and pickle.dump. Throws: std::bad_alloc.
/// - Only events of these pools up to their snapshots, and of the mappings in them, are used. They
///   supply the requested sizes.
/// - Pre: `events` are in the order of time, and no other thread used the pools while the snapshots
///   were taken and the events read: the viewer goes back from the snapshot event by event.
/// - Slabs of hipMalloc have no map events: events of their memory are left out unless a snapshot
///   has it.
[[nodiscard]] std::string memory_viz_json(const std::vector<mr::pool_snapshot>& pools,
                                          const std::vector<memory_event>& events = {});

}  // namespace hipvmm
