// SPDX-License-Identifier: MIT
#include "stream/capture.hpp"

#include "base/call.hpp"
#include "base/cuda_compat.hpp"

namespace hipvmm::cuda_provider {
namespace {

CUstreamCaptureMode mode_of(int mode) {
  switch (mode) {
    case hipStreamCaptureModeGlobal:
      return CU_STREAM_CAPTURE_MODE_GLOBAL;
    case hipStreamCaptureModeThreadLocal:
      return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    case hipStreamCaptureModeRelaxed:
      return CU_STREAM_CAPTURE_MODE_RELAXED;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

hipStreamCaptureMode mode_to_hip(CUstreamCaptureMode mode) {
  switch (mode) {
    case CU_STREAM_CAPTURE_MODE_GLOBAL:
      return hipStreamCaptureModeGlobal;
    case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL:
      return hipStreamCaptureModeThreadLocal;
    case CU_STREAM_CAPTURE_MODE_RELAXED:
      return hipStreamCaptureModeRelaxed;
    default:
      throw failure{hipErrorUnknown};
  }
}

hipStreamCaptureStatus status_to_hip(CUstreamCaptureStatus status) {
  switch (status) {
    case CU_STREAM_CAPTURE_STATUS_NONE:
      return hipStreamCaptureStatusNone;
    case CU_STREAM_CAPTURE_STATUS_ACTIVE:
      return hipStreamCaptureStatusActive;
    case CU_STREAM_CAPTURE_STATUS_INVALIDATED:
      return hipStreamCaptureStatusInvalidated;
    default:
      throw failure{hipErrorUnknown};
  }
}

cuda_compat::capture_info describe(hipStream_t stream) {
  cuda_compat::capture_info found;
  check(cuda_compat::get_capture_info(to_cuda(stream), found));
  return found;
}

}  // namespace

bool is_captured(hipStream_t stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  check(cuStreamIsCapturing(to_cuda(stream), &status));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

// None of these asks for the stream's context: the driver does not report that of a stream in an
// invalidated capture, which must still be described and ended.

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return call([&](driver&) {
    check(cuStreamBeginCapture(to_cuda(stream), mode_of(value_of(mode))));
    return hipSuccess;
  });
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* recorded) {
  return call([&](driver&) {
    require(recorded != nullptr);
    CUgraph made = nullptr;
    const CUresult result = cuStreamEndCapture(to_cuda(stream), &made);
    // These end the capture all the same; after other errors it goes on.
    const bool lost = result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                      result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (lost) *recorded = nullptr;
    check(result);
    *recorded = to_hip(made);
    return hipSuccess;
  });
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  return call_bare([&] {
    driver_with_device();
    require(status != nullptr);
    CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
    const auto ask = [&] { return cuStreamIsCapturing(to_cuda(stream), &found); };
    // A context costs as much as the query, which allocators make for each request, and only a
    // default stream needs the current one.
    CUresult result = is_special(stream) ? CUDA_ERROR_INVALID_CONTEXT : ask();
    if (result == CUDA_ERROR_INVALID_CONTEXT) {
      const pushed_context scope{bound_primary()};
      result = ask();
    }
    check(result);
    *status = status_to_hip(found);
    return hipSuccess;
  });
}

hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status,
                                   unsigned long long* id) {
  return hipStreamGetCaptureInfo_v2(stream, status, id, nullptr, nullptr, nullptr);
}

hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* status,
                                      unsigned long long* id, hipGraph_t* recorded,
                                      const hipGraphNode_t** last, size_t* last_count) {
  return call([&](driver&) {
    require(status != nullptr);
    const cuda_compat::capture_info found = describe(stream);
    *status = status_to_hip(found.status);
    if (id != nullptr) *id = found.id;
    if (recorded != nullptr) *recorded = to_hip(found.graph);
    if (last != nullptr) *last = to_hip(found.last);
    if (last_count != nullptr) *last_count = found.last_count;
    return hipSuccess;
  });
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  return call_bare([&] {
    driver_with_device();
    require(mode != nullptr);
    CUstreamCaptureMode exchanged = mode_of(value_of(*mode));
    check(cuThreadExchangeStreamCaptureMode(&exchanged));
    *mode = mode_to_hip(exchanged);
    return hipSuccess;
  });
}
