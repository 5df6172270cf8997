/* SPDX-License-Identifier: MIT */
#pragma once

/* What tests may ask of the host provider beyond HIP. C, so that any HIP program can use it.
 * Every function may be called from any thread at any time and changes no device memory. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Objects alive in this process; all zero when nothing leaked. */
typedef struct hipvmm_host_counters {
  uint64_t handles;          /**< hipMemCreate and import, not released (references count each) */
  uint64_t reservations;     /**< hipMemAddressReserve, not freed */
  uint64_t mappings;         /**< hipMemMap, not unmapped */
  uint64_t allocations;      /**< hipMalloc and memory of pools, not freed */
  uint64_t host_allocations; /**< hipHostMalloc, not freed */
  uint64_t streams;          /**< streams created, not destroyed */
  uint64_t events;           /**< events created, not destroyed */
  uint64_t descriptors;      /**< file descriptors held for shareable chunks, shareable pools and
                                imported memory (exports are the caller's) */
  uint64_t managed_allocations; /**< hipMallocManaged, not freed */
  uint64_t ipc_imports;         /**< hipIpcOpenMemHandle, not closed */
  uint64_t registrations;       /**< hipHostRegister, not unregistered */
  uint64_t pools;               /**< hipMemPoolCreate and import, not destroyed */
} hipvmm_host_counters;

/** Fills in the counters. */
void hipvmm_host_get_counters(hipvmm_host_counters* counters);

/** Bytes of device memory in use on `device`: chunks, hipMalloc and what pools hold; 0 for an
 * unknown device. */
size_t hipvmm_host_device_bytes(int device);
/** Most bytes in use at one time since start or the last reset; 0 for an unknown device. */
size_t hipvmm_host_peak_device_bytes(int device);
void hipvmm_host_reset_peak_device_bytes(int device);

/** Whether the page of managed or registered memory around `pointer` is on `device`, or in host
 * memory when that is hipCpuDeviceId (-1); 0 for other memory. A page that is read mostly may be in
 * several places.
 */
int hipvmm_host_is_resident(const void* pointer, int device);

/** Makes the `nth` call (from 1) from now on of `function`, or of any HIP function that can fail
 * when NULL, return `error` (a hipError_t) without doing anything. One shot; replaces an earlier
 * plan. The functions that cannot fail are hipGetErrorName, hipGetErrorString, hipGetLastError and
 * hipPeekAtLastError. `nth` 0 removes the plan. */
void hipvmm_host_fail_call(const char* function, uint64_t nth, int error);

/** Whether the plan of hipvmm_host_fail_call has struck. */
int hipvmm_host_fault_struck(void);

/** Calls of `function`, or of all HIP functions when NULL, since start. */
uint64_t hipvmm_host_call_count(const char* function);

/** Holds back the workers of every stream before their next operation until released; nests.
 * Lets tests look at what has been submitted but not run, without sleeping. */
void hipvmm_host_hold_streams(void);
void hipvmm_host_release_streams(void);

#ifdef __cplusplus
}
#endif
