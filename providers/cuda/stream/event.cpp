// SPDX-License-Identifier: MIT
#include <bit>

#include "base/call.hpp"
#include "core/hip_compat.hpp"

namespace hipvmm::cuda_provider {
namespace {

constexpr unsigned visibility_flags =
    hipEventReleaseToDevice | hipEventReleaseToSystem | hip_compat::event_disable_system_fence;
constexpr unsigned event_flags =
    hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess | visibility_flags;

// Only AMD lets a program choose how far a record makes writes visible; CUDA's always reach the
// system.
unsigned event_flags_for_cuda(unsigned flags) {
  unsigned wanted = CU_EVENT_DEFAULT;
  if ((flags & hipEventBlockingSync) != 0) wanted |= CU_EVENT_BLOCKING_SYNC;
  if ((flags & hipEventDisableTiming) != 0) wanted |= CU_EVENT_DISABLE_TIMING;
  if ((flags & hipEventInterprocess) != 0) wanted |= CU_EVENT_INTERPROCESS;
  return wanted;
}

hipError_t create(hipEvent_t* event, unsigned flags) {
  return call([&](driver&) {
    require(event != nullptr);
    require((flags & ~event_flags) == 0);
    require(std::popcount(flags & visibility_flags) <= 1);
    require((flags & hipEventInterprocess) == 0 || (flags & hipEventDisableTiming) != 0);
    CUevent made = nullptr;
    check(cuEventCreate(&made, event_flags_for_cuda(flags)));
    *event = to_hip(made);
    return hipSuccess;
  });
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipEventCreate(hipEvent_t* event) { return create(event, hipEventDefault); }

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned int flags) {
  return create(event, flags);
}

hipError_t hipEventDestroy(hipEvent_t event) {
  return call_anywhere([&](driver&) {
    require(event != nullptr, hipErrorInvalidHandle);
    check(cuEventDestroy(to_cuda(event)));
    return hipSuccess;
  });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    require(event != nullptr, hipErrorInvalidHandle);
    check(cuEventRecord(to_cuda(event), to_cuda(stream)));
    return hipSuccess;
  });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  return call_anywhere([&](driver&) {
    require(event != nullptr, hipErrorInvalidHandle);
    check(cuEventSynchronize(to_cuda(event)));
    return hipSuccess;
  });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return call_anywhere([&](driver&) {
    require(event != nullptr, hipErrorInvalidHandle);
    check(cuEventQuery(to_cuda(event)));
    return hipSuccess;
  });
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  return call_anywhere([&](driver&) {
    require(milliseconds != nullptr);
    require(start != nullptr && stop != nullptr, hipErrorInvalidHandle);
    check(cuEventElapsedTime(milliseconds, to_cuda(start), to_cuda(stop)));
    return hipSuccess;
  });
}
