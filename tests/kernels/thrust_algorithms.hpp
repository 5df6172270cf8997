// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/container/device_scalar.hpp>
#include <hipvmm/container/device_uvector.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/stream.hpp>

/// thrust::uninitialized_fill by par.on(stream), as in hipMM's README.
void fill_by_thrust(hipvmm::device_uvector<int>& numbers, int value, hipvmm::stream_ref stream);
/// thrust::sort by hipvmm::exec_policy, with temporary storage of `temporary`.
void sort_by_thrust(hipvmm::device_uvector<int>& numbers, hipvmm::stream_ref stream,
                    hipvmm::mr::memory_resource* temporary);
/// Writes the sum by CUB's or hipCUB's DeviceReduce, with temporary storage of `temporary`. Returns
/// the runtime's code: 0 is success.
int sum_by_cub(const hipvmm::device_uvector<int>& numbers, hipvmm::device_scalar<int>& sum,
               hipvmm::stream_ref stream, hipvmm::mr::memory_resource* temporary);
