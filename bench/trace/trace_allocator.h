/* SPDX-License-Identifier: MIT */
/* The functions that trace_bench calls in a library of a process of its own: the allocator of
   another project behind a few C functions. torch_allocator.cc has them for PyTorch. No function
   throws; those that can fail say why in hipvmm_bench_error(). */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes `device` current and the allocator ready; 0, or not 0 on failure. */
int hipvmm_bench_open(int device);
/* Memory for `stream`, a hipStream_t or cudaStream_t; NULL on failure. */
void* hipvmm_bench_allocate(size_t bytes, void* stream);
/* `stream` is the one that the memory was allocated for; 0, or not 0 on failure. */
int hipvmm_bench_deallocate(void* pointer, size_t bytes, void* stream);
/* Bytes held from the device now, and the most of them since the start or the last reset. */
size_t hipvmm_bench_reserved_bytes(void);
size_t hipvmm_bench_peak_reserved_bytes(void);
void hipvmm_bench_reset_peak(void);
/* Releases idle memory to the device; 0, or not 0 on failure. */
int hipvmm_bench_empty_cache(void);
/* Why the last call that failed did so. */
const char* hipvmm_bench_error(void);

#ifdef __cplusplus
}
#endif
