// SPDX-License-Identifier: MIT
#include "base/call.hpp"
#include "core/hip_compat.hpp"
#include "stream/capture.hpp"

namespace hipvmm::cuda_provider {
namespace {

struct copy_arguments {
  void* destination;
  const void* source;
  std::size_t bytes;
};

// The driver checks a direction that is given; otherwise it finds it by the addresses.
CUresult submit(const copy_arguments& what, int kind, CUstream stream) {
  const CUdeviceptr to = to_cuda(what.destination);
  const CUdeviceptr from = to_cuda(what.source);
  switch (kind) {
    case hipMemcpyHostToDevice:
      return cuMemcpyHtoDAsync(to, what.source, what.bytes, stream);
    case hipMemcpyDeviceToHost:
      return cuMemcpyDtoHAsync(what.destination, from, what.bytes, stream);
    case hipMemcpyDeviceToDevice:
    case hip_compat::device_to_device_no_cu:
      return cuMemcpyDtoDAsync(to, from, what.bytes, stream);
    case hipMemcpyHostToHost:
    case hipMemcpyDefault:
      return cuMemcpyAsync(to, from, what.bytes, stream);
    default:
      throw failure{hipErrorInvalidMemcpyDirection};
  }
}

void copy(const copy_arguments& what, int kind, hipStream_t stream) {
  if (what.bytes == 0) return;
  require(what.destination != nullptr && what.source != nullptr);
  check(submit(what, kind, to_cuda(stream)));
}

// CUDA's own synchronous copies return early between devices; HIP's have copied.
hipError_t copy_and_wait(const copy_arguments& what, int kind) {
  return call([&](driver&) {
    copy(what, kind, nullptr);
    if (what.bytes != 0) check(cuStreamSynchronize(nullptr));
    return hipSuccess;
  });
}

hipError_t copy_async(const copy_arguments& what, int kind, hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    copy(what, kind, stream);
    return hipSuccess;
  });
}

void copy_peer(driver& machine, const copy_arguments& what, int destination_device,
               int source_device, hipStream_t stream) {
  const CUcontext to = machine.primary(destination_device);
  const CUcontext from = machine.primary(source_device);
  if (what.bytes == 0) return;
  require(what.destination != nullptr && what.source != nullptr);
  check(cuMemcpyPeerAsync(to_cuda(what.destination), to, to_cuda(what.source), from, what.bytes,
                          to_cuda(stream)));
}

// The release of the header decides whether the host source of hipMemcpyHtoD is const.
template <class Result, class Destination, class Source, class... Rest>
Source source_parameter(Result (*)(Destination, Source, Rest...));
using host_source = decltype(source_parameter(&hipMemcpyHtoD));
using async_host_source = decltype(source_parameter(&hipMemcpyHtoDAsync));

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipMemcpy(void* destination, const void* source, size_t bytes, hipMemcpyKind kind) {
  return copy_and_wait({destination, source, bytes}, value_of(kind));
}

hipError_t hipMemcpyAsync(void* destination, const void* source, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream) {
  return copy_async({destination, source, bytes}, value_of(kind), stream);
}

hipError_t hipMemcpyWithStream(void* destination, const void* source, size_t bytes,
                               hipMemcpyKind kind, hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    copy({destination, source, bytes}, value_of(kind), stream);
    if (bytes != 0 && !is_captured(stream)) check(cuStreamSynchronize(to_cuda(stream)));
    return hipSuccess;
  });
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t destination, host_source source, size_t bytes) {
  return copy_and_wait({destination, source, bytes}, hipMemcpyHostToDevice);
}

hipError_t hipMemcpyDtoH(void* destination, hipDeviceptr_t source, size_t bytes) {
  return copy_and_wait({destination, source, bytes}, hipMemcpyDeviceToHost);
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t destination, hipDeviceptr_t source, size_t bytes) {
  return copy_and_wait({destination, source, bytes}, hipMemcpyDeviceToDevice);
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t destination, async_host_source source, size_t bytes,
                              hipStream_t stream) {
  return copy_async({destination, source, bytes}, hipMemcpyHostToDevice, stream);
}

hipError_t hipMemcpyDtoHAsync(void* destination, hipDeviceptr_t source, size_t bytes,
                              hipStream_t stream) {
  return copy_async({destination, source, bytes}, hipMemcpyDeviceToHost, stream);
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t destination, hipDeviceptr_t source, size_t bytes,
                              hipStream_t stream) {
  return copy_async({destination, source, bytes}, hipMemcpyDeviceToDevice, stream);
}

hipError_t hipMemcpyPeer(void* destination, int destination_device, const void* source,
                         int source_device, size_t bytes) {
  return call([&](driver& machine) {
    copy_peer(machine, {destination, source, bytes}, destination_device, source_device, nullptr);
    if (bytes != 0) check(cuStreamSynchronize(nullptr));
    return hipSuccess;
  });
}

hipError_t hipMemcpyPeerAsync(void* destination, int destination_device, const void* source,
                              int source_device, size_t bytes, hipStream_t stream) {
  return call_on(stream, [&](driver& machine) {
    copy_peer(machine, {destination, source, bytes}, destination_device, source_device, stream);
    return hipSuccess;
  });
}
