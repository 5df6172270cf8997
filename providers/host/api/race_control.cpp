// SPDX-License-Identifier: MIT
// The functions by which programs use the stream-order checker.
#pragma GCC visibility push(default)
#include <hipvmm/provider/host_control.h>
#pragma GCC visibility pop

#include <algorithm>
#include <cstring>

#include "base/failure.hpp"
#include "graph/capture.hpp"
#include "machine/runtime.hpp"
#include "memory/address.hpp"

using namespace hipvmm::host_provider;

namespace {

struct noted_bytes {
  address start;
  std::size_t bytes;
};

template <class Note>
int note(const char* function, const noted_bytes& what, Note&& body) noexcept {
  race_checker* const checker = runtime::get().checker();
  if (checker == nullptr) return hipSuccess;
  try {
    require(what.start + what.bytes >= what.start);
    if (what.bytes == 0) return hipSuccess;
    race_checker::enter(function);
    return body(*checker);
  } catch (const failure& error) {
    return error.code();
  } catch (const std::bad_alloc&) {
    return hipErrorOutOfMemory;
  }
}

template <class Note>
int note(const char* function, const noted_bytes& what, void* stream, Note&& body) noexcept {
  return note(function, what, [&](race_checker& checker) {
    return body(checker, *runtime::get().stream(static_cast<hipStream_t>(stream)));
  });
}

}  // namespace

int hipvmm_host_note_allocate(void* pointer, size_t bytes, void* stream) {
  const noted_bytes what{address_of(pointer), bytes};
  return note(__func__, what, stream, [&](race_checker& checker, const stream_queue& queue) {
    checker.note_allocate(what.start, what.bytes, queue);
    return hipSuccess;
  });
}

int hipvmm_host_note_deallocate(void* pointer, size_t bytes, void* stream) {
  const noted_bytes what{address_of(pointer), bytes};
  return note(__func__, what, stream, [&](race_checker& checker, const stream_queue& queue) {
    return checker.note_deallocate(what.start, what.bytes, queue) ? hipSuccess
                                                                  : hipErrorInvalidValue;
  });
}

int hipvmm_host_note_allocate_sync(void* pointer, size_t bytes) {
  const noted_bytes what{address_of(pointer), bytes};
  return note(__func__, what, [&](race_checker& checker) {
    checker.note_allocate(what.start, what.bytes);
    return hipSuccess;
  });
}

int hipvmm_host_note_deallocate_sync(void* pointer, size_t bytes) {
  const noted_bytes what{address_of(pointer), bytes};
  return note(__func__, what, [&](race_checker& checker) {
    return checker.note_deallocate(what.start, what.bytes) ? hipSuccess : hipErrorInvalidValue;
  });
}

int hipvmm_host_note_return(void* pointer, size_t bytes) {
  const noted_bytes what{address_of(pointer), bytes};
  return note(__func__, what, [&](race_checker& checker) {
    checker.note_return(what.start, what.bytes);
    return hipSuccess;
  });
}

int hipvmm_host_note_use(const void* pointer, size_t bytes, void* stream, int writes) {
  const noted_bytes what{address_of(pointer), bytes};
  return note(__func__, what, stream, [&](race_checker& checker, const stream_queue& queue) {
    runtime& machine = runtime::get();
    if (machine.captures().is_capturing(queue)) return hipErrorStreamCaptureUnsupported;
    const endpoint used{what.start, machine.addresses().classify(what.start), queue.device(),
                        false};
    require(used.where != memory_class::pageable || machine.configuration().pageable_access);
    require(allowed(machine.access(), used, writes != 0 ? right::write : right::read, bytes));
    checker.note_use(what.start, what.bytes, writes != 0 ? memory_use::write : memory_use::read,
                     queue);
    return hipSuccess;
  });
}

int hipvmm_host_checks_order() { return runtime::get().checker() == nullptr ? 0 : 1; }

uint64_t hipvmm_host_order_reports() {
  const race_checker* const checker = runtime::get().checker();
  return checker == nullptr ? 0 : checker->reports();
}

size_t hipvmm_host_last_order_report(char* text, size_t bytes) {
  const race_checker* const checker = runtime::get().checker();
  if (checker == nullptr) return 0;
  const std::string last = checker->last_report();
  if (text != nullptr && bytes != 0) {
    const std::size_t copied = std::min(bytes - 1, last.size());
    std::memcpy(text, last.data(), copied);
    text[copied] = '\0';
  }
  return last.size();
}

void hipvmm_host_clear_order_reports() {
  if (race_checker* const checker = runtime::get().checker()) checker->clear_reports();
}

void hipvmm_host_suspend_order_check() { race_checker::suspend(); }

void hipvmm_host_resume_order_check() { race_checker::resume(); }
