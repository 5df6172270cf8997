/* SPDX-License-Identifier: MIT */
#pragma once

/* NCCL's functions, as far as compat/nccl_registration.hpp uses them, for its tests: it counts what
 * is registered, and fails where it is told to. Written from NCCL's documentation. In C++ alone. */

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

/* The header of which release; NCCL_STAND_IN_MINOR is for the tests. */
#ifndef NCCL_STAND_IN_MINOR
#define NCCL_STAND_IN_MINOR 28
#endif
#define NCCL_MAJOR 2
#define NCCL_MINOR NCCL_STAND_IN_MINOR
#define NCCL_PATCH 3

enum ncclResult_t { ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclInvalidArgument = 4 };

struct ncclComm {
  int device = 0;
  std::uintptr_t last = 0;
  std::map<void*, std::pair<char*, std::size_t>> registered; /* by handle */
  std::map<void*, std::pair<char*, std::size_t>> windows;
};
typedef ncclComm* ncclComm_t;
struct ncclWindow_vidmem;
typedef ncclWindow_vidmem* ncclWindow_t;

/* What the tests set. */
struct nccl_stand_in {
  int version = 22803;
  int fail_in = 0; /* the nth call that registers or deregisters, from 1, fails; 0: none */
  bool has_windows = true;
};
inline nccl_stand_in& nccl_settings() {
  static nccl_stand_in only;
  return only;
}
inline bool nccl_stand_in_fails() {
  int& left = nccl_settings().fail_in;
  return left != 0 && --left == 0;
}
inline void* nccl_stand_in_handle(ncclComm_t comm) { return reinterpret_cast<void*>(++comm->last); }

inline ncclResult_t ncclGetVersion(int* version) {
  *version = nccl_settings().version;
  return ncclSuccess;
}
inline const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclUnhandledCudaError ? "unhandled cuda error" : "invalid argument";
}
#if NCCL_MINOR >= 13
inline const char* ncclGetLastError(ncclComm_t /*comm*/) { return "what happened last"; }
#endif
inline ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  *device = comm->device;
  return ncclSuccess;
}

#if NCCL_MINOR >= 19
inline ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, std::size_t bytes,
                                     void** handle) {
  if (nccl_stand_in_fails()) return ncclUnhandledCudaError;
  *handle = nccl_stand_in_handle(comm);
  comm->registered[*handle] = {static_cast<char*>(buffer), bytes};
  return ncclSuccess;
}
inline ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  if (comm->registered.erase(handle) == 0) return ncclInvalidArgument;
  return nccl_stand_in_fails() ? ncclUnhandledCudaError : ncclSuccess;
}
#endif
#if NCCL_MINOR >= 27
inline ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, std::size_t bytes,
                                           ncclWindow_t* window, int /*flags*/) {
  if (nccl_stand_in_fails()) return ncclUnhandledCudaError;
  if (!nccl_settings().has_windows) return ncclSuccess;
  void* const handle = nccl_stand_in_handle(comm);
  comm->windows[handle] = {static_cast<char*>(buffer), bytes};
  *window = static_cast<ncclWindow_t>(handle);
  return ncclSuccess;
}
inline ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (comm->windows.erase(window) == 0) return ncclInvalidArgument;
  return nccl_stand_in_fails() ? ncclUnhandledCudaError : ncclSuccess;
}
#endif
