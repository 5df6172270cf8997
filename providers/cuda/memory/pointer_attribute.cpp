// SPDX-License-Identifier: MIT
#include <array>
#include <cstdint>
#include <cstring>

#include "base/call.hpp"

// The header of 5.2 lacks it, later ones declare the same.
extern "C" [[gnu::visibility("default")]] hipError_t hipPointerSetAttribute(
    const void* value, hipPointer_attribute attribute, hipDeviceptr_t pointer);

namespace hipvmm::cuda_provider {
namespace {

// Room for the largest answer.
using room = std::array<std::uint64_t, 2>;

template <class Value>
Value first_of(const room& answer) noexcept {
  Value value{};
  std::memcpy(&value, answer.data(), sizeof(value));
  return value;
}

template <class Value>
hipError_t put(void* data, const Value& value) noexcept {
  std::memcpy(data, &value, sizeof(value));
  return hipSuccess;
}

room ask(CUpointer_attribute attribute, CUdeviceptr pointer) {
  room answer{};
  check(cuPointerGetAttribute(answer.data(), attribute, pointer));
  return answer;
}

void answer_with_nothing(void* data, int attribute) noexcept {
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      std::memset(data, 0, sizeof(std::uint32_t));
      break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      std::memset(data, 0, sizeof(std::uint64_t));
      break;
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
    case HIP_POINTER_ATTRIBUTE_MAPPED:
      std::memset(data, 0, sizeof(bool));
      break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      static_cast<void>(put(data, hipInvalidDeviceId));
      break;
    default:
      break;
  }
}

hipError_t answer_of(void* data, int attribute, CUdeviceptr pointer) {
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: {
      const bool on_host = first_of<CUmemorytype>(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer)) ==
                           CU_MEMORYTYPE_HOST;
      return put(data, on_host ? hipMemoryTypeHost : hipMemoryTypeDevice);
    }
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(data, ask(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer)[0]);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
      return put(data, ask(CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer)[0]);
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return put(data, ask(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer)[0] != 0);
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(data, first_of<std::uint32_t>(ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer)));
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(data, ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer)[0] != 0);
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(data, first_of<int>(ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer)));
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(data, ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer)[0]);
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(data, ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer)[0]);
    case HIP_POINTER_ATTRIBUTE_MAPPED:
      return put(data, ask(CU_POINTER_ATTRIBUTE_MAPPED, pointer)[0] != 0);
    case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(data, 0);
    case HIP_POINTER_ATTRIBUTE_CONTEXT:
    case HIP_POINTER_ATTRIBUTE_P2P_TOKENS:
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return hipErrorNotSupported;
    default:
      return hipErrorInvalidValue;
  }
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipDrvPointerGetAttributes(unsigned int count, hipPointer_attribute* attributes,
                                      void** data, hipDeviceptr_t pointer) {
  return call_anywhere([&](driver&) {
    require(count != 0 && attributes != nullptr && data != nullptr && pointer != nullptr);
    for (unsigned i = 0; i < count; ++i) {
      require(data[i] != nullptr);
      const int attribute = value_of(attributes[i]);
      try {
        if (answer_of(data[i], attribute, to_cuda(pointer)) == hipSuccess) continue;
      } catch (const failure&) {
      }
      answer_with_nothing(data[i], attribute);
    }
    return hipSuccess;
  });
}

hipError_t hipPointerSetAttribute(const void* value, hipPointer_attribute attribute,
                                  hipDeviceptr_t pointer) {
  return call_anywhere([&](driver&) {
    require(value != nullptr && pointer != nullptr);
    require(value_of(attribute) == HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS);
    const CUresult result =
        cuPointerSetAttribute(value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, to_cuda(pointer));
    require(result != CUDA_ERROR_INVALID_VALUE, hipErrorInvalidDevicePointer);
    check(result);
    return hipSuccess;
  });
}

// The answers have the types that AMD's runtime gives them, which are smaller than CUDA's for
// booleans and numbers of buffers.
hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute,
                                  hipDeviceptr_t pointer) {
  return call_anywhere([&](driver&) {
    require(data != nullptr && pointer != nullptr);
    return answer_of(data, static_cast<int>(attribute), to_cuda(pointer));
  });
}
