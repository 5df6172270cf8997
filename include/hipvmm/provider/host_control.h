/* SPDX-License-Identifier: MIT */
#pragma once

/* Questions of tests to the host provider beyond HIP. C, so that any HIP program can use it.
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
  uint64_t allocations;      /**< hipMalloc and memory of pools and graphs, not freed */
  uint64_t host_allocations; /**< hipHostMalloc, not freed */
  uint64_t streams;          /**< streams created, not destroyed */
  uint64_t events;           /**< events created, not destroyed */
  uint64_t descriptors;      /**< file descriptors held for shareable chunks, shareable pools and
                                imported memory (exports are the caller's) */
  uint64_t managed_allocations; /**< hipMallocManaged, not freed */
  uint64_t ipc_imports;         /**< hipIpcOpenMemHandle, not closed */
  uint64_t registrations;       /**< hipHostRegister, not unregistered */
  uint64_t pools;               /**< hipMemPoolCreate and import, not destroyed */
  uint64_t graphs;              /**< graphs created or captured, not destroyed */
  uint64_t graph_execs;         /**< graphs instantiated, not destroyed */
} hipvmm_host_counters;

/** Fills in the counters. */
void hipvmm_host_get_counters(hipvmm_host_counters* counters);

/** Bytes of device memory in use on `device`: chunks, hipMalloc and what pools and graphs hold; 0
 * for an unknown device. */
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

/** Whether the plan of hipvmm_host_fail_call has struck, or the last one before it was removed. */
int hipvmm_host_fault_struck(void);

/** Replaces the plan of HIPVMM_HOST_FAULTS by another in the same language, which
 * providers/host/docs/environment.md describes; NULL or "" removes it. The call of
 * hipvmm_host_fail_call stays. Returns NULL; or, with the plan unchanged, a sentence about the
 * mistake, which is valid until the thread's next call of this. */
const char* hipvmm_host_set_faults(const char* plan);

/** Makes visible all present mappings that `visible_after` hides. */
void hipvmm_host_show_mappings(void);

/** Calls of `function`, or of all HIP functions when NULL, since start. */
uint64_t hipvmm_host_call_count(const char* function);
/** Mappings that the calls of hipMemSetAccess named since start, each once for each call, or for
 * each entry of a call where the profile sets rights entry by entry. */
uint64_t hipvmm_host_granted_mappings(void);

/** Calls so far that named a stream that was destroyed, or never made. The provider refuses them
 * all; a runtime whose handles are addresses may crash. A handle that names a new stream is not
 * counted (HIPVMM_HOST_REUSE_HANDLES). */
uint64_t hipvmm_host_stale_stream_calls(void);

/** Holds back the workers of every stream before their next operation until released; nests.
 * Lets tests look at what has been submitted but not run, without sleeping. */
void hipvmm_host_hold_streams(void);
void hipvmm_host_release_streams(void);

/* The stream-order checker, which HIPVMM_HOST_CHECK=1 switches on. Without it none of the functions
 * below does anything, and all return 0. */

/** A sub-allocator allocates `bytes` at `pointer`, to be used after this point of `stream` (a
 * hipStream_t). Bytes inside of an allocation that was noted before belong to a second
 * sub-allocator above the first one. Zero bytes: nothing is noted. Returns a hipError_t:
 * hipErrorInvalidHandle for an unknown stream. */
int hipvmm_host_note_allocate(void* pointer, size_t bytes, void* stream);
/** The allocation is freed at this point of `stream`: any use before the next allocation of these
 * bytes is reported. Returns hipErrorInvalidValue unless exactly these bytes were allocated. */
int hipvmm_host_note_deallocate(void* pointer, size_t bytes, void* stream);

/** The same if the sub-allocator itself orders all work on the bytes: they may be used in any
 * stream at once, or were freed without naming a stream. */
int hipvmm_host_note_allocate_sync(void* pointer, size_t bytes);
int hipvmm_host_note_deallocate_sync(void* pointer, size_t bytes);
/** A sub-allocator returns bytes to its upstream: its notes of allocations there are forgotten.
 * Notes of a sub-allocator below it stay. */
int hipvmm_host_note_return(void* pointer, size_t bytes);

/** Work submitted to `stream` at this point reads `bytes` at `pointer`, or writes them unless
 * `writes` is 0. Meant for kernels, because the checker cannot see their accesses. Returns a
 * hipError_t, and notes nothing unless that is 0: hipErrorInvalidHandle for an unknown stream;
 * hipErrorInvalidValue if the stream's device may not use all bytes so;
 * hipErrorStreamCaptureUnsupported while the stream is captured, because a graph's work is noted at
 * its launch. */
int hipvmm_host_note_use(const void* pointer, size_t bytes, void* stream, int writes);

/** Whether the checker is on. */
int hipvmm_host_checks_order(void);
/** Reports made so far and not cleared. A process that ends with any ends with exit code 66. */
uint64_t hipvmm_host_order_reports(void);
/** Copies the last report, cut to `bytes` with its terminating zero; gives the report's length. */
size_t hipvmm_host_last_order_report(char* text, size_t bytes);
/** Forgets the reports: what was reported once may be again, and the exit code is the program's. */
void hipvmm_host_clear_order_reports(void);

/** While suspended, the calling thread's uses of memory are neither judged nor remembered, and
 * nothing it does is reported; nests. Calls that order streams still count. */
void hipvmm_host_suspend_order_check(void);
void hipvmm_host_resume_order_check(void);

#ifdef __cplusplus
}
#endif
