/* SPDX-License-Identifier: MIT */
/* Functions for tests of the stand-in for ROCr, beyond HSA's own. A program that also runs
   on ROCr looks these up with dlsym(). GPUs are counted from 0; ROCR_STAND_IN_ALL means each of
   them. Each function returns 0, or -1 if an argument is no GPU, function or status. */
#ifndef ROCR_STAND_IN_H
#define ROCR_STAND_IN_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define ROCR_STAND_IN_ALL (-1)

/* While a GPU is held, no packet and no copy of it starts. Holds do not nest. */
int rocr_stand_in_hold(int gpu);
int rocr_stand_in_release(int gpu);

/* Bytes of device memory that are allocated now, and the most there were. */
int rocr_stand_in_memory(int gpu, uint64_t* used, uint64_t* peak);

/* The nth call from now (1 is the next) of `function` returns `status`, once, and does nothing.
   nth 0 cancels its planned failures. */
int rocr_stand_in_fail_call(const char* function, uint64_t nth, uint32_t status);

/* How often `function` was called. */
int rocr_stand_in_calls(const char* function, uint64_t* count);

/* Microseconds that each packet and copy waits before it starts. */
int rocr_stand_in_delay(uint64_t microseconds);

/* Reports so far; more than 0 only with HIPVMM_ROCR_REPORTS=count. */
uint64_t rocr_stand_in_reports(void);

/* Text about `address`: its present and former contents, newest first. Writes at most
   `size` bytes with the final 0 and returns the length of the whole text. */
size_t rocr_stand_in_history(const void* address, char* text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
