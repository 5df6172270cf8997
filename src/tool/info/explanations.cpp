// SPDX-License-Identifier: MIT
#include "tool/info/explanations.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace hipvmm::tool {
namespace {

// In the order of the enumeration.
constexpr std::array<explanation, trait_count> explanations{{
    // virtual_memory
    {"Buffers grow in place. Without it they grow by allocating, copying and freeing, as "
     "std::vector does, and data() changes.",
     "HIP on Linux before ROCm 6.1; MI100 (ROCm/hip#3151); calls that hang with an old libdrm "
     "(ROCm/rocm-systems#9820).",
     "Takes the fallback over hipMalloc."},
    // several_reservations
    {"Several growable buffers can live at a time.",
     "Grants that fail once there are several reservations (ROCm/rocm-systems#6977) are the "
     "nearest "
     "report.",
     "Takes the fallback over hipMalloc."},
    // unmaps_each
    {"A buffer can release its end and keep the rest.", "No release is known that lacks it.",
     "Takes the fallback over hipMalloc."},
    // unmaps_many
    {"The end of a buffer, a trim and suspend() take one call for up to 64 chunks. Each call may "
     "wait for streams.",
     "ROCm before 7.0 keeps the addresses busy after one unmap over several mappings "
     "(ROCm/ROCR-Runtime#285).",
     "Unmaps one mapping at a time."},
    // tail_access
    {"Growth grants rights to new chunks only. Without it each step also grants the existing ones, "
     "at a cost that rises with their number, and a region with holes needs chunks of one size.",
     "ROCm 7.0 to 7.2 (ROCm/rocm-systems#6977, #2516, #2667); gfx1151 (ggml-org/llama.cpp#23900).",
     "Sets the rights for all mappings at once, or one by one if all have one size "
     "(access_from_base)."},
    // base_access
    {"The substitute for tail_access.", "No release is known that lacks both.",
     "Takes the fallback over hipMalloc if tail_access is missing too."},
    // equal_access
    {"The substitute for tail_access in memory with holes.", "No release is known that lacks both.",
     "Takes the fallback over hipMalloc if tail_access is missing too."},
    // reports_failed_map
    {"A lack of memory or addresses shows as an error of the call that failed.",
     "ROCm 6.1 to 7.13 log the failure and report success (mended by ROCm/rocm-systems#7685).",
     "Checks each map by a query of HIP (verify_maps)."},
    // visible_at_once
    {"Bytes written right after growth arrive. Without it the new bytes read as zero for a time, "
     "and stores to them are lost.",
     "gfx1201, up to 2 ms (ROCm/rocm-systems#11693, ROCm/clr#288).",
     "Uses new memory only after visibility_delay (wait_until_visible); grow_ahead hides "
     "that."},
    // crosses_chunks
    {"A copy or a kernel may run over the whole buffer after any number of growth steps.",
     "Faults of kernels across chunks (ROCm/hip#3763).", "Takes the fallback over hipMalloc."},
    // crosses_reservations
    {"A buffer that grows past its maximum keeps its address if the addresses behind it are "
     "free.",
     "ROCm refuses copies and fills that span two reservations.",
     "Moves such a buffer to one larger reservation, without copying (one_reservation)."},
    // returns_memory
    {"Memory that a buffer releases is free for others at once.",
     "ROCm on Linux before ROCm/rocm-systems#4363 (ROCm/legacy-rocm-build#6021).",
     "Frees the addresses of an emptied buffer and takes them again (re_reserve)."},
    // returns_with_addresses
    {"Memory that a buffer releases is free for others at the latest when the buffer is gone. "
     "Without it the process keeps it to its end.",
     "ROCm 6.4.0 and 6.4.1 (ROCm/hip#3781).",
     "Only another release helps; the chunk cache reuses its chunks."},
    // coherent_aliases
    {"Work at an old and at a new address of the same memory sees the same bytes.",
     "RDNA GPUs, whose L1 caches are not coherent for two addresses of a page (ROCm/hip#3728).",
     "Uses no chunk at two addresses (no_aliases)."},
    // keeps_read_only
    {"Nothing: the library does not rely on it. Without it access_right::read does not stop a "
     "device from writing.",
     "ROCm on Linux does not check copies into memory that may only be read.",
     "Grants the requested right; the check is the device's."},
    // peer_access
    {"Growable buffers can be granted to the devices that HIP calls peers.",
     "ROCm 7.14 corrupts a mapping when a peer is granted after the owner (openxla/xla#46576).",
     "Sets all rights of a mapping in one call, the owner's last. Says which peer was refused."},
    // peer_copies
    {"A vector takes elements of a peer's memory that its own device may read.",
     "ROCm 6: the peer's engine copies and faults (seen with 6.4.3 on a stand-in).",
     "Refuses to append from a device that has no right to the vector, and names both."},
    // shares_chunks
    {"Memory can be handed to another process.", "ROCm before 6.2 offers no descriptors.",
     "Export and import throw HIP's error."},
    // imports_by_value
    {"Nothing: the library follows the convention.",
     "ROCm up to 7.0 takes a pointer to the descriptor (ROCm/rocm-systems#11020).",
     "Passes a pointer if the runtime needs one (import_by_pointer)."},
    // host_access
    {"Host code may read and write through data(). Nothing of the library relies on it.",
     "NVIDIA GPUs; AMD GPUs without a large BAR.",
     "Nothing; copy_to_host and the other copies work everywhere."},
    // counts_ending_streams
    {"Memory that a stream used is not unmapped while another thread destroys that stream.",
     "AMD's runtime: hipStreamDestroy first removes the stream from the list of "
     "hipDeviceSynchronize.",
     "hipvmm::stream waits for its work before it is destroyed. A program must wait for a stream "
     "before its own hipStreamDestroy."},
    // free_waits
    {"Retired memory returns beside stream captures, and invalidates none of them.",
     "Not known of any runtime; CUDA is not asked at first use.",
     "Devices are waited for by hipDeviceSynchronize, which captures forbid and which costs them: "
     "retired memory returns when they have ended."},
    // host_chunks
    {"A region or vector can grow in memory of the host after its budget of the device is used up.",
     "ROCm before 7.2 makes chunks on devices only (ROCm/rocm-systems#682); CUDA since 12.2.",
     "chunk_placement::spill and region::move_range to the host are unsupported."},
    // retains_chunks
    {"Memory of another library that uses virtual memory management can be mapped at addresses of "
     "hipvmm, and stays until both have released it.",
     "ROCm up to 6.4, and 7.2, find a chunk by its address and count no reference to it.",
     "retain_chunk is unsupported."},
    // uncached_chunks
    {"Flags and counters can be in memory that no cache keeps, for kernels that run at the same "
     "time.",
     "ROCm before 7.1 and CUDA know no such chunks.",
     "region_options::memory and pool_options::memory with chunk_memory::uncached are "
     "unsupported."},
    // host_node_chunks
    {"Memory of a region or vector beyond its budget of the device can be of a chosen NUMA node.",
     "ROCm before 10 (ROCm/rocm-systems#8058); CUDA since 12.2.",
     "chunk_placement::spill and region::move_range to a node are unsupported; to the host as a "
     "whole they may work."},
    // pools_reuse_in_order
    {"A block of a pool of HIP's may be freed in another stream than it was allocated in.",
     "AMD's runtime gives the stream of the allocation the block at once (seen with 6.4.3 and "
     "7.2.4 "
     "on a stand-in).",
     "hip_async_resource keeps each block until its work has passed. A program's own pools: free "
     "in "
     "the stream of the allocation."},
    // pool_frees_return
    {"hipFreeAsync does not hold up the host.",
     "AMD's runtime waits for the earlier free of a block that is in use again (seen with 6.4.3 "
     "and "
     "7.2.4 on a stand-in).",
     "hip_async_resource keeps each block until its work has passed, so that HIP gets idle ones "
     "only."},
}};

// A trait without its explanation would be an empty place in the list.
static_assert(std::all_of(explanations.begin(), explanations.end(), [](const explanation& each) {
  return !each.meaning.empty() && !each.recorded.empty() && !each.answer.empty();
}));

}  // namespace

const explanation& explain(trait which) noexcept {
  return explanations[static_cast<std::size_t>(which)];
}

std::string_view cause_of(quirk which) noexcept {
  static constexpr std::array<std::string_view, 8> causes{
      "tail_access is missing",       "reports_failed_map is missing",
      "visible_at_once is missing",   "returns_memory is missing",
      "coherent_aliases is missing",  "imports_by_value is missing",
      "each chunk costs descriptors", "crosses_reservations is missing"};
  static_assert(causes.size() == static_cast<std::size_t>(quirk::one_reservation) + 1);
  return causes[static_cast<std::size_t>(which)];
}

}  // namespace hipvmm::tool
