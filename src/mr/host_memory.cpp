// SPDX-License-Identifier: MIT
#include "mr/host_memory.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/check.hpp"

namespace hipvmm::detail {

void require_possible(std::size_t bytes, const char* call) {
  if (bytes >= PTRDIFF_MAX) throw_out_of_host_memory(bytes, call);
}

void wait_before_free(stream_ref stream, const void* pointer) {
  if (stream.is_capturing())
    throw std::logic_error{
        "memory of the host at " + address_text(pointer) +
        " came back in a stream that is being captured and stays allocated, for the graph may use "
        "it: give it back when the graph is gone"};
  stream.synchronize();
}

}  // namespace hipvmm::detail
