// SPDX-License-Identifier: MIT
#include <memory>

#include "base/call.hpp"

namespace hipvmm::cuda_provider {
namespace {

struct callback_of_program {
  hipStreamCallback_t function;
  hipStream_t stream;
  void* user_data;
};

// CUDA passes another handle for the thread's own stream; the program gets the handle that it
// passed.
void CUDA_CB call_back(CUstream, CUresult status, void* passed) {
  const std::unique_ptr<callback_of_program> callback{static_cast<callback_of_program*>(passed)};
  callback->function(callback->stream, error_of(status), callback->user_data);
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void* user_data,
                                unsigned int flags) {
  return call_on(stream, [&](driver&) {
    require(callback != nullptr && flags == 0);
    auto passed =
        std::make_unique<callback_of_program>(callback_of_program{callback, stream, user_data});
    check(cuStreamAddCallback(to_cuda(stream), call_back, passed.get(), 0));
    // The stream runs it, even after an error, and call_back() deletes it.
    static_cast<void>(passed.release());
    return hipSuccess;
  });
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* user_data) {
  return call_on(stream, [&](driver&) {
    require(function != nullptr);
    check(cuLaunchHostFunc(to_cuda(stream), function, user_data));
    return hipSuccess;
  });
}
