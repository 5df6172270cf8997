// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

// libhipvmm_preload.so needs nothing but the C library. At the first replaced call it loads
// libhipvmm_preload_core.so, which has hipvmm and a provider.
namespace hipvmm::preload {

/// The functions that the program would call without us, of HIP or of CUDA's driver, whose
/// arguments and codes are the same here. 0 is success.
struct real_calls {
  int (*allocate)(void** pointer, std::size_t bytes);
  int (*free)(void* pointer);
  int (*allocate_async)(void** pointer, std::size_t bytes, void* stream);
  int (*free_async)(void* pointer, void* stream);
  int (*memory_info)(std::size_t* free, std::size_t* total);
  int (*address_range)(void** base, std::size_t* bytes, void* pointer);
  int (*ipc_handle)(void* handle, void* pointer);
};

/// The core's functions for them. All are thread-safe and throw nothing. They pass a call that they
/// do not serve to the real function, and return its result.
struct core_calls {
  int (*allocate)(const real_calls& real, void** pointer, std::size_t bytes);
  int (*free)(const real_calls& real, void* pointer);
  int (*allocate_async)(const real_calls& real, void** pointer, std::size_t bytes, void* stream);
  int (*free_async)(const real_calls& real, void* pointer, void* stream);
  int (*memory_info)(const real_calls& real, std::size_t* free, std::size_t* total);
  int (*address_range)(const real_calls& real, void** base, std::size_t* bytes, void* pointer);
  int (*ipc_handle)(const real_calls& real, void* handle, void* pointer);
  /// Before a stream is destroyed.
  void (*end_stream)(void* stream);
  /// Before a device is reset; the current one if `device` is negative.
  void (*reset_device)(int device);
  /// After the program has set the pool of a device.
  void (*note_pool)(int device);
  /// After the program has made a context of its own on CUDA.
  void (*note_context)();
  /// The hipFree that the core itself calls: the program's must be of the same library.
  void* (*own_free)();
};

/// The one function of libhipvmm_preload_core.so. Thread-safe. Returns null, with the reason on
/// standard error, if nothing is to be replaced.
using core_entry = const core_calls* (*)(const char* version);
inline constexpr const char* core_entry_name = "hipvmm_preload_core";

}  // namespace hipvmm::preload
