// SPDX-License-Identifier: MIT
#include <cstdint>
#include <utility>

#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "memory/address.hpp"
#include "stream/operations.hpp"

namespace hipvmm::host_provider {
namespace {

value_condition condition_of(unsigned flags, const profile& rules) {
  switch (flags) {
    case hipStreamWaitValueGte:
      return rules.stream_values == value_calls::as_cuda ? value_condition::not_behind
                                                         : value_condition::at_least;
    case hipStreamWaitValueEq:
      return value_condition::equal;
    case hipStreamWaitValueAnd:
      return value_condition::any_bit;
    case hipStreamWaitValueNor:
      return value_condition::not_all_bits;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

endpoint number_in(runtime& machine, const stream_queue& queue, void* pointer, right needed,
                   unsigned width) {
  require(pointer != nullptr);
  const address start = address_of(pointer);
  require(start % width == 0 || machine.rules().stream_values == value_calls::as_amd);
  const endpoint side{start, machine.addresses().classify(start), queue.device(),
                      machine.rules().fills == peer_fill::any_owner};
  require(side.where != memory_class::pageable || machine.configuration().pageable_access);
  require(allowed(machine.access(), side, needed, width));
  return side;
}

template <class Operation>
hipError_t submit(runtime& machine, stream_queue& queue, Operation work) {
  const bool is_recorded = machine.captures().is_capturing(queue);
  if (is_recorded && machine.rules().stream_values == value_calls::as_amd) {
    return machine.submit_beside_capture(queue, std::make_unique<Operation>(std::move(work)));
  }
  return machine.submit(queue, std::move(work), completion::asynchronous);
}

struct awaited_number {
  void* pointer;
  std::uint64_t value;
  std::uint64_t mask;
  unsigned flags;
};

hipError_t wait(runtime& machine, hipStream_t stream, const awaited_number& what, unsigned width) {
  const std::shared_ptr<stream_queue> queue =
      machine.stream(stream, machine.rules().value_in_destroyed);
  const value_condition until = condition_of(what.flags, machine.rules());
  const endpoint memory = number_in(machine, *queue, what.pointer, right::read, width);
  const value_wait_request request{memory, width, until, what.value, what.mask};
  const hipError_t result =
      submit(machine, *queue, value_wait_operation{request, machine.access()});
  if (race_checker* const checker = machine.checker()) checker->await_value(*queue, request);
  return result;
}

hipError_t write(runtime& machine, hipStream_t stream, const awaited_number& what, unsigned width) {
  const std::shared_ptr<stream_queue> queue =
      machine.stream(stream, machine.rules().value_in_destroyed);
  require(what.flags == 0 || machine.rules().stream_values == value_calls::as_amd);
  const endpoint memory = number_in(machine, *queue, what.pointer, right::write, width);
  const value_write_request request{memory, width, what.value};
  const hipError_t result =
      submit(machine, *queue, value_write_operation{request, machine.access()});
  if (race_checker* const checker = machine.checker()) checker->write_value(*queue, request);
  return result;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipStreamWaitValue32(hipStream_t stream, void* pointer, std::uint32_t value,
                                unsigned int flags, std::uint32_t mask) {
  return call(__func__, [&](runtime& machine) {
    return wait(machine, stream, {pointer, value, mask, flags}, 4);
  });
}

hipError_t hipStreamWaitValue64(hipStream_t stream, void* pointer, std::uint64_t value,
                                unsigned int flags, std::uint64_t mask) {
  return call(__func__, [&](runtime& machine) {
    return wait(machine, stream, {pointer, value, mask, flags}, 8);
  });
}

hipError_t hipStreamWriteValue32(hipStream_t stream, void* pointer, std::uint32_t value,
                                 unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    return write(machine, stream, {pointer, value, 0, flags}, 4);
  });
}

hipError_t hipStreamWriteValue64(hipStream_t stream, void* pointer, std::uint64_t value,
                                 unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    return write(machine, stream, {pointer, value, 0, flags}, 8);
  });
}
