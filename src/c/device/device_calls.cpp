// SPDX-License-Identifier: MIT
// The C interface: memory for libraries that take an allocator as two functions.
#include <hipvmm/hipvmm.h>
#include "c/device/device_blocks.hpp"
#include "c/guard.hpp"
#include "c/objects.hpp"

using namespace hipvmm::c;

extern "C" {

void* hipvmm_device_allocate(void* stream, size_t bytes, int device) {
  void* pointer = nullptr;
  static_cast<void>(guarded(__func__, [&] {
    pointer = device_blocks::shared().allocate(stream_of(stream), bytes, device_of(device));
  }));
  return pointer;
}

void hipvmm_device_deallocate(void* stream, void* pointer, int) {
  device_blocks::shared().deallocate(stream_of(stream), pointer);
}

void* hipvmm_device_allocate_sync(size_t bytes, int device) {
  void* pointer = nullptr;
  static_cast<void>(guarded(__func__, [&] {
    pointer = device_blocks::shared().allocate_sync(bytes, device_of(device));
  }));
  return pointer;
}

void hipvmm_device_deallocate_sync(void* pointer) {
  device_blocks::shared().deallocate_sync(pointer);
}

hipvmm_status hipvmm_device_forget_stream(void* stream) {
  return guarded(__func__, [&] { device_blocks::shared().forget_stream(stream_of(stream)); });
}

hipvmm_status hipvmm_device_pool(int device, hipvmm_resource* pool) {
  return guarded(__func__, [&] {
    create(pool, "pool", [&] { return device_blocks::shared().pool_of(device_of(device)); });
  });
}
}
