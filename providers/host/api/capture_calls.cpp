// SPDX-License-Identifier: MIT
#include <utility>

#include "base/enum_value.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"

namespace hipvmm::host_provider {
namespace {

hipStreamCaptureMode mode_of(const hipStreamCaptureMode& passed) {
  switch (value_of(passed)) {
    case hipStreamCaptureModeGlobal:
    case hipStreamCaptureModeThreadLocal:
    case hipStreamCaptureModeRelaxed:
      return passed;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

capture_set::description describe(runtime& machine, hipStream_t stream) {
  return machine.captures().describe(*machine.stream(stream));
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<stream_queue> origin = machine.stream(stream);
    machine.captures().begin(*origin, mode_of(mode));
    return hipSuccess;
  });
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* recorded) {
  return call(__func__, [&](runtime& machine) {
    require(recorded != nullptr);
    const std::shared_ptr<stream_queue> origin = machine.stream(stream);
    try {
      *recorded = machine.captures().end(*origin);
    } catch (const failure& error) {
      const bool over = error.code() == hipErrorStreamCaptureInvalidated ||
                        error.code() == hipErrorStreamCaptureUnjoined;
      if (over) *recorded = nullptr;
      throw;
    }
    return hipSuccess;
  });
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  return call(__func__, [&](runtime& machine) {
    require(status != nullptr);
    *status = describe(machine, stream).status;
    return hipSuccess;
  });
}

hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status,
                                   unsigned long long* id) {
  return call(__func__, [&](runtime& machine) {
    require(status != nullptr);
    const capture_set::description found = describe(machine, stream);
    *status = found.status;
    if (id != nullptr) *id = found.id;
    return hipSuccess;
  });
}

hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* status,
                                      unsigned long long* id, hipGraph_t* recorded,
                                      const hipGraphNode_t** last, size_t* last_count) {
  return call(__func__, [&](runtime& machine) {
    require(status != nullptr);
    const capture_set::description found = describe(machine, stream);
    *status = found.status;
    if (id != nullptr) *id = found.id;
    if (recorded != nullptr) *recorded = found.recorded;
    if (last != nullptr) *last = found.last;
    if (last_count != nullptr) *last_count = found.last_count;
    return hipSuccess;
  });
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  return call(__func__, [&](runtime&) {
    require(mode != nullptr);
    *mode = std::exchange(thread_capture_mode(), mode_of(*mode));
    return hipSuccess;
  });
}
