// SPDX-License-Identifier: MIT
#include <limits>

#include "base/call.hpp"

namespace hipvmm::cuda_provider {
namespace {

// HIP numbers the conditions as CUDA does.
static_assert(hipStreamWaitValueGte == CU_STREAM_WAIT_VALUE_GEQ &&
              hipStreamWaitValueEq == CU_STREAM_WAIT_VALUE_EQ &&
              hipStreamWaitValueAnd == CU_STREAM_WAIT_VALUE_AND &&
              hipStreamWaitValueNor == CU_STREAM_WAIT_VALUE_NOR);

// CUDA compares every bit.
template <class Number>
void require_wait(const void* pointer, unsigned flags, Number mask) {
  require(pointer != nullptr && flags <= hipStreamWaitValueNor);
  require(mask == std::numeric_limits<Number>::max(), hipErrorNotSupported);
}

void require_write(const void* pointer, unsigned flags) {
  require(pointer != nullptr && flags == 0);
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipStreamWaitValue32(hipStream_t stream, void* pointer, std::uint32_t value,
                                unsigned int flags, std::uint32_t mask) {
  return call_on(stream, [&](driver&) {
    require_wait(pointer, flags, mask);
    check(cuStreamWaitValue32(to_cuda(stream), to_cuda(pointer), value, flags));
    return hipSuccess;
  });
}

hipError_t hipStreamWaitValue64(hipStream_t stream, void* pointer, std::uint64_t value,
                                unsigned int flags, std::uint64_t mask) {
  return call_on(stream, [&](driver&) {
    require_wait(pointer, flags, mask);
    check(cuStreamWaitValue64(to_cuda(stream), to_cuda(pointer), value, flags));
    return hipSuccess;
  });
}

hipError_t hipStreamWriteValue32(hipStream_t stream, void* pointer, std::uint32_t value,
                                 unsigned int flags) {
  return call_on(stream, [&](driver&) {
    require_write(pointer, flags);
    check(cuStreamWriteValue32(to_cuda(stream), to_cuda(pointer), value,
                               CU_STREAM_WRITE_VALUE_DEFAULT));
    return hipSuccess;
  });
}

hipError_t hipStreamWriteValue64(hipStream_t stream, void* pointer, std::uint64_t value,
                                 unsigned int flags) {
  return call_on(stream, [&](driver&) {
    require_write(pointer, flags);
    check(cuStreamWriteValue64(to_cuda(stream), to_cuda(pointer), value,
                               CU_STREAM_WRITE_VALUE_DEFAULT));
    return hipSuccess;
  });
}
