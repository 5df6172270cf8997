/* SPDX-License-Identifier: MIT */
#pragma once

/* hipvmm as the allocator of PyTorch: the functions that torch.cuda.memory.CUDAPluggableAllocator
 * loads from a library by name, on CUDA and on ROCm builds. `hipvmm.torch.install()` of the Python
 * package gives PyTorch all of them; docs/guides/python.md has the lines.
 *
 * - Each device has one vmm_pool_resource, made by its first allocation with the options that
 *   HIPVMM_CONF has for pools. All devices that can reach it have access, unless an option `access`
 *   says otherwise: copies between GPUs need it.
 * - The pools live as long as the process, so that tensors may end at any time of its exit.
 * - A child of fork() cannot use it if the parent has, as CUDA and HIP themselves: the child's
 *   allocations are refused, and the end of an inherited tensor does nothing.
 * - Addresses are as aligned as those of a pool: to 256 bytes.
 */

#include <stddef.h>
#include <stdint.h>

#include <hipvmm/hipvmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Allocates in the order of `stream`; null for 0 bytes. The memory is that of graphs while
 * hipvmm_torch_begin_allocate_to_pool() sends allocations of the stream there.
 * Throws C++ exceptions, which PyTorch turns into Python's: torch.OutOfMemoryError with the pool's
 * report if PyTorch's own class can be found in the process; RuntimeError otherwise. */
void* hipvmm_torch_alloc(size_t bytes, int device, void* stream);
/** Deallocates in the order of `stream`, that of the allocation, and of all recorded streams.
 * Neither the caller nor a known stream waits. If one of them is being captured, the memory is kept
 * until the capture has ended, unless the graphs' own memory serves it. */
void hipvmm_torch_free(void* pointer, size_t bytes, int device, void* stream);
/** Declares that work in `stream`, too, uses an allocation, up to its hipvmm_torch_free(). Null is
 * the default stream of the allocation's device, because PyTorch passes no device. No effect on
 * memory of other allocators. */
void hipvmm_torch_record_stream(void* pointer, void* stream);
/** Takes a hipvmm_torch_record_stream() back: the allocation's stream is ordered after that work.
 */
void hipvmm_torch_erase_stream(void* pointer, void* stream);
/** Releases idle memory of all devices, as torch.cuda.empty_cache() asks. */
void hipvmm_torch_reset(void);
/** Limits the allocations from a device to a part of its memory, from now on; a large fraction is
 * no limit. Throws: std::invalid_argument for a fraction below 0 or an unknown device. */
void hipvmm_torch_memory_fraction(double fraction, int device);

/** The pool of a device, for its statistics and report; made if need be. Destroying the handle does
 * not end the pool. */
hipvmm_status hipvmm_torch_pool(int device, hipvmm_resource* pool);

/** PyTorch's allocations from a device, now and so far. hipvmm_pool_statistics has the memory that
 * the pool holds for them. */
typedef struct hipvmm_torch_statistics {
  size_t struct_size;
  size_t allocated_current; /**< bytes */
  size_t allocated_high;    /**< most bytes since the process began or hipvmm_torch_reset_peaks() */
  uint64_t allocated_total; /**< bytes of all allocations so far */
  uint64_t count_current;   /**< allocations */
  uint64_t count_total;
  uint64_t out_of_memory; /**< requests that were refused for lack of memory or by the fraction */
} hipvmm_torch_statistics;

/** Zeros for a device without allocations. */
hipvmm_status hipvmm_torch_get_statistics(int device, hipvmm_torch_statistics* statistics);
/** Begins the peaks of a device anew, those of its pool too. */
hipvmm_status hipvmm_torch_reset_peaks(int device);

/* Memory that sleeps (<hipvmm/serving.h>): each tag has functions of its own, by its number, which
 * allocate from pools that carry it: for torch.cuda.MemPool, beside PyTorch's own allocator. */

/** Gets the number of a tag, from 1 to 8; the same for the same name. HIPVMM_ERROR_OUT_OF_RANGE if
 * eight others have one. */
hipvmm_status hipvmm_torch_tag(const char* tag, int* number);
/* As hipvmm_torch_alloc() and hipvmm_torch_free(). While the tag sleeps, an allocation throws
 * std::logic_error. */
void* hipvmm_torch_alloc_1(size_t bytes, int device, void* stream);
void hipvmm_torch_free_1(void* pointer, size_t bytes, int device, void* stream);
void* hipvmm_torch_alloc_2(size_t bytes, int device, void* stream);
void hipvmm_torch_free_2(void* pointer, size_t bytes, int device, void* stream);
void* hipvmm_torch_alloc_3(size_t bytes, int device, void* stream);
void hipvmm_torch_free_3(void* pointer, size_t bytes, int device, void* stream);
void* hipvmm_torch_alloc_4(size_t bytes, int device, void* stream);
void hipvmm_torch_free_4(void* pointer, size_t bytes, int device, void* stream);
void* hipvmm_torch_alloc_5(size_t bytes, int device, void* stream);
void hipvmm_torch_free_5(void* pointer, size_t bytes, int device, void* stream);
void* hipvmm_torch_alloc_6(size_t bytes, int device, void* stream);
void hipvmm_torch_free_6(void* pointer, size_t bytes, int device, void* stream);
void* hipvmm_torch_alloc_7(size_t bytes, int device, void* stream);
void hipvmm_torch_free_7(void* pointer, size_t bytes, int device, void* stream);
void* hipvmm_torch_alloc_8(size_t bytes, int device, void* stream);
void hipvmm_torch_free_8(void* pointer, size_t bytes, int device, void* stream);

#ifdef __cplusplus
}

#include <functional>
#include <utility>

struct ihipStream_t;

/* For graphs: the three take PyTorch's C++ arguments, std::pair and std::function by value, so they
 * can only be passed to it by address. */
extern "C" {

/** Sends allocations of the streams that `filter` accepts to the memory of the graphs `id`, until
 * hipvmm_torch_end_allocate_to_pool(). Memory freed there serves those graphs only. */
void hipvmm_torch_begin_allocate_to_pool(int device,
                                         std::pair<unsigned long long, unsigned long long> id,
                                         std::function<bool(ihipStream_t*)> filter);
void hipvmm_torch_end_allocate_to_pool(int device,
                                       std::pair<unsigned long long, unsigned long long> id);
/** Ends one begin_allocate_to_pool(). After the last, memory of those graphs returns to the pool
 * when it is free and all work of the devices up to then is done. No further allocation is sent
 * there, even without hipvmm_torch_end_allocate_to_pool(). */
void hipvmm_torch_release_pool(int device, std::pair<unsigned long long, unsigned long long> id);
}
#endif
