// SPDX-License-Identifier: MIT
// The ends of DLPack tensors of the Python package, by the names in python.h.
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include <hipvmm/hipvmm.h>
#include <hipvmm/python.h>
#include "c/guard.hpp"

namespace {

/// DLManagedTensor, of which only the last two members matter here.
struct managed_tensor {
  unsigned char dl_tensor[2 * sizeof(void*) + 4 * sizeof(std::uint64_t)];
  hipvmm_python_owner* manager_ctx;
  void (*deleter)(void*);
};

/// Functions change only while `interpreter` is 0.
struct python {
  int (*ensure)();
  void (*release)(int);
  void (*dec_ref)(void*);
  int (*is_valid)(void*, const char*);
  void* (*get_pointer)(void*, const char*);
  std::uint64_t begun = 0;
  std::atomic<std::uint64_t> interpreter{0};  // 0: none
  std::atomic<int> entering{0};               // threads that wait for the GIL
} current;

constexpr const char* capsule_name = "dltensor";

}  // namespace

using namespace hipvmm::c;

extern "C" {

hipvmm_status hipvmm_python_begin(void* ensure, void* release, void* dec_ref, void* is_valid,
                                  void* get_pointer, uint64_t* interpreter) {
  return guarded(__func__, [&] {
    std::uint64_t& result = out(interpreter, "interpreter");
    for (void* const each : {ensure, release, dec_ref, is_valid, get_pointer})
      if (each == nullptr) throw bad_argument{"a function of Python is null"};
    hipvmm_python_end();
    // A child of fork() has only the thread that forked, which was not waiting.
    static const int at_fork = ::pthread_atfork(nullptr, nullptr, [] { current.entering = 0; });
    static_cast<void>(at_fork);
    current.ensure = reinterpret_cast<decltype(current.ensure)>(ensure);
    current.release = reinterpret_cast<decltype(current.release)>(release);
    current.dec_ref = reinterpret_cast<decltype(current.dec_ref)>(dec_ref);
    current.is_valid = reinterpret_cast<decltype(current.is_valid)>(is_valid);
    current.get_pointer = reinterpret_cast<decltype(current.get_pointer)>(get_pointer);
    current.interpreter = result = ++current.begun;
  });
}

// An interpreter that is finalised ends or stops each thread that still waits for the GIL.
void hipvmm_python_end(void) {
  current.interpreter = 0;
  while (current.entering != 0) std::this_thread::yield();
}

void hipvmm_python_delete_tensor(void* tensor) {
  const hipvmm_python_owner& owner = *static_cast<managed_tensor*>(tensor)->manager_ctx;
  ++current.entering;
  if (current.interpreter != owner.interpreter) {
    --current.entering;
    return;
  }
  const int state = current.ensure();
  --current.entering;
  current.dec_ref(owner.object);  // `tensor` is part of it, and ends here
  current.release(state);
}

void hipvmm_python_delete_capsule(void* capsule) {
  if (current.interpreter == 0 || current.is_valid(capsule, capsule_name) == 0) return;
  auto* const tensor = static_cast<managed_tensor*>(current.get_pointer(capsule, capsule_name));
  tensor->deleter(tensor);
}
}
