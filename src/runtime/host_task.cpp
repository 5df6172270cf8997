// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/host_task.hpp>

#include <hip/hip_runtime_api.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "core/check.hpp"
#include "core/observers/race_checker_calls.hpp"
#include "runtime/host_function.hpp"

namespace hipvmm {

void note_use(stream_ref stream, const used_memory& used) {
  const bool writes = used.use == memory_use::write;
  const int result = detail::note_work(stream.get(), used.pointer, used.bytes, writes);
  if (result == hipErrorInvalidValue)
    throw std::invalid_argument{
        "note_use: " + std::to_string(used.bytes) + " bytes at " +
        detail::address_text(used.pointer) + " are no memory that the stream's device may " +
        (writes ? "write" : "read") + ": name memory of HIP that it has access to"};
  detail::check(static_cast<hipError_t>(result), "hipvmm_host_note_use");
}

void host_task(stream_ref stream, std::function<void()> task,
               std::initializer_list<used_memory> uses) {
  {
    const detail::order_check_pause refusals_only;
    for (const used_memory& each : uses) note_use(stream, each);
  }
  detail::add_host_function(stream, [task = std::move(task)](bool) { task(); });
  // Noted again behind the task, because the checker takes all work before it as finished.
  for (const used_memory& each : uses) note_use(stream, each);
}

}  // namespace hipvmm
