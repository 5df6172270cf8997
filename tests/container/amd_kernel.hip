// SPDX-License-Identifier: MIT
// Compiled, never run: functions for kernels, for AMD GPUs, without HIP's headers. With
// HIPVMM_READS_ON_HOST it must not compile.
#include <cstddef>

#include <hipvmm/container/device_appender_ref.hpp>
#include <hipvmm/container/device_span.hpp>

#ifdef HIPVMM_READS_ON_HOST
int sum(hipvmm::device_span<int> numbers) {
  int result = 0;
  for (const int each : numbers) result += each;
  return result;
}
#else
using appender = hipvmm::device_appender_ref<int>;

__attribute__((global)) void append(appender few, appender many, const int* values, int* missed) {
  const unsigned i = __builtin_amdgcn_workitem_id_x();
  if (values[i] == 0) return;
  const appender& chosen = values[i] > 100 ? many : few;
  if (!chosen.push(values[i])) missed[i] = 1;
  if (!few.push(values, static_cast<std::size_t>(i % 5))) missed[i] += 2;
}

__attribute__((global)) void add_one(hipvmm::device_span<int> numbers) {
  for (int& each : numbers) ++each;
  if (!numbers.empty()) numbers.begin()[0] += *(numbers.end() - 1);
}
#endif
