// SPDX-License-Identifier: MIT
#include "call.hpp"
#include "mem_pool_set.hpp"
#include "memory.hpp"
#include "pointers.hpp"

namespace hipvmm::host_provider {
namespace {

// Looks at the stream before the size, so that a bad one is told of even where nothing is wanted.
hipError_t allocate(runtime& machine, void** pointer, std::size_t bytes, stream_queue& queue,
                    hipMemPool_t pool) {
  require(pointer != nullptr);
  const std::shared_ptr<mem_pool> source = machine.pools().find(pool);
  *pointer = nullptr;
  if (bytes != 0) *pointer = pointer_to(source->allocate(bytes, queue));
  return hipSuccess;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMallocAsync(void** pointer, size_t bytes, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    return allocate(machine, pointer, bytes, *queue, machine.pools().current_of(queue->device()));
  });
}

hipError_t hipMallocFromPoolAsync(void** pointer, size_t bytes, hipMemPool_t pool,
                                  hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return allocate(machine, pointer, bytes, *machine.stream(stream), pool);
  });
}

hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    const address start = address_of(pointer);
    const std::optional<region> found = machine.addresses().find(start);
    if (found && found->kind == memory_kind::pool_block && found->start == start) {
      free_block(*found, queue.get());
    } else {
      free_now(machine, start);
    }
    return hipSuccess;
  });
}
