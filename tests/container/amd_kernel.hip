// SPDX-License-Identifier: MIT
// Compiled, never run: the kernel side of device_appender for AMD GPUs, without HIP's headers.
#include <cstddef>

#include <hipvmm/container/device_appender_ref.hpp>

using appender = hipvmm::device_appender_ref<int>;

__attribute__((global)) void append(appender few, appender many, const int* values, int* missed) {
  const unsigned i = __builtin_amdgcn_workitem_id_x();
  if (values[i] == 0) return;
  const appender& chosen = values[i] > 100 ? many : few;
  if (!chosen.push(values[i])) missed[i] = 1;
  if (!few.push(values, static_cast<std::size_t>(i % 5))) missed[i] += 2;
}
