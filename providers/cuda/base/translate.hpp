// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/failure.hpp"

namespace hipvmm::cuda_provider {

// Handles and addresses are passed unchanged: both sides' handles are pointers to structs that
// neither header defines, and special streams have the same values.
inline CUstream to_cuda(hipStream_t stream) noexcept { return reinterpret_cast<CUstream>(stream); }
inline CUevent to_cuda(hipEvent_t event) noexcept { return reinterpret_cast<CUevent>(event); }
inline CUmemoryPool to_cuda(hipMemPool_t pool) noexcept {
  return reinterpret_cast<CUmemoryPool>(pool);
}
inline CUgraph to_cuda(hipGraph_t graph) noexcept { return reinterpret_cast<CUgraph>(graph); }
inline CUgraphExec to_cuda(hipGraphExec_t exec) noexcept {
  return reinterpret_cast<CUgraphExec>(exec);
}
inline CUgraphNode to_cuda(hipGraphNode_t node) noexcept {
  return reinterpret_cast<CUgraphNode>(node);
}
inline CUgraphNode* to_cuda(hipGraphNode_t* nodes) noexcept {
  return reinterpret_cast<CUgraphNode*>(nodes);
}
inline CUmemGenericAllocationHandle to_cuda(hipMemGenericAllocationHandle_t handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle);
}
inline CUdeviceptr to_cuda(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

inline hipStream_t to_hip(CUstream stream) noexcept {
  return reinterpret_cast<hipStream_t>(stream);
}
inline hipEvent_t to_hip(CUevent event) noexcept { return reinterpret_cast<hipEvent_t>(event); }
inline hipMemPool_t to_hip(CUmemoryPool pool) noexcept {
  return reinterpret_cast<hipMemPool_t>(pool);
}
inline hipGraph_t to_hip(CUgraph graph) noexcept { return reinterpret_cast<hipGraph_t>(graph); }
inline hipGraphExec_t to_hip(CUgraphExec exec) noexcept {
  return reinterpret_cast<hipGraphExec_t>(exec);
}
inline hipGraphNode_t to_hip(CUgraphNode node) noexcept {
  return reinterpret_cast<hipGraphNode_t>(node);
}
inline const hipGraphNode_t* to_hip(const CUgraphNode* nodes) noexcept {
  return reinterpret_cast<const hipGraphNode_t*>(nodes);
}
inline hipMemGenericAllocationHandle_t chunk_to_hip(CUmemGenericAllocationHandle handle) noexcept {
  return reinterpret_cast<hipMemGenericAllocationHandle_t>(static_cast<std::uintptr_t>(handle));
}
inline void* to_pointer(CUdeviceptr address) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

/// The null stream, its name in newer headers (1) and the thread's own stream (2) point to nothing.
inline bool is_special(hipStream_t stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

/// The number in an enumeration that a C program passed. It may be no enumerator, so it must be
/// checked before it is read as one.
template <class Enum>
int value_of(const Enum& passed) noexcept {
  static_assert(std::is_enum_v<Enum> && sizeof(Enum) == sizeof(int));
  int value = 0;
  std::memcpy(&value, &passed, sizeof(value));
  return value;
}

/// Opaque bytes, such as handles between processes.
template <class To, class From>
To same_bytes(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

/// Throws "invalid value" for a right that HIP does not know.
CUmemAccess_flags access_of(int flags);
hipMemAccessFlags access_to_hip(unsigned long long flags);

/// None or a POSIX descriptor; throws `unknown` for another type.
CUmemAllocationHandleType handle_type_of(int type, hipError_t unknown);

/// A HIP program's handle of the operating system as CUDA takes it: from ROCm 7.1 on the value of
/// the descriptor, before that a pointer to it.
void* descriptor_from(void* os_handle);
/// Makes a descriptor close on exec, as the other providers' do.
void close_on_exec(int descriptor) noexcept;

}  // namespace hipvmm::cuda_provider
