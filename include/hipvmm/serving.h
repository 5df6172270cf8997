/* SPDX-License-Identifier: MIT */
#pragma once

/* hipvmm for servers, in C: slots that grow in place, the shape of a KV cache; memory that
 * sleeps: its device gets it back, and its addresses stay; budgets that processes share. The rules
 * of <hipvmm/hipvmm.h> for statuses, handles, threads, streams and options hold here too;
 * docs/reference/slot_arena.md, sleep.md and budgets.md say what the calls do and cost.
 */

#include <stddef.h>
#include <stdint.h>

#include <hipvmm/hipvmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Slots that grow ---- */

typedef struct hipvmm_slot_arena_handle* hipvmm_slot_arena;

/** Where slots are: slot s of plane p begins at base + p * plane_stride + s * slot_stride. */
typedef struct hipvmm_slot_arena_layout {
  size_t struct_size;
  void* base;
  size_t slots;
  size_t planes;
  size_t bytes_per_slot; /**< the most bytes of a slot in each plane */
  size_t slot_stride;
  size_t plane_stride;
  size_t block_bytes; /**< a slot grows by so many bytes in each plane */
  int device;
} hipvmm_slot_arena_layout;

/** Bytes are of all planes together. */
typedef struct hipvmm_slot_arena_statistics {
  size_t struct_size;
  size_t slots_in_use;
  size_t used_bytes;   /**< the lengths of all slots */
  size_t needed_bytes; /**< of the blocks that hold them, each counted once */
  size_t spare_bytes;  /**< of blocks mapped beyond: prefetched, or left by a released slot */
  size_t kept_bytes;   /**< of chunks that are mapped nowhere */
  size_t held_bytes;   /**< the sum of the last three: what the budget limits */
  size_t peak_held_bytes;
  size_t shared_bytes; /**< mapped once more by hipvmm_slot_arena_share_prefix */
  size_t budget_bytes;
  size_t reserved_bytes; /**< addresses */
  uint64_t prefetched_blocks;
  uint64_t failed_prefetches;
  uint64_t grown_blocks; /**< that a commit had to back itself */
  uint64_t moved_blocks; /**< from one slot to another, without hipMemCreate */
  uint64_t evictions;    /**< calls of the eviction callback */
} hipvmm_slot_arena_statistics;

/** Makes room for a commit that does not fit and needs `missing_bytes` more. See
 * hipvmm_slot_arena_set_eviction. */
typedef hipvmm_status (*hipvmm_evict_callback)(size_t missing_bytes, void* argument);

/** Reserves the addresses of all slots and backs none. Options: slots and bytes_per_slot, which are
 * needed; planes, block, layout, budget, prefetch, access, sleep_tag (docs/guides/c_api.md).
 * HIPVMM_ERROR_UNSUPPORTED on a device without virtual memory that can be used. */
hipvmm_status hipvmm_slot_arena_create(int device, const char* options, hipvmm_slot_arena* arena);
/** The memory is released when work under way has passed; does not wait for that. */
hipvmm_status hipvmm_slot_arena_destroy(hipvmm_slot_arena arena);
/** Takes a free slot, with length zero, for work of `stream`. HIPVMM_ERROR_OUT_OF_MEMORY where all
 * are in use. */
hipvmm_status hipvmm_slot_arena_acquire(hipvmm_slot_arena arena, void* stream, size_t* slot);
/** Makes slot slots[i] at least lengths[i] bytes long in each plane, for all i < count, or changes
 * nothing. Work of `stream` after the call may use the bytes, whose contents are indeterminate.
 * HIPVMM_ERROR_OUT_OF_MEMORY where they do not fit: release or truncate slots and call again, or
 * hipvmm_slot_arena_set_eviction. */
hipvmm_status hipvmm_slot_arena_commit(hipvmm_slot_arena arena, const size_t* slots,
                                       const size_t* lengths, size_t count, void* stream);
/** Frees the slot: others use its memory when `stream` has passed. Does not wait. */
hipvmm_status hipvmm_slot_arena_release(hipvmm_slot_arena arena, size_t slot, void* stream);
/** Shortens the slot to `length` bytes in each plane. */
hipvmm_status hipvmm_slot_arena_truncate(hipvmm_slot_arena arena, size_t slot, size_t length,
                                         void* stream);
/** Gives each of `count` slots `to`, which have no bytes, the first `length` bytes of slot `from`.
 * Whole blocks are the same memory, which devices may only read in `to`; the rest is copied. */
hipvmm_status hipvmm_slot_arena_share_prefix(hipvmm_slot_arena arena, size_t from, const size_t* to,
                                             size_t count, size_t length, void* stream);
/** Gives the slot memory of its own for the shared blocks that hold these bytes, of each plane;
 * waits for `stream`. */
hipvmm_status hipvmm_slot_arena_make_writable(hipvmm_slot_arena arena, size_t slot, size_t offset,
                                              size_t bytes, void* stream);
/** The first byte of the slot in the plane, which stays the same as long as the arena. */
hipvmm_status hipvmm_slot_arena_pointer(hipvmm_slot_arena arena, size_t slot, size_t plane,
                                        void** pointer);
/** Bytes of the slot in each plane, zero for a free one. */
hipvmm_status hipvmm_slot_arena_length(hipvmm_slot_arena arena, size_t slot, size_t* bytes);
/** Bytes that the slot can have without another block. */
hipvmm_status hipvmm_slot_arena_capacity(hipvmm_slot_arena arena, size_t slot, size_t* bytes);
hipvmm_status hipvmm_slot_arena_in_use(hipvmm_slot_arena arena, size_t slot, int* in_use);
/** How many free slots could be committed to `length` bytes each, now. */
hipvmm_status hipvmm_slot_arena_slots_that_fit(hipvmm_slot_arena arena, size_t length,
                                               size_t* slots);
/** Sets the function that a commit which does not fit calls, in its thread, before it is tried once
 * more; null for none.
 * - It may call this arena from that thread: release, truncate, trim, set_budget and what only
 * asks. To release or truncate a slot that the commit names is HIPVMM_ERROR_INVALID_ARGUMENT, and
 * to acquire, commit, share, make writable or set another function HIPVMM_ERROR_INVALID_STATE.
 * Calls of other threads wait until the commit has returned: it must not wait for them.
 * - Where it returns another status than HIPVMM_OK, the commit changes nothing and returns that,
 *   and hipvmm_last_error() has what the failed call in the function said.
 * - It must do for as long as the arena lives; what `argument` points to, too. */
hipvmm_status hipvmm_slot_arena_set_eviction(hipvmm_slot_arena arena, hipvmm_evict_callback evict,
                                             void* argument);
/** Changes the budget; what no length needs beyond it is released to the device. */
hipvmm_status hipvmm_slot_arena_set_budget(hipvmm_slot_arena arena, size_t bytes);
/** Releases to the device all that no length needs; `released` may be null. */
hipvmm_status hipvmm_slot_arena_trim(hipvmm_slot_arena arena, size_t* released);
hipvmm_status hipvmm_slot_arena_get_layout(hipvmm_slot_arena arena,
                                           hipvmm_slot_arena_layout* layout);
hipvmm_status hipvmm_slot_arena_get_statistics(hipvmm_slot_arena arena,
                                               hipvmm_slot_arena_statistics* statistics);

/* ---- Sleep and wake ----
 * A tag is a name of the process. What is made with the option "sleep_tag=NAME" carries it:
 * buffers, pools and slot arenas. While a tag sleeps, calls that need the memory are
 * HIPVMM_ERROR_INVALID_STATE, and work that uses its addresses fails. While it goes to sleep or
 * wakes, calls for its buffers and arenas wait, and pools refuse requests; nothing else may use the
 * memory then. */

/** What hipvmm_suspend does with the bytes of the memory that it releases. */
typedef enum hipvmm_keep HIPVMM_C_ENUM {
  HIPVMM_KEEP_CONTENTS = 0, /**< copies them to the host, and hipvmm_resume copies them back */
  HIPVMM_KEEP_NOTHING = 1   /**< drops them */
} hipvmm_keep;

typedef struct hipvmm_tag_statistics {
  size_t struct_size;
  size_t objects;       /**< that carry the tag and live */
  size_t bytes_asleep;  /**< that hipvmm_resume backs again; zero while awake */
  size_t bytes_on_host; /**< of the host that hold contents */
  size_t bytes_on_disk; /**< of files that do */
  int is_asleep;
} hipvmm_tag_statistics;

/** Releases all memory that carries the tag to the devices, keeps its addresses and waits for all
 * work of every device with access. `bytes`, which may be null, is what was released; 0 where the
 * tag sleeps already. Options: storage (pinned, pinned_kept, pageable or file) and, for a file,
 * folder. After a failure all is awake. HIPVMM_ERROR_INVALID_ARGUMENT for a name that no object was
 * made with. */
hipvmm_status hipvmm_suspend(const char* tag, hipvmm_keep keep, const char* options, size_t* bytes);
/** The same where all work that uses the memory is ordered before the call in `stream`, which alone
 * is waited for; null is the current device's default stream. */
hipvmm_status hipvmm_suspend_in_stream(const char* tag, hipvmm_keep keep, const char* options,
                                       void* stream, size_t* bytes);
/** Backs all memory of the tag again, at the same addresses, and copies kept contents back.
 * `bytes`, which may be null, is what was backed; 0 where the tag is awake. After a failure all is
 * asleep, and nothing is lost. */
hipvmm_status hipvmm_resume(const char* tag, size_t* bytes);
hipvmm_status hipvmm_tag_get_statistics(const char* tag, hipvmm_tag_statistics* statistics);

/* ---- Budgets between processes ----
 * A cap on the memory that processes of one user hold together on one device: all chunks that this
 * process creates there count, of buffers, pools and slot arenas. What does not fit has the others
 * trim, and is HIPVMM_ERROR_OUT_OF_MEMORY with HIPVMM_EXHAUSTED_LIMIT if it still does not. */

typedef struct hipvmm_budget_handle* hipvmm_budget;

/** Releases memory: other processes need `bytes` more than what this one could release by itself. A
 * thread of the library calls it, one call at a time, and not while this process waits for memory
 * itself: what it uses needs locks of the program's, which no thread holds that asks for memory. It
 * may call all but hipvmm_budget_join and the functions of a budget, which are
 * HIPVMM_ERROR_INVALID_ARGUMENT in it. */
typedef void (*hipvmm_trim_callback)(size_t bytes, void* argument);

typedef struct hipvmm_budget_statistics {
  size_t struct_size;
  size_t limit;     /**< in bytes */
  size_t bytes;     /**< that all processes hold; may exceed a limit that was set later */
  size_t own_bytes; /**< that this process holds */
  size_t holders;   /**< processes that take part */
} hipvmm_budget_statistics;

/** A process that takes part in a budget. */
typedef struct hipvmm_budget_holder {
  int process; /**< its process ID */
  int priority;
  size_t bytes;       /**< that it holds */
  size_t waiting_for; /**< bytes that it waits for now */
  char program[32];   /**< its name, cut off */
} hipvmm_budget_holder;

/** Joins the budget `name` of a device. Options: limit, which counts for the first process unless
 * one was set from outside; priority; patience (docs/guides/c_api.md). `trim` may be null.
 * HIPVMM_ERROR_INVALID_ARGUMENT for a bad name and where this process has a budget of the device;
 * HIPVMM_ERROR_UNSUPPORTED for a device without virtual memory that can be used. */
hipvmm_status hipvmm_budget_join(int device, const char* name, const char* options,
                                 hipvmm_trim_callback trim, void* argument, hipvmm_budget* budget);
/** Takes part no longer. Waits for a call of `trim` under way; none comes after it, unless another
 * thread is in a call for this budget, which then ends with that. */
hipvmm_status hipvmm_budget_leave(hipvmm_budget budget);
/** Sets the limit for all processes, now and later: those that hold more together are asked to
 * trim. */
hipvmm_status hipvmm_budget_set_limit(hipvmm_budget budget, size_t bytes);
/** Has others make room ahead of a request. `has_room` is whether so many bytes fit now; who comes
 * first gets them. Waits as long as a request would. */
hipvmm_status hipvmm_budget_make_room(hipvmm_budget budget, size_t bytes, int* has_room);
hipvmm_status hipvmm_budget_get_statistics(hipvmm_budget budget,
                                           hipvmm_budget_statistics* statistics);
/** Writes up to `capacity` holders, those of most bytes first; `count` is how many there are. */
hipvmm_status hipvmm_budget_get_holders(hipvmm_budget budget, hipvmm_budget_holder* holders,
                                        size_t capacity, size_t* count);

#ifdef __cplusplus
}
#endif
