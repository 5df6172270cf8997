// SPDX-License-Identifier: MIT
#include "api/memory.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "memory/tracked_range.hpp"
#include "pool/mem_pool_set.hpp"

namespace hipvmm::host_provider {
namespace {

// A graph's memory is on the pool's device, with the rights that the pool has now.
graph_memory_place place_of(runtime& machine, const mem_pool& pool) {
  return {machine.device(pool.device()).memory, pool.device(),
          pool.rights().readers.load(std::memory_order_relaxed),
          pool.rights().writers.load(std::memory_order_relaxed)};
}

// Checks the stream before the size: a wrong stream is refused even for 0 bytes.
hipError_t allocate(runtime& machine, void** pointer, std::size_t bytes, stream_queue& queue,
                    hipMemPool_t pool, pool_step step) {
  require(pointer != nullptr);
  const std::shared_ptr<mem_pool> source = machine.pools().find(pool);
  const hipError_t imported_code = machine.rules().allocation_from_imported;
  require(source->origin() != pool_origin::imported || imported_code == hipSuccess, imported_code);
  if (const std::optional<address> recorded =
          machine.captures().record_allocation(queue, place_of(machine, *source), bytes)) {
    *pointer = pointer_to(*recorded);
    return hipSuccess;
  }
  if (bytes != 0) machine.captures().refuse_pool_call(queue, step);
  *pointer = nullptr;
  if (bytes != 0) *pointer = pointer_to(source->allocate(bytes, queue));
  return hipSuccess;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMallocAsync(void** pointer, size_t bytes, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<stream_queue> queue =
        stream_of_memory(machine, stream, machine.rules().bad_stream);
    return allocate(machine, pointer, bytes, *queue, machine.pools().current_of(queue->device()),
                    pool_step::allocate);
  });
}

hipError_t hipMallocFromPoolAsync(void** pointer, size_t bytes, hipMemPool_t pool,
                                  hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<stream_queue> queue =
        stream_of_memory(machine, stream, machine.rules().bad_stream);
    return allocate(machine, pointer, bytes, *queue, pool, pool_step::allocate_from_pool);
  });
}

hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr || machine.rules().free_async == null_free::ignored);
    const std::shared_ptr<stream_queue> queue =
        stream_of_memory(machine, stream, machine.rules().bad_stream);
    if (pointer == nullptr) return hipSuccess;
    const address start = address_of(pointer);
    if (machine.captures().record_free(*queue, start)) return hipSuccess;
    machine.captures().refuse_pool_call(*queue, pool_step::free);
    const std::optional<tracked_range> found = machine.addresses().find(start);
    if (found && found->kind == memory_kind::pool_block && found->start == start) {
      free_block(*found, queue.get());
    } else if (found && found->kind == memory_kind::graph_allocation && found->start == start) {
      return free_graph_memory(machine, *found, *queue);
    } else {
      free_now(machine, start);
    }
    return hipSuccess;
  });
}
