/* SPDX-License-Identifier: MIT */
#pragma once

/* NCCL's functions, as far as compat/nccl.hpp, compat/nccl_registration.hpp and their tests use
 * them, over HIP, for ranks that are threads of one process. Written from NCCL's documentation. In
 * C++ alone. The ends of messages meet on the host, by ncclGroupEnd or, for nonblocking
 * communicators, by ncclCommGetAsyncError: NCCL's meet on the device. Several ranks may have one
 * device. Registrations are counted, and no rank waits for another to register a window. */

#include <cstddef>
#include <map>
#include <utility>

#include <hip/hip_runtime_api.h>

/* The header of which release; NCCL_STAND_IN_MINOR is for the tests. */
#ifndef NCCL_STAND_IN_MINOR
#define NCCL_STAND_IN_MINOR 28
#endif
#define NCCL_MAJOR 2
#define NCCL_MINOR NCCL_STAND_IN_MINOR
#define NCCL_PATCH 3
#define NCCL_VERSION(x, y, z) ((x)*10000 + (y)*100 + (z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
#define NCCL_UNIQUE_ID_BYTES 128

extern "C" {

typedef struct ncclComm* ncclComm_t;
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;
typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;
typedef enum { ncclInt8 = 0, ncclChar = 0, ncclUint8 = 1 } ncclDataType_t;
typedef struct {
  int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER \
  { 1 }

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommCount(ncclComm_t comm, int* count);
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, hipStream_t stream);
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      hipStream_t stream);
ncclResult_t ncclAllGather(const void* sent, void* received, size_t count, ncclDataType_t type,
                           ncclComm_t comm, hipStream_t stream);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
#if NCCL_MINOR >= 19
ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle);
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle);
#endif
#if NCCL_MINOR >= 27
typedef struct ncclWindow_vidmem* ncclWindow_t;
/* A nonblocking communicator writes `window` during a later ncclCommGetAsyncError. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                    ncclWindow_t* window, int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);
#endif

/* Faults, which NCCL does not have. */

/* The nth call, from 1, of this thread from now on returns `result` and does nothing; 0 removes the
 * plan. ncclGroupEnd ends its group all the same. */
void nccl_stand_in_fail(int nth, ncclResult_t result);
/* Calls `hook(context)` once, in this thread, before the next ncclAllGather does anything. */
void nccl_stand_in_before_gather(void (*hook)(void*), void* context);
/* Whether the plan has struck. */
int nccl_stand_in_struck(void);
/* The answer of ncclCommGetAsyncError from now on. */
void nccl_stand_in_set_error(ncclComm_t comm, ncclResult_t result);
/* The next messages of `comm` leave its stream waiting, as for a rank that died, until
 * ncclCommAbort. */
void nccl_stand_in_stall(ncclComm_t comm);
/* The answer of ncclGetVersion; 0 restores the version above. */
void nccl_stand_in_set_version(int version);

/* The nth call of any thread that registers or deregisters, from 1, fails; 0 removes the plan. */
void nccl_stand_in_fail_registration(int nth);
/* Whether the machine offers windows. */
void nccl_stand_in_set_windows(bool are_offered);
/* While it is held, registrations of a nonblocking communicator stay in progress, as behind a rank
 * that does not come, and so do deregistrations. */
void nccl_stand_in_hold_registration(ncclComm_t comm, bool is_held);
}

/* The registrations, by handle. */
struct nccl_stand_in_memory {
  std::map<void*, std::pair<char*, std::size_t>> buffers;
  std::map<void*, std::pair<char*, std::size_t>> windows;
};
const nccl_stand_in_memory& nccl_stand_in_memory_of(ncclComm_t comm);
