// SPDX-License-Identifier: MIT
#include "mr/host_memory.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "mr/stream_wait.hpp"

namespace hipvmm::detail {

void require_possible(std::size_t bytes, const char* call) {
  if (bytes >= PTRDIFF_MAX) throw_out_of_host_memory(bytes, call);
}

void wait_before_free(stream_ref stream, const void* pointer) {
  bool waited = false;
  try {
    waited = wait_for_work(stream);
  } catch (const hip_error& error) {
    throw std::runtime_error{"memory of the host at " + address_text(pointer) +
                             " stays allocated, for work may still use it: neither its stream nor "
                             "all devices could be waited for (" +
                             error.what() + ")"};
  }
  if (!waited)
    throw std::logic_error{
        "memory of the host at " + address_text(pointer) +
        " came back in a stream that is being captured and stays allocated, for the graph may use "
        "it: give it back when the graph is gone"};
}

}  // namespace hipvmm::detail
