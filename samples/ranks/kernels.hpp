// SPDX-License-Identifier: MIT
#pragma once

// One source for kernels and for the host: nvcc and hipcc make a kernel of a function object;
// another compiler makes a task in the stream of it, for the host provider.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hipvmm/hipvmm.hpp>
#include <initializer_list>

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
using native_stream = hipStream_t;
#elif defined(__CUDACC__)
using native_stream = cudaStream_t;
#endif
#if defined(__HIPCC__) || defined(__CUDACC__)
#include <thrust/execution_policy.h>
#include <thrust/sort.h>
#endif

/// A number that looks random, of another number.
HIPVMM_HOST_DEVICE inline std::uint64_t mixed(std::uint64_t number) {
  number = (number + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  number = (number ^ number >> 27) * 0x94d049bb133111eb;
  return number ^ number >> 31;
}

/// Changes `*at` from one value to another if no other thread did before.
HIPVMM_HOST_DEVICE inline bool claim(unsigned* at, unsigned from, unsigned to) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return atomicCAS(at, from, to) == from;
#else
  return __atomic_compare_exchange_n(at, &from, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

/// Adds to `*at` and returns the old value.
HIPVMM_HOST_DEVICE inline unsigned long long add(unsigned long long* at, unsigned long long value) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return atomicAdd(at, value);
#else
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#endif
}

/// The number of elements before the first that is not less than `value`.
template <typename T>
HIPVMM_HOST_DEVICE std::size_t lower_bound(const T* sorted, std::size_t count, T value) {
  std::size_t first = 0;
  while (count != 0) {
    const std::size_t half = count / 2;
    const bool less = sorted[first + half] < value;
    first += less ? half + 1 : 0;
    count = less ? count - half - 1 : half;
  }
  return first;
}

// The uses of memory by a launch, for the order checker of the host provider.
template <typename Container>
hipvmm::used_memory reads(const Container& elements) {
  return {elements.data(), elements.size() * sizeof(*elements.data()), hipvmm::memory_use::read};
}
template <typename Container>
hipvmm::used_memory writes(const Container& elements) {
  return {elements.data(), elements.size() * sizeof(*elements.data()), hipvmm::memory_use::write};
}

#if defined(__HIPCC__) || defined(__CUDACC__)

template <typename Thread>
__global__ void run_thread(std::size_t count, Thread thread) {
  const std::size_t index = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index < count) thread(index);
}

/// Calls `thread` with 0 to count - 1, in the order of `stream`, whose device is current.
template <typename Thread>
void launch(std::size_t count, const Thread& thread, hipvmm::stream_ref stream,
            std::initializer_list<hipvmm::used_memory>) {
  if (count == 0) return;
  const auto native = reinterpret_cast<native_stream>(stream.get());
  run_thread<<<static_cast<unsigned>((count + 255) / 256), 256, 0, native>>>(count, thread);
}

/// Sorts in the order of `stream`.
template <typename T>
void sort(hipvmm::device_span<T> elements, hipvmm::stream_ref stream) {
  const auto native = reinterpret_cast<native_stream>(stream.get());
#if defined(__HIPCC__)
  const auto policy = thrust::hip::par.on(native);
#else
  const auto policy = thrust::cuda::par.on(native);
#endif
  if (!elements.empty()) thrust::sort(policy, elements.data(), elements.data() + elements.size());
}

#else

template <typename Thread>
void launch(std::size_t count, const Thread& thread, hipvmm::stream_ref stream,
            std::initializer_list<hipvmm::used_memory> uses) {
  if (count == 0) return;
  const auto all = [count, thread] {
    for (std::size_t index = 0; index < count; ++index) thread(index);
  };
  hipvmm::host_task(stream, all, uses);
}

template <typename T>
void sort(hipvmm::device_span<T> elements, hipvmm::stream_ref stream) {
  const auto all = [elements] { std::sort(elements.data(), elements.data() + elements.size()); };
  if (!elements.empty()) hipvmm::host_task(stream, all, {writes(elements)});
}

#endif
