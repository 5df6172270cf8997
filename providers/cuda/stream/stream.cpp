// SPDX-License-Identifier: MIT
#include "base/call.hpp"

// The header of 5.2 lacks it, later ones declare the same.
extern "C" [[gnu::visibility("default")]] hipError_t hipStreamGetDevice(hipStream_t stream,
                                                                        hipDevice_t* device);

namespace hipvmm::cuda_provider {
namespace {

hipError_t create(hipStream_t* stream, unsigned flags, int priority) {
  return call([&](driver&) {
    require(stream != nullptr);
    require(flags == hipStreamDefault || flags == hipStreamNonBlocking);
    CUstream made = nullptr;
    check(cuStreamCreateWithPriority(
        &made, flags == hipStreamNonBlocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT,
        priority));
    *stream = to_hip(made);
    return hipSuccess;
  });
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipStreamCreate(hipStream_t* stream) { return create(stream, hipStreamDefault, 0); }

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags) {
  return create(stream, flags, 0);
}

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int flags, int priority) {
  return create(stream, flags, priority);
}

// CUDA has no such masks.
hipError_t hipExtStreamCreateWithCUMask(hipStream_t* stream, uint32_t words, const uint32_t* mask) {
  return call_anywhere([&](driver&) {
    require(stream != nullptr, hipErrorInvalidHandle);
    require(words != 0 && mask != nullptr);
    return hipErrorNotSupported;
  });
}

hipError_t hipExtStreamGetCUMask(hipStream_t /*stream*/, uint32_t words, uint32_t* mask) {
  return call_anywhere([&](driver&) {
    require(words != 0 && mask != nullptr);
    return hipErrorNotSupported;
  });
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return call_anywhere([&](driver&) {
    require(!is_special(stream), hipErrorInvalidHandle);
    check(cuStreamDestroy(to_cuda(stream)));
    return hipSuccess;
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    check(cuStreamSynchronize(to_cuda(stream)));
    return hipSuccess;
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    check(cuStreamQuery(to_cuda(stream)));
    return hipSuccess;
  });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  return call_on(stream, [&](driver&) {
    require(flags == 0);
    require(event != nullptr, hipErrorInvalidHandle);
    check(cuStreamWaitEvent(to_cuda(stream), to_cuda(event), CU_EVENT_WAIT_DEFAULT));
    return hipSuccess;
  });
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int* flags) {
  return call_on(stream, [&](driver&) {
    require(flags != nullptr);
    unsigned given = 0;
    check(cuStreamGetFlags(to_cuda(stream), &given));
    *flags = (given & CU_STREAM_NON_BLOCKING) != 0 ? hipStreamNonBlocking : hipStreamDefault;
    return hipSuccess;
  });
}

hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  return call_on(stream, [&](driver&) {
    require(priority != nullptr);
    check(cuStreamGetPriority(to_cuda(stream), priority));
    return hipSuccess;
  });
}

hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device) {
  return call_on(stream, [&](driver& machine) {
    require(device != nullptr);
    CUdevice found = 0;
    check(cuCtxGetDevice(&found));
    *device = machine.ordinal_of(found);
    return hipSuccess;
  });
}

int hipGetStreamDeviceId(hipStream_t stream) {
  int id = -1;
  static_cast<void>(call_on(stream, [&](driver& machine) {
    CUdevice device = 0;
    check(cuCtxGetDevice(&device));
    id = machine.ordinal_of(device);
    return hipSuccess;
  }));
  return id;
}
