/* SPDX-License-Identifier: MIT */
#pragma once

/* hipvmm for servers, in C: slots that grow in place, the shape of a KV cache; memory that sleeps,
 * so that the device has it back while the addresses stay; budgets that processes share. The rules
 * of <hipvmm/hipvmm.h> for statuses, handles, threads, streams and options hold here too;
 * docs/reference/slot_arena.md, sleep.md and budgets.md describe the calls and their cost.
 */

#include <stddef.h>
#include <stdint.h>

#include <hipvmm/hipvmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Slots that grow ---- */

typedef struct hipvmm_slot_arena_handle* hipvmm_slot_arena;

/** Addresses: slot s of plane p begins at base + p * plane_stride + s * slot_stride. */
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

/** Makes room for a commit that lacks `missing_bytes`. See hipvmm_slot_arena_set_eviction. */
typedef hipvmm_status (*hipvmm_evict_callback)(size_t missing_bytes, void* argument);

/** Reserves the addresses of all slots and backs none. Options: slots and bytes_per_slot, which are
 * needed; planes, block, layout, budget, floor, priority, prefetch, access, sleep_tag
 * (docs/guides/c_api.md).
 * HIPVMM_ERROR_UNSUPPORTED on a device without virtual memory that can be used. */
hipvmm_status hipvmm_slot_arena_create(int device, const char* options, hipvmm_slot_arena* arena);
/** Does not wait: the memory is released when work under way has passed. */
hipvmm_status hipvmm_slot_arena_destroy(hipvmm_slot_arena arena);
/** Takes a free slot, with length zero, for work of `stream`. HIPVMM_ERROR_OUT_OF_MEMORY if all are
 * in use. */
hipvmm_status hipvmm_slot_arena_acquire(hipvmm_slot_arena arena, void* stream, size_t* slot);
/** Makes slot slots[i] at least lengths[i] bytes long in each plane, for all i < count, or changes
 * nothing. Work of `stream` after the call may use the bytes; new ones are indeterminate.
 * HIPVMM_ERROR_OUT_OF_MEMORY if they do not fit: release or truncate slots and call again, or use
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
/** The first byte of the slot in the plane; constant for the life of the arena. */
hipvmm_status hipvmm_slot_arena_pointer(hipvmm_slot_arena arena, size_t slot, size_t plane,
                                        void** pointer);
/** Bytes of the slot in each plane, zero for a free one. */
hipvmm_status hipvmm_slot_arena_length(hipvmm_slot_arena arena, size_t slot, size_t* bytes);
/** Bytes that the slot can have without another block. */
hipvmm_status hipvmm_slot_arena_capacity(hipvmm_slot_arena arena, size_t slot, size_t* bytes);
hipvmm_status hipvmm_slot_arena_in_use(hipvmm_slot_arena arena, size_t slot, int* in_use);
/** The number of free slots that could be committed to `length` bytes each, now. */
hipvmm_status hipvmm_slot_arena_slots_that_fit(hipvmm_slot_arena arena, size_t length,
                                               size_t* slots);
/** Sets the function that a commit calls, in its thread, if it does not fit. Then the commit is
 * tried once more. Null for none.
 * - It may call this arena from that thread: release, truncate, trim, set_budget and queries. To
 *   release or truncate a slot that the commit names is HIPVMM_ERROR_INVALID_ARGUMENT, and to
 *   acquire, commit, share, make writable or set another function HIPVMM_ERROR_INVALID_STATE. Calls
 *   of other threads wait until the commit has returned: it must not wait for them.
 * - If it returns another status than HIPVMM_OK, the commit changes nothing and returns that
 *   status; hipvmm_last_error() has the message of the call that failed in the function.
 * - The function and `argument` must be valid until the arena ends. */
hipvmm_status hipvmm_slot_arena_set_eviction(hipvmm_slot_arena arena, hipvmm_evict_callback evict,
                                             void* argument);
/** Changes the budget. Memory beyond it that no length needs is released to the device. */
hipvmm_status hipvmm_slot_arena_set_budget(hipvmm_slot_arena arena, size_t bytes);
/** Releases every idle block beyond the lengths of the slots; `released` may be null. */
hipvmm_status hipvmm_slot_arena_trim(hipvmm_slot_arena arena, size_t* released);
hipvmm_status hipvmm_slot_arena_get_layout(hipvmm_slot_arena arena,
                                           hipvmm_slot_arena_layout* layout);
hipvmm_status hipvmm_slot_arena_get_statistics(hipvmm_slot_arena arena,
                                               hipvmm_slot_arena_statistics* statistics);

/* ---- Sleep and wake ----
 * A tag is a name of the process. Buffers, pools and slot arenas made with the option
 * "sleep_tag=NAME" carry it. While a tag sleeps, calls that need the memory are
 * HIPVMM_ERROR_INVALID_STATE, and work that uses its addresses fails. While it goes to sleep or
 * wakes, calls for its buffers and arenas wait, and pools refuse requests; no other work may use
 * the memory then. */

/** The treatment of the memory's bytes by hipvmm_suspend. */
typedef enum hipvmm_keep HIPVMM_C_ENUM {
  HIPVMM_KEEP_CONTENTS = 0, /**< copies them to the host, and hipvmm_resume copies them back */
  HIPVMM_KEEP_NOTHING = 1,  /**< drops them */
  HIPVMM_KEEP_ZEROS = 2,    /**< drops them, and hipvmm_resume makes them zero */
  /** A chunk stays mapped while the tag sleeps, and work may use it, if all of its bytes are
   * HIPVMM_KEEP_MAPPED. In other chunks that means HIPVMM_KEEP_CONTENTS. */
  HIPVMM_KEEP_MAPPED = 3
} hipvmm_keep;

/** The treatment of some bytes by hipvmm_suspend_ranges. */
typedef struct hipvmm_suspend_range {
  const void* address;
  size_t bytes;
  hipvmm_keep keep;
} hipvmm_suspend_range;

typedef struct hipvmm_tag_statistics {
  size_t struct_size;
  size_t objects;       /**< that carry the tag and live */
  size_t bytes_asleep;  /**< that hipvmm_resume backs again; zero while awake */
  size_t bytes_on_host; /**< of the host that hold contents, or are kept for them */
  size_t bytes_on_disk; /**< of files that do */
  int is_asleep;
  size_t bytes_mapped; /**< of memory that stays mapped (HIPVMM_KEEP_MAPPED); zero while awake */
} hipvmm_tag_statistics;

/** Waits for all work of every device with access, and releases all memory that carries the tag to
 * the devices; its addresses stay. `bytes`, which may be null, gets the number of released bytes; 0
 * if the tag sleeps already. Options: storage (pinned, pinned_kept, pageable or file) and, for a
 * file, folder. After a failure all is awake. HIPVMM_ERROR_INVALID_ARGUMENT for a name that no
 * object was made with. */
hipvmm_status hipvmm_suspend(const char* tag, hipvmm_keep keep, const char* options, size_t* bytes);
/** The same, but waits only for `stream`: all work that uses the memory must be ordered before the
 * call in it. Null is the current device's default stream. */
hipvmm_status hipvmm_suspend_in_stream(const char* tag, hipvmm_keep keep, const char* options,
                                       void* stream, size_t* bytes);
/** The same with a treatment for each of `count` ranges, and `keep` for all other bytes. Ranges are
 * backed memory of the tag and do not overlap; of a pool, its blocks count. It waits for the stream
 * to which `stream` points, or, if that is null, for all work of every device with access.
 * HIPVMM_ERROR_UNSUPPORTED if memory returns only with its addresses (ROCm 6.1 to 7.2) and an
 * object would stay mapped in part. */
hipvmm_status hipvmm_suspend_ranges(const char* tag, hipvmm_keep keep,
                                    const hipvmm_suspend_range* ranges, size_t count,
                                    const char* options, void* const* stream, size_t* bytes);
/** Makes and pins host memory ahead of a suspension with storage=pinned or pinned_kept. The
 * suspension then only copies, and makes the rest for memory backed in between. `bytes`, which may
 * be null, gets the host memory that is there then, as bytes_on_host counts it. HIPVMM_KEEP_NOTHING
 * frees all. `ranges` may be null if `count` is 0. Calls for buffers and arenas of the tag wait
 * meanwhile. After a failure there is as much as before. */
hipvmm_status hipvmm_prepare_suspend(const char* tag, hipvmm_keep keep,
                                     const hipvmm_suspend_range* ranges, size_t count,
                                     size_t* bytes);
/** Backs all memory of the tag again, at the same addresses, and copies kept contents back.
 * `bytes`, which may be null, gets the number of backed bytes; 0 if the tag is awake. After a
 * failure all is asleep, and nothing is lost. */
hipvmm_status hipvmm_resume(const char* tag, size_t* bytes);
hipvmm_status hipvmm_tag_get_statistics(const char* tag, hipvmm_tag_statistics* statistics);
/** HIPVMM_ERROR_INVALID_STATE if `address` is of memory that sleeps; HIPVMM_OK for any other
 * address, also of a chunk that stays mapped. Call it before the use of a kept address. */
hipvmm_status hipvmm_require_awake(const void* address);

/* ---- A checkpoint: memory of a tag in a file, for another process at the same addresses ---- */

typedef struct hipvmm_checkpoint_handle* hipvmm_checkpoint;

/** Writes all memory that carries the tag, and the text `notes` of the program, which may be null,
 * into a file, in place of any other at `path`. The memory stays as it is. It waits for the stream
 * to which `stream` points, or, if that is null, for all work of every device with access; calls
 * for buffers and arenas of the tag wait meanwhile, and no other work may write the memory.
 * `bytes`, which may be null, gets the bytes of contents. After a failure there is no new file.
 * HIPVMM_ERROR_INVALID_STATE while the tag sleeps; requests to its pools get it during the call.
 * HIPVMM_ERROR_UNSUPPORTED for memory of several devices, or that several slots share. */
hipvmm_status hipvmm_checkpoint_save(const char* tag, const char* path, const char* notes,
                                     void* const* stream, size_t* bytes);
/** Backs the same addresses in this process by memory of the device, and fills it. `tag`, which may
 * be null: the memory carries it. HIPVMM_ERROR_INVALID_ARGUMENT for a file that is damaged, of
 * another device, or that other users may write; HIPVMM_ERROR_OUT_OF_MEMORY with
 * HIPVMM_EXHAUSTED_ADDRESSES if others have some of the addresses: load before other memory is
 * made, or start the process again. After a failure nothing stays reserved.
 * docs/reference/sleep.md. */
hipvmm_status hipvmm_checkpoint_load(const char* path, int device, const char* tag,
                                     hipvmm_checkpoint* checkpoint);
hipvmm_status hipvmm_checkpoint_notes(hipvmm_checkpoint checkpoint, char* text, size_t capacity,
                                      size_t* length);
/** The memory is released when all present work of the devices has finished. */
hipvmm_status hipvmm_checkpoint_destroy(hipvmm_checkpoint checkpoint);

/* ---- Memory that is evicted ----
 * Memory of a tag leaves its device if a request of this process, or another process of its budget,
 * lacks memory there. It returns to the same addresses when it is used. Calls that need the memory
 * are HIPVMM_ERROR_INVALID_STATE outside a use; others wait for an eviction under way.
 * docs/reference/sleep.md. */

typedef struct hipvmm_evictable_handle* hipvmm_evictable;

typedef struct hipvmm_evictable_statistics {
  size_t struct_size;
  uint64_t evictions;
  uint64_t returns;
  size_t evicted_bytes;
  size_t returned_bytes;
  uint64_t refused_in_use;     /**< times that requests met memory in use; some ask twice */
  uint64_t refused_by_failure; /**< times that requests met memory that could not sleep */
} hipvmm_evictable_statistics;

/** Writes the contents by work in `stream` after each eviction, when the memory is back. Its
 * failure is that of the call that brings the memory back. It may make calls that need the memory,
 * and none of this evictable. */
typedef hipvmm_status (*hipvmm_fill_callback)(void* stream, void* argument);

/** Lets the memory of a tag, created if there is none, be evicted from `device`. Options: priority,
 * of which the lowest is evicted first, storage (pinned_kept, pinned, pageable or file) and folder.
 * `fill` may be null: then evictions copy the contents to the storage. Waits for all work that may
 * use the memory. */
hipvmm_status hipvmm_evictable_create(const char* tag, int device, const char* options,
                                      hipvmm_fill_callback fill, void* argument,
                                      hipvmm_evictable* evictable);
/** Leaves the memory as it is: awake, or asleep until hipvmm_resume. */
hipvmm_status hipvmm_evictable_destroy(hipvmm_evictable evictable);
/** Brings the memory back before it returns; work in `stream`, and calls that need the memory, may
 * use it until hipvmm_evictable_done. `writes`: 0 if the contents stay as they are. After a failure
 * the call may be repeated. */
hipvmm_status hipvmm_evictable_use(hipvmm_evictable evictable, void* stream, int writes);
/** Ends a use: all its work is ordered before this point in `stream`. */
hipvmm_status hipvmm_evictable_done(hipvmm_evictable evictable, void* stream);
/** Brings the memory back ahead of its use. */
hipvmm_status hipvmm_evictable_prefetch(hipvmm_evictable evictable, void* stream);
hipvmm_status hipvmm_evictable_get_statistics(hipvmm_evictable evictable,
                                              hipvmm_evictable_statistics* statistics);
/** Writes the text of the last failure to evict; empty if there was none. */
hipvmm_status hipvmm_evictable_reason(hipvmm_evictable evictable, char* text, size_t capacity,
                                      size_t* length);

/* ---- Budgets between processes ----
 * A limit on the memory that processes of one user hold together on one device: it counts all
 * chunks that this process creates there, of buffers, pools and slot arenas. A request beyond it
 * has other processes trim, and is HIPVMM_ERROR_OUT_OF_MEMORY with HIPVMM_EXHAUSTED_BUDGET if it
 * still does not fit. */

typedef struct hipvmm_budget_handle* hipvmm_budget;

/** Releases memory, because other processes need `bytes` more than this one could release by
 * itself. A thread of the library calls it, one call at a time, and not while this process waits
 * for memory itself. It may lock mutexes of the program only if no thread requests memory with them
 * locked. It may call all but hipvmm_budget_join and the functions of a budget, which are
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
 * HIPVMM_ERROR_INVALID_ARGUMENT for a bad name and if this process has a budget of the device;
 * HIPVMM_ERROR_UNSUPPORTED for a device without usable virtual memory. */
hipvmm_status hipvmm_budget_join(int device, const char* name, const char* options,
                                 hipvmm_trim_callback trim, void* argument, hipvmm_budget* budget);
/** Ends the membership. Waits for a call of `trim` under way; none comes after it. If another
 * thread is in a call for this budget, both hold only when that call has ended. */
hipvmm_status hipvmm_budget_leave(hipvmm_budget budget);
/** Sets the limit for all processes, also later ones. Holders beyond it are asked to trim. */
hipvmm_status hipvmm_budget_set_limit(hipvmm_budget budget, size_t bytes);
/** Has other processes make room ahead of a request. `has_room` gets whether so many bytes fit now;
 * another process may take them first. Waits as long as a request would. */
hipvmm_status hipvmm_budget_make_room(hipvmm_budget budget, size_t bytes, int* has_room);
hipvmm_status hipvmm_budget_get_statistics(hipvmm_budget budget,
                                           hipvmm_budget_statistics* statistics);
/** Writes up to `capacity` holders, those of most bytes first; `count` is how many there are. */
hipvmm_status hipvmm_budget_get_holders(hipvmm_budget budget, hipvmm_budget_holder* holders,
                                        size_t capacity, size_t* count);

/** Counts of requests of this process that lacked memory of a device or room in a budget, and got
 * idle memory of its pools, slot arenas and buffers. */
typedef struct hipvmm_idle_statistics {
  size_t struct_size;
  uint64_t asked;        /**< requests that asked */
  uint64_t refused;      /**< of these: nothing was idle */
  size_t moved_bytes;    /**< of chunks that a request got as they were */
  size_t released_bytes; /**< released to the device */
  uint64_t nanoseconds;  /**< of all requests together */
} hipvmm_idle_statistics;

hipvmm_status hipvmm_idle_get_statistics(hipvmm_idle_statistics* statistics);

/* ---- Memory of graphs ----
 * A resource for hipvmm_allocate and hipvmm_deallocate in streams that are being captured. Keep it
 * as long as its graphs, which never run at once, may be launched. Memory freed in the capture
 * serves it again, in that stream and those ordered after it; memory freed elsewhere serves the
 * next capture. HIPVMM_ERROR_INVALID_STATE for requests of other streams, and of a capture that
 * another one has followed. */

/** Bytes are of rounded requests. */
typedef struct hipvmm_graph_pool_statistics {
  size_t struct_size;
  size_t held_bytes; /**< from the upstream */
  size_t used_bytes; /**< allocated now */
  size_t peak_bytes; /**< most allocated at once in the newest capture */
  uint64_t captures; /**< that have allocated memory */
} hipvmm_graph_pool_statistics;

/** The upstream is a pool, an arena or an adaptor of one. */
hipvmm_status hipvmm_graph_pool_create(hipvmm_resource upstream, hipvmm_resource* graph_pool);
/** Returns all memory to the upstream, allocated blocks too. The upstream reuses it after all
 * present work of the devices. No capture or launch may use it any more. The end of the resource
 * does the same. */
hipvmm_status hipvmm_graph_pool_release(hipvmm_resource graph_pool);
hipvmm_status hipvmm_graph_pool_get_statistics(hipvmm_resource graph_pool,
                                               hipvmm_graph_pool_statistics* statistics);

/* ---- Pressure ----
 * Watermarks of the memory that this process can get of a device: free memory of the device, the
 * room in its budget there, and a limit of its own. docs/guides/out_of_memory.md. */

typedef struct hipvmm_pressure_handle* hipvmm_pressure;

typedef enum hipvmm_pressure_level HIPVMM_C_ENUM {
  HIPVMM_PRESSURE_NONE = 0,
  HIPVMM_PRESSURE_LOW = 1,
  HIPVMM_PRESSURE_HIGH = 2,
  HIPVMM_PRESSURE_CRITICAL = 3
} hipvmm_pressure_level;

typedef enum hipvmm_change HIPVMM_C_ENUM {
  HIPVMM_CHANGE_BY_OTHERS = 0, /**< the process's memory did not change */
  HIPVMM_CHANGE_GROW = 1,
  HIPVMM_CHANGE_TRIM = 2,
  HIPVMM_CHANGE_REFUSED = 3 /**< out of memory */
} hipvmm_change;

typedef enum hipvmm_holder HIPVMM_C_ENUM {
  HIPVMM_HOLDER_CHUNKS = 0, /**< no object has reported it */
  HIPVMM_HOLDER_REGION = 1, /**< also of a slot arena */
  HIPVMM_HOLDER_POOL = 2,
  HIPVMM_HOLDER_BUFFER = 3
} hipvmm_holder;

/** A change of the memory that the process has of a device. */
typedef struct hipvmm_memory_change {
  hipvmm_change kind;
  hipvmm_holder holder;
  uint64_t object; /**< number of the holder in the process; 0 for chunks */
  size_t bytes;
  void* stream;        /**< of the request, or null */
  uint64_t thread;     /**< as gettid() returns */
  int64_t nanoseconds; /**< of a clock that is never set */
} hipvmm_memory_change;

typedef struct hipvmm_pressure_note {
  size_t struct_size;
  hipvmm_pressure_level level;
  hipvmm_pressure_level previous; /**< as the note before said */
  hipvmm_exhausted bound;         /**< DEVICE_MEMORY, BUDGET or LIMIT: of the highest level */
  int device;
  size_t total_bytes;     /**< of that bound */
  size_t free_bytes;      /**< of that bound */
  size_t held_bytes;      /**< chunks that this process has of the device */
  size_t idle_bytes;      /**< of these, the most that a request could get */
  size_t largest_request; /**< that would fit if all idle bytes are released */
  hipvmm_memory_change reason;
} hipvmm_pressure_note;

/** Called with no lock of the library held, perhaps before `*pressure` is written. It may call the
 * library: allocate, free, trim, suspend, subscribe, end its subscription. */
typedef void (*hipvmm_pressure_callback)(const hipvmm_pressure_note* note, void* argument);

/** Reports crossings of a mark, in either direction. Options: low, high, critical, hysteresis,
 * limit, device_memory, interval, delivery (docs/guides/c_api.md). `callback` may be null: then
 * hipvmm_pressure_wait() has the notes. */
hipvmm_status hipvmm_pressure_subscribe(int device, const char* options,
                                        hipvmm_pressure_callback callback, void* argument,
                                        hipvmm_pressure* pressure);
/** Waits for a call of the callback in another thread; none begins after it. */
hipvmm_status hipvmm_pressure_end(hipvmm_pressure pressure);
/** Measures, and writes the present state. */
hipvmm_status hipvmm_pressure_now(hipvmm_pressure pressure, hipvmm_pressure_note* note);
/** Waits for a note that no call has taken; with 0 milliseconds it does not wait. `came` gets
 * whether there was one. Ends early if another thread ends the subscription. */
hipvmm_status hipvmm_pressure_wait(hipvmm_pressure pressure, unsigned milliseconds,
                                   hipvmm_pressure_note* note, int* came);
/** Writes up to `capacity` changes of the device, the newest first, of the last 64 of all devices;
 * `count` is how many there are. */
hipvmm_status hipvmm_pressure_get_reasons(hipvmm_pressure pressure, hipvmm_memory_change* reasons,
                                          size_t capacity, size_t* count);

#ifdef __cplusplus
}
#endif
