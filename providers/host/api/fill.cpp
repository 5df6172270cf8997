// SPDX-License-Identifier: MIT
#include <limits>

#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "memory/address.hpp"
#include "stream/operations.hpp"

namespace hipvmm::host_provider {
namespace {

struct elements {
  void* destination;
  std::uint32_t pattern;
  unsigned width;
  std::size_t count;  ///< of each piece
  piece_grid pieces = {};
  pitches apart = {};
};

// Without a link to its owner a device cannot use mapped memory.
void end_where_link_is_missing(runtime& machine, const endpoint& side) {
  if (side.where != memory_class::device || machine.rules().fills != peer_fill::any_owner) return;
  const std::optional<tracked_range> found = machine.addresses().find(side.start);
  if (found && machine.has_device(found->device) &&
      !machine.peers().reaches(side.device, found->device))
    throw crash{"fills memory of a device in a stream of another that has no link to it",
                "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"};
}

hipError_t fill(runtime& machine, const elements& what, hipStream_t stream, completion how) {
  if (machine.rules().filled_stream == bad_pointer::followed && !machine.has_stream(stream)) {
    throw crash{"follows a stream that was destroyed or never made",
                "ROCm/clr to 6.4, hip_memory.cpp"};
  }
  const std::shared_ptr<stream_queue> queue = machine.stream(stream);
  require(what.count <= std::numeric_limits<std::size_t>::max() / what.width ||
          machine.rules().filled_bytes == fill_size::wraps);
  const std::size_t bytes = what.count * what.width;
  if (bytes == 0 || what.pieces.rows == 0 || what.pieces.slices == 0) return hipSuccess;
  const address start = address_of(what.destination);
  require(start != 0);
  const endpoint side{start, machine.addresses().classify(start), queue->device(),
                      machine.rules().fills == peer_fill::any_owner, what.apart};
  require(side.where != memory_class::pageable || machine.configuration().pageable_access);
  require(allowed(machine.access(), side, right::write, bytes, what.pieces));
  end_where_link_is_missing(machine, side);
  if (start % what.width != 0 && machine.rules().split_element == bad_pointer::followed) {
    throw crash{"ends the process for a fill that starts inside an element",
                "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"};
  }
  require(start % what.width == 0);
  if (how == completion::synchronous) machine.captures().refuse_waiting_copy();
  // Waits only for memory that the host may use at once.
  if (side.where == memory_class::device && !machine.addresses().is_synchronous(start))
    how = completion::asynchronous;
  return machine.submit(
      *queue,
      fill_operation{{side, what.pattern, what.width, what.count, what.pieces}, machine.access()},
      how);
}

hipError_t fill_rows(runtime& machine, const hipPitchedPtr& to, int value, const hipExtent& extent,
                     hipStream_t stream, completion how) {
  require(extent.width <= to.pitch || extent.height == 0 || extent.depth == 0);
  const elements what{to.ptr,
                      static_cast<std::uint32_t>(value) & 0xFFU,
                      1,
                      extent.width,
                      {extent.height, extent.depth},
                      {to.pitch, to.pitch * to.ysize}};
  return fill(machine, what, stream, how);
}

std::uint32_t low_byte(int value) noexcept { return static_cast<std::uint32_t>(value) & 0xFFU; }

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMemset(void* destination, int value, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return fill(machine, {destination, low_byte(value), 1, bytes}, nullptr,
                completion::synchronous);
  });
}

hipError_t hipMemsetAsync(void* destination, int value, size_t bytes, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return fill(machine, {destination, low_byte(value), 1, bytes}, stream,
                completion::asynchronous);
  });
}

hipError_t hipMemsetD8(hipDeviceptr_t destination, unsigned char value, size_t count) {
  return call(__func__, [&](runtime& machine) {
    return fill(machine, {destination, value, 1, count}, nullptr, completion::synchronous);
  });
}

hipError_t hipMemsetD8Async(hipDeviceptr_t destination, unsigned char value, size_t count,
                            hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return fill(machine, {destination, value, 1, count}, stream, completion::asynchronous);
  });
}

hipError_t hipMemsetD16(hipDeviceptr_t destination, unsigned short value, size_t count) {
  return call(__func__, [&](runtime& machine) {
    return fill(machine, {destination, value, 2, count}, nullptr, completion::synchronous);
  });
}

hipError_t hipMemsetD16Async(hipDeviceptr_t destination, unsigned short value, size_t count,
                             hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return fill(machine, {destination, value, 2, count}, stream, completion::asynchronous);
  });
}

hipError_t hipMemsetD32(hipDeviceptr_t destination, int value, size_t count) {
  return call(__func__, [&](runtime& machine) {
    return fill(machine, {destination, static_cast<std::uint32_t>(value), 4, count}, nullptr,
                completion::synchronous);
  });
}

hipError_t hipMemsetD32Async(hipDeviceptr_t destination, int value, size_t count,
                             hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return fill(machine, {destination, static_cast<std::uint32_t>(value), 4, count}, stream,
                completion::asynchronous);
  });
}

hipError_t hipMemset2D(void* destination, size_t pitch, int value, size_t width, size_t height) {
  return call(__func__, [&](runtime& machine) {
    return fill_rows(machine, {destination, pitch, width, height}, value, {width, height, 1},
                     nullptr, completion::synchronous);
  });
}

hipError_t hipMemset2DAsync(void* destination, size_t pitch, int value, size_t width, size_t height,
                            hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return fill_rows(machine, {destination, pitch, width, height}, value, {width, height, 1},
                     stream, completion::asynchronous);
  });
}

hipError_t hipMemset3D(hipPitchedPtr destination, int value, hipExtent extent) {
  return call(__func__, [&](runtime& machine) {
    return fill_rows(machine, destination, value, extent, nullptr, completion::synchronous);
  });
}

hipError_t hipMemset3DAsync(hipPitchedPtr destination, int value, hipExtent extent,
                            hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return fill_rows(machine, destination, value, extent, stream, completion::asynchronous);
  });
}
