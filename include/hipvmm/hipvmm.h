/* SPDX-License-Identifier: MIT */
#pragma once

/* hipvmm for C and its callers from other languages: devices, growable buffers, pools and other
 * memory resources, sharing with other processes; <hipvmm/serving.h> has slots that grow and memory
 * that sleeps. C11; docs/guides/c_api.md begins with an example.
 *
 * - No function throws. Every function that can fail returns a hipvmm_status, except
 *   hipvmm_device_allocate and its like. After a failure hipvmm_last_error() has a message for the
 *   calling thread; results that are returned by pointer are then null or unchanged.
 * - Handles are values of a table, not addresses: any value that is null, destroyed, of another
 *   type or not hipvmm's is HIPVMM_ERROR_INVALID_HANDLE.
 * - Any thread may call any function. Calls for one buffer, slot arena, publication or attachment
 *   wait for each other; a destroyed object ends with the last call under way for it. A
 *   callback that uses its own object gets HIPVMM_ERROR_INVALID_ARGUMENT, except
 *   hipvmm_slot_arena_set_eviction's. A call runs error handlers after it has released its objects.
 * - A child of fork() may destroy the parent's handles, without effect on the parent. Every other
 *   call for them is HIPVMM_ERROR_UNSUPPORTED there.
 * - Streams are hipStream_t (or cudaStream_t) as void*; null is the legacy default stream, of the
 *   device of the object that it is used with.
 * - Sizes are bytes. `options` are "name=value,name=value", or null for none; a wrong name or value
 *   is HIPVMM_ERROR_INVALID_ARGUMENT, and the message offers the allowed ones.
 * - Texts are copied to `text`, which has room for `capacity` bytes, zero-terminated. `*length` is
 *   the length of the text without the zero; `length` may be null. HIPVMM_ERROR_TOO_SMALL if there
 *   is too little room: then only `*length` is written. To get only the length, pass a null `text`
 *   and a capacity of 0, which is no error.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Grows by one with every release that adds to it. Names stay and keep their meaning. */
#define HIPVMM_C_VERSION 1

/* A fixed type lets C++ pass wrong values too, so that they are errors of the call. */
#ifdef __cplusplus
#define HIPVMM_C_ENUM : unsigned
#else
#define HIPVMM_C_ENUM
#endif

typedef enum hipvmm_status HIPVMM_C_ENUM {
  HIPVMM_OK = 0,
  HIPVMM_ERROR_INVALID_ARGUMENT = 1, /**< a value, a name of an option, a null pointer */
  HIPVMM_ERROR_INVALID_HANDLE = 2,   /**< null, stale, of another type, or none of hipvmm's */
  HIPVMM_ERROR_OUT_OF_MEMORY = 3,    /**< hipvmm_last_failure has the cause */
  HIPVMM_ERROR_UNSUPPORTED = 4,      /**< the device, the runtime or this build never does that */
  HIPVMM_ERROR_OUT_OF_RANGE = 5,     /**< beyond the size or the greatest size of an object */
  HIPVMM_ERROR_HIP = 6,              /**< a call of HIP failed; hipvmm_last_failure has its code */
  HIPVMM_ERROR_IPC = 7,              /**< the other process, or the way to it */
  HIPVMM_ERROR_SYSTEM = 8,        /**< the operating system, such as a file that can't be opened */
  HIPVMM_ERROR_TOO_SMALL = 9,     /**< a text does not fit in the room for it */
  HIPVMM_ERROR_INTERNAL = 10,     /**< anything else: please report it */
  HIPVMM_ERROR_INVALID_STATE = 11 /**< not in this state of the object, as while it sleeps */
} hipvmm_status;

typedef enum hipvmm_exhausted HIPVMM_C_ENUM {
  HIPVMM_EXHAUSTED_NOTHING = 0,
  HIPVMM_EXHAUSTED_DEVICE_MEMORY = 1,
  HIPVMM_EXHAUSTED_ADDRESSES = 2,
  HIPVMM_EXHAUSTED_DESCRIPTORS = 3,
  HIPVMM_EXHAUSTED_HOST_MEMORY = 4,
  HIPVMM_EXHAUSTED_LIMIT = 5,         /**< a limit of the program's, such as a limiting adaptor */
  HIPVMM_EXHAUSTED_BUDGET = 6,        /**< a budget that processes share */
  HIPVMM_EXHAUSTED_FRAGMENTATION = 7, /**< enough is free, but not in one piece */
  HIPVMM_EXHAUSTED_ALIGNMENT = 8      /**< no address of the resource has the alignment */
} hipvmm_exhausted;

/** The details of a failure. Set `struct_size` of a struct to its sizeof before the call: no more
 * bytes are written, so that programs compiled with an earlier header go on. */
typedef struct hipvmm_failure {
  size_t struct_size;
  hipvmm_status status;
  hipvmm_exhausted exhausted;
  int hip_code;           /**< hipError_t of HIPVMM_ERROR_HIP, else 0 */
  int device;             /**< the one out of memory; -1: none */
  size_t bytes_requested; /**< 0 if unknown */
  size_t bytes_free;
} hipvmm_failure;

typedef struct hipvmm_buffer_handle* hipvmm_buffer;
typedef struct hipvmm_resource_handle* hipvmm_resource;
typedef struct hipvmm_stream_handle* hipvmm_stream;
typedef struct hipvmm_event_handle* hipvmm_event;
typedef struct hipvmm_publication_handle* hipvmm_publication;
typedef struct hipvmm_attachment_handle* hipvmm_attachment;

typedef enum hipvmm_right HIPVMM_C_ENUM {
  HIPVMM_RIGHT_NONE = 0,
  HIPVMM_RIGHT_READ = 1,
  HIPVMM_RIGHT_READ_WRITE = 2
} hipvmm_right;

/** One entry of an access list. A device that the list does not name gets the default: the memory's
 * owner reads and writes, any other device has no right. */
typedef struct hipvmm_access {
  int device;
  hipvmm_right right;
} hipvmm_access;

/* ---- The library ---- */

/** HIPVMM_C_VERSION of the library that is loaded. */
int hipvmm_version(void);
/** The release, such as "0.3.0", or of a development version "0.3.0-dev". */
const char* hipvmm_version_text(void);
/** HIPVMM_OK as "ok", HIPVMM_ERROR_OUT_OF_MEMORY as "out_of_memory" and so on. */
const char* hipvmm_status_name(hipvmm_status status);
/** The message of this thread's last failure; "" before the first. Valid until the next failure of
 * this thread, or its end. Failures in exit handlers have one, too. */
const char* hipvmm_last_error(void);
hipvmm_status hipvmm_last_failure(hipvmm_failure* failure);
/** Handles that were not destroyed yet, of all types: to find leaks. */
hipvmm_status hipvmm_live_handles(size_t* count);

/** Receives failures that no call can return, and warnings. Any thread may call it. */
typedef void (*hipvmm_error_handler)(const char* call, int hip_code, const char* message);
/** Null restores the default, which writes a line to standard error. */
hipvmm_status hipvmm_set_error_handler(hipvmm_error_handler handler);

/** The least level of the debug log: trace, debug, info, warn, error, critical or off. */
hipvmm_status hipvmm_set_logging_level(const char* level);
hipvmm_status hipvmm_logging_level(const char** level);
hipvmm_status hipvmm_log(const char* level, const char* line);
hipvmm_status hipvmm_flush_log(void);

/* ---- Devices, by HIP's ordinals ---- */

/** The provider of HIP: "amd", "cuda", or "host" without a GPU. */
hipvmm_status hipvmm_provider(const char** name);
/** Zero when there is none. */
hipvmm_status hipvmm_device_count(int* count);
/** The current device of the calling thread, as hipGetDevice() and hipSetDevice() have it. */
hipvmm_status hipvmm_device_current(int* device);
hipvmm_status hipvmm_device_make_current(int device);
hipvmm_status hipvmm_device_name(int device, char* text, size_t capacity, size_t* length);
hipvmm_status hipvmm_device_uuid(int device, char* text, size_t capacity, size_t* length);
hipvmm_status hipvmm_device_memory(int device, size_t* free_bytes, size_t* total_bytes);
hipvmm_status hipvmm_device_can_access_peer(int device, int peer, int* can);
/** Gets whether host code may use mapped memory of the device through its address. */
hipvmm_status hipvmm_device_is_host_accessible(int device, int* accessible);
/** The known properties of the device's virtual memory, in lines for people. */
hipvmm_status hipvmm_device_capability(int device, char* text, size_t capacity, size_t* length);
hipvmm_status hipvmm_device_synchronize(int device);

/* ---- Streams and copies; a null stream is that of the current device here ---- */

/** Makes a stream that does not wait for the default stream. */
hipvmm_status hipvmm_stream_create(int device, hipvmm_stream* stream);
hipvmm_status hipvmm_stream_destroy(hipvmm_stream stream);
/** The hipStream_t. */
hipvmm_status hipvmm_stream_get(hipvmm_stream stream, void** value);
hipvmm_status hipvmm_synchronize(void* stream);
/** The calling thread's default stream, as hipStreamPerThread. */
hipvmm_status hipvmm_per_thread_stream(void** stream);

/** Makes an event, a point in the order of a stream of the device. It keeps no time. */
hipvmm_status hipvmm_event_create(int device, hipvmm_event* event);
hipvmm_status hipvmm_event_destroy(hipvmm_event event);
/** The hipEvent_t. hipEventRecord() hides an order from pools: call hipvmm_event_record(). */
hipvmm_status hipvmm_event_get(hipvmm_event event, void** value);
/** The event is done when all work now in `stream`, of the event's device, has finished. Replaces
 * an earlier record. */
hipvmm_status hipvmm_event_record(hipvmm_event event, void* stream);
/** Gets 1 if the last record is done, or there is none, else 0. */
hipvmm_status hipvmm_event_is_done(hipvmm_event event, int* done);
hipvmm_status hipvmm_event_synchronize(hipvmm_event event);
/** Later work of `stream`, of any device, waits for the last record; the host does not. */
hipvmm_status hipvmm_stream_wait(void* stream, hipvmm_event event);

/** Copies between host and device memory, in either direction or within one, in the order of
 * `stream`. When the call returns, pageable memory of the host has been read or written. */
hipvmm_status hipvmm_copy_async(void* destination, const void* source, size_t bytes, void* stream);
/** Copies and waits for `stream`. */
hipvmm_status hipvmm_copy(void* destination, const void* source, size_t bytes, void* stream);
/** Sets device memory to `value`, 0 to 255. */
hipvmm_status hipvmm_fill_async(void* destination, int value, size_t bytes, void* stream);
/** Waits until memory that was released while work used it is back at its device. */
hipvmm_status hipvmm_drain_retired_memory(void);

/* ---- Growable buffers ---- */

typedef struct hipvmm_buffer_statistics {
  size_t struct_size;
  size_t growth_steps; /**< times memory was added */
  size_t base_moves;   /**< times the address changed */
  size_t chunks;       /**< mapped now */
  size_t peak_bytes;   /**< most bytes held at one time */
  size_t ahead_bytes;  /**< ready beyond those backed */
  size_t ahead_hits;
  size_t ahead_misses;
  size_t copied_bytes; /**< by growth, without virtual memory */
} hipvmm_buffer_statistics;

/** The treatment by hipvmm_buffer_shrink of a last chunk that is used in part. REPLACE: a smaller
 * chunk takes its place, and the call waits for `stream`. */
typedef enum hipvmm_tail HIPVMM_C_ENUM {
  HIPVMM_TAIL_KEEP = 0,
  HIPVMM_TAIL_REPLACE = 1
} hipvmm_tail;

/** Makes an empty buffer, which grows in place. Reserves addresses and backs none of them.
 * Options: max, past_max, step_limit, granule, ahead, ahead_watermark, ahead_budget, shareable,
 * access, when_empty, stripes, stripe_bytes, spill, memory, sleep_tag, without_vmm
 * (docs/guides/c_api.md). */
hipvmm_status hipvmm_buffer_create(int device, const char* options, hipvmm_buffer* buffer);
/** Makes a buffer in one allocation of `resource`, which growth replaces by another: for small
 * buffers. The buffer keeps the resource alive. */
hipvmm_status hipvmm_buffer_create_on(hipvmm_resource resource, const char* options,
                                      hipvmm_buffer* buffer);
/** Does not wait: the memory is released when work under way has passed. */
hipvmm_status hipvmm_buffer_destroy(hipvmm_buffer buffer);
hipvmm_status hipvmm_buffer_size(hipvmm_buffer buffer, size_t* bytes);
/** Bytes backed with memory. */
hipvmm_status hipvmm_buffer_capacity(hipvmm_buffer buffer, size_t* bytes);
/** Bytes of reserved addresses. */
hipvmm_status hipvmm_buffer_max_size(hipvmm_buffer buffer, size_t* bytes);
/** The first byte on the device. Growth within the greatest size does not change it. */
hipvmm_status hipvmm_buffer_data(hipvmm_buffer buffer, void** data);
hipvmm_status hipvmm_buffer_device(hipvmm_buffer buffer, int* device);
hipvmm_status hipvmm_buffer_is_address_stable(hipvmm_buffer buffer, int* stable);
/** Backs at least `bytes` bytes. */
hipvmm_status hipvmm_buffer_reserve(hipvmm_buffer buffer, size_t bytes);
/** Changes the size; new bytes are zero, in the order of `stream`. */
hipvmm_status hipvmm_buffer_resize(hipvmm_buffer buffer, size_t bytes, void* stream);
hipvmm_status hipvmm_buffer_resize_uninitialized(hipvmm_buffer buffer, size_t bytes);
/** Appends bytes of the host. Pinned memory must not change until `stream` has passed the copy. */
hipvmm_status hipvmm_buffer_append(hipvmm_buffer buffer, const void* source, size_t bytes,
                                   void* stream);
/** Appends bytes of device memory, which may be the buffer's own. */
hipvmm_status hipvmm_buffer_append_from_device(hipvmm_buffer buffer, const void* source,
                                               size_t bytes, void* stream);
/** Removes bytes at the front: the address of the first byte changes, and nothing is copied. The
 * memory in front of it is released when `stream` has passed this point: order work that uses it
 * before the call in `stream`. */
hipvmm_status hipvmm_buffer_erase_front(hipvmm_buffer buffer, size_t bytes, void* stream);
/** Inserts bytes of the host or a device, also of the buffer itself, in front of `offset`. */
hipvmm_status hipvmm_buffer_insert(hipvmm_buffer buffer, size_t offset, const void* source,
                                   size_t bytes, void* stream);
/** Removes bytes from `offset` on: later bytes move to the front, and no memory is released. */
hipvmm_status hipvmm_buffer_erase(hipvmm_buffer buffer, size_t offset, size_t bytes, void* stream);
/** Releases memory behind the last byte when `stream` has passed; `released` may be null. */
hipvmm_status hipvmm_buffer_shrink(hipvmm_buffer buffer, hipvmm_tail tail, void* stream,
                                   size_t* released);
/** Copies bytes from `offset` on to the host, and waits for `stream`. */
hipvmm_status hipvmm_buffer_read(hipvmm_buffer buffer, size_t offset, void* destination,
                                 size_t bytes, void* stream);
/** Overwrites bytes from `offset` on. Pinned memory is read in the order of `stream`. */
hipvmm_status hipvmm_buffer_write(hipvmm_buffer buffer, size_t offset, const void* source,
                                  size_t bytes, void* stream);
hipvmm_status hipvmm_buffer_get_statistics(hipvmm_buffer buffer,
                                           hipvmm_buffer_statistics* statistics);
/** How the memory is used and why, in lines for people. */
hipvmm_status hipvmm_buffer_explain(hipvmm_buffer buffer, char* text, size_t capacity,
                                    size_t* length);
hipvmm_status hipvmm_buffer_grant(hipvmm_buffer buffer, int device, hipvmm_right right);
/** Replaces the rights of all devices at once. */
hipvmm_status hipvmm_buffer_set_access(hipvmm_buffer buffer, const hipvmm_access* access,
                                       size_t count);
hipvmm_status hipvmm_buffer_access(hipvmm_buffer buffer, int device, hipvmm_right* right);

/* ---- Sharing with other processes ---- */

/** Publishes a buffer made with "shareable=posix_fd" at a path; the publication may outlive the
 * buffer. Options: patience (milliseconds), max_importers, users (uids, "1000+1001"); element_size,
 * element_align and tag of elements, as importers name them, such as 4, 4 and 0 for floats. */
hipvmm_status hipvmm_buffer_publish(hipvmm_buffer buffer, const char* path, const char* options,
                                    hipvmm_publication* publication);
/** Publishes at `path` the memory that another process published at `from`, so that it outlives
 * that process. Options: the first three of these. */
hipvmm_status hipvmm_publication_keep(const char* from, const char* path, const char* options,
                                      hipvmm_publication* publication);
hipvmm_status hipvmm_publication_destroy(hipvmm_publication publication);
/** Lets other processes read all present bytes of the buffer after the present work of `stream`. */
hipvmm_status hipvmm_publication_announce(hipvmm_publication publication, hipvmm_buffer buffer,
                                          void* stream);
hipvmm_status hipvmm_publication_importers(hipvmm_publication publication, size_t* count);

/** Attaches to another process's publication. Options: right, peers (as `access`), device,
 * other_devices, users, timeout (milliseconds); element_size, element_align and tag of elements. */
hipvmm_status hipvmm_attach(const char* path, const char* options, hipvmm_attachment* attachment);
/** Unmaps the memory, which no work in flight may use. */
hipvmm_status hipvmm_attachment_destroy(hipvmm_attachment attachment);
/** Maps new chunks. `bytes`, which may be null, gets the number of bytes that may now be read. */
hipvmm_status hipvmm_attachment_refresh(hipvmm_attachment attachment, void* stream, size_t* bytes);
/** Refreshes until that many bytes may be read. `*reached` is 0 at the timeout, when the owner has
 * gone, and after a failure. */
hipvmm_status hipvmm_attachment_wait(hipvmm_attachment attachment, size_t bytes,
                                     unsigned milliseconds, void* stream, int* reached);
hipvmm_status hipvmm_attachment_data(hipvmm_attachment attachment, void** data);
hipvmm_status hipvmm_attachment_size(hipvmm_attachment attachment, size_t* bytes);
hipvmm_status hipvmm_attachment_device(hipvmm_attachment attachment, int* device);
hipvmm_status hipvmm_attachment_is_open(hipvmm_attachment attachment, int* open);

/* ---- Memory resources ----
 * An adaptor keeps its upstream alive: the upstream's handle may be destroyed first. */

/** hipMalloc and hipFree. */
hipvmm_status hipvmm_hip_create(int device, hipvmm_resource* resource);
/** hipMallocManaged. */
hipvmm_status hipvmm_managed_create(hipvmm_resource* resource);
/** hipHostMalloc. Options: portable, mapped, write_combined. */
hipvmm_status hipvmm_pinned_create(const char* options, hipvmm_resource* resource);
/** Ordinary memory of the host, for devices that reach all of it. */
hipvmm_status hipvmm_system_create(int device, hipvmm_resource* resource);
/** The same, but `headroom` bytes of the device's memory stay free for others. */
hipvmm_status hipvmm_sam_headroom_create(int device, size_t headroom, hipvmm_resource* resource);
/** A view of a hipMemPool_t of that device, which others own and which must outlive it. */
hipvmm_status hipvmm_async_view_create(int device, void* pool, hipvmm_resource* resource);
/** A pool of HIP's own (hipMallocFromPoolAsync). Options: initial, release_threshold, the reuse_*
 * of pools, shareable. */
hipvmm_status hipvmm_async_create(int device, const char* options, hipvmm_resource* resource);
/** hipvmm's pool. Options: initial, maximum, release_threshold, floor, priority, largest_chunk,
 * forgets_streams, reuse_event_dependencies, reuse_opportunistic, reuse_internal_dependencies,
 * shareable, memory, access, sleep_tag, without_vmm. */
hipvmm_status hipvmm_pool_create(int device, const char* options, hipvmm_resource* resource);
/** A pool in memory of another resource. Options: initial, maximum, dump_log_on_failure. */
hipvmm_status hipvmm_arena_create(hipvmm_resource upstream, const char* options,
                                  hipvmm_resource* resource);
/** Equal blocks. Options: block_size, blocks. */
hipvmm_status hipvmm_fixed_size_create(hipvmm_resource upstream, const char* options,
                                       hipvmm_resource* resource);
/** Serves requests by size from other resources. Options: min_exponent and max_exponent, both or
 * none: bins of 2^min to 2^max bytes. */
hipvmm_status hipvmm_binning_create(hipvmm_resource upstream, const char* options,
                                    hipvmm_resource* resource);
/** Adds a bin of equal blocks for requests of up to `bytes`. */
hipvmm_status hipvmm_binning_add_bin(hipvmm_resource binning, size_t bytes);
/** Adds a bin with memory of `bin`, which must not allocate from `binning` itself. */
hipvmm_status hipvmm_binning_add_bin_resource(hipvmm_resource binning, size_t bytes,
                                              hipvmm_resource bin);
/** Writes a CSV row for each call. Options: auto_flush. A null `filename` means the value of
 * HIPVMM_LOG_FILE or RMM_LOG_FILE. */
hipvmm_status hipvmm_logging_create(hipvmm_resource upstream, const char* filename,
                                    const char* options, hipvmm_resource* resource);
hipvmm_status hipvmm_logging_flush(hipvmm_resource logging);
/** Counts bytes and allocations: hipvmm_statistics_counters. */
hipvmm_status hipvmm_statistics_create(hipvmm_resource upstream, hipvmm_resource* resource);
/** Keeps a list of the allocations. Options: stacks. */
hipvmm_status hipvmm_tracking_create(hipvmm_resource upstream, const char* options,
                                     hipvmm_resource* resource);
/** Refuses requests that would exceed `limit` bytes in all. Options: alignment. */
hipvmm_status hipvmm_limiting_create(hipvmm_resource upstream, size_t limit, const char* options,
                                     hipvmm_resource* resource);
/** Called when the upstream has no memory. Returns 1 to try again, or 0. */
typedef int (*hipvmm_failure_callback)(size_t bytes, void* argument);
hipvmm_status hipvmm_failure_callback_create(hipvmm_resource upstream,
                                             hipvmm_failure_callback callback, void* argument,
                                             hipvmm_resource* resource);
/** Prefetches each allocation to its device: for managed memory. */
hipvmm_status hipvmm_prefetch_create(hipvmm_resource upstream, hipvmm_resource* resource);
/** Allocates for work submitted to `stream` afterwards; null when there is no memory. */
typedef void* (*hipvmm_allocate_callback)(size_t bytes, void* stream, void* argument);
typedef void (*hipvmm_deallocate_callback)(void* pointer, size_t bytes, void* stream,
                                           void* argument);
hipvmm_status hipvmm_callback_create(hipvmm_allocate_callback allocate,
                                     hipvmm_deallocate_callback deallocate, void* argument,
                                     hipvmm_resource* resource);

/** The resource itself ends with the last buffer, adaptor or device that uses it. Memory that is
 * still allocated from a pool is then released. */
hipvmm_status hipvmm_resource_destroy(hipvmm_resource resource);
/** "pool", "hip", "statistics" and so on, as in the names of the functions that make them. */
hipvmm_status hipvmm_resource_kind(hipvmm_resource resource, const char** kind);
/** -1 if the memory belongs to no device. */
hipvmm_status hipvmm_resource_device(hipvmm_resource resource, int* device);
hipvmm_status hipvmm_resource_is_host_accessible(hipvmm_resource resource, int* accessible);
/** Gets whether memory of one may be deallocated by the other. */
hipvmm_status hipvmm_resource_is_equal(hipvmm_resource resource, hipvmm_resource other, int* equal);
/** A new handle of an adaptor's upstream. HIPVMM_ERROR_INVALID_HANDLE without an upstream. */
hipvmm_status hipvmm_resource_upstream(hipvmm_resource resource, hipvmm_resource* upstream);
/** Allocates for work submitted to `stream` afterwards. An `alignment` of 0 is the default, 256. */
hipvmm_status hipvmm_allocate(hipvmm_resource resource, size_t bytes, size_t alignment,
                              void* stream, void** pointer);
/** Deallocates, with the `bytes` and `alignment` of the allocation, behind the work that is in
 * `stream`. Failures of HIP go to the error handler. */
hipvmm_status hipvmm_deallocate(hipvmm_resource resource, void* pointer, size_t bytes,
                                size_t alignment, void* stream);
/** Allocates for any stream and the host, at once. */
hipvmm_status hipvmm_allocate_sync(hipvmm_resource resource, size_t bytes, size_t alignment,
                                   void** pointer);
/** Deallocates without a stream, as safe as hipFree. */
hipvmm_status hipvmm_deallocate_sync(hipvmm_resource resource, void* pointer, size_t bytes,
                                     size_t alignment);

/** A new handle of the resource in use for `device`. */
hipvmm_status hipvmm_get_device_resource(int device, hipvmm_resource* resource);
/** Sets the resource for `device`, and keeps it alive until another is set. */
hipvmm_status hipvmm_set_device_resource(int device, hipvmm_resource resource);
/** Restores the initial resource, hipMalloc. */
hipvmm_status hipvmm_reset_device_resource(int device);
/** As above, for the current device of the calling thread. */
hipvmm_status hipvmm_get_current_device_resource(hipvmm_resource* resource);
hipvmm_status hipvmm_set_current_device_resource(hipvmm_resource resource);
hipvmm_status hipvmm_reset_current_device_resource(void);

/* ---- For libraries that free by pointer alone ----
 * The memory comes from the resource set for the device, otherwise from the device's pool. A
 * resource that C++ code has set must outlive its allocations. The first two functions fit CuPy's
 * CFunctionAllocator, with the stream as its argument. */

/** Allocates on `device` for work submitted to `stream` afterwards. Null for 0 bytes; else null is
 * a failure, and hipvmm_last_error() says why. */
void* hipvmm_device_allocate(void* stream, size_t bytes, int device);
/** Deallocates behind the work that is in `stream`; null is allowed, `device` is ignored. The
 * call ignores `stream` and is as safe as hipFree if `stream` is another thread's per-thread
 * default stream, or is the allocation's and was forgotten. Failures go to the error handler. */
void hipvmm_device_deallocate(void* stream, void* pointer, int device);
/** As hipvmm_allocate_sync() and hipvmm_deallocate_sync(). */
void* hipvmm_device_allocate_sync(size_t bytes, int device);
void hipvmm_device_deallocate_sync(void* pointer);
/** Declares that `stream` will be destroyed, to every pool, arena and fixed_size resource of the C
 * interface from which hipvmm_device_allocate() has allocated. */
hipvmm_status hipvmm_device_forget_stream(void* stream);
/** The pool of a device, made by the first call that needs it, with the options that HIPVMM_CONF
 * has for pools. Devices that reach it have access unless HIPVMM_CONF says otherwise. It does not
 * delay a stream for memory that another one freed. It ends with the process, or with the last of
 * its blocks if that is later. */
hipvmm_status hipvmm_device_pool(int device, hipvmm_resource* pool);

/* ---- Pools; arenas too if the comment says so ---- */

typedef struct hipvmm_pool_statistics {
  size_t struct_size;
  size_t reserved_current; /**< physical memory held */
  size_t reserved_high;
  size_t used_current; /**< allocated by callers */
  size_t used_high;
  size_t address_bytes;
  size_t mapped_bytes;
  size_t largest_now;      /**< largest request that free memory serves */
  size_t largest_moved;    /**< the same by moves of idle chunks, before new memory */
  size_t largest_possible; /**< the same with what the device still has */
  uint64_t chunks_created;
  uint64_t chunks_moved;
  uint64_t callbacks;
} hipvmm_pool_statistics;

/** Deallocates by address alone, behind the work in the stream of the allocation. The pool reuses
 * the memory after all current work of the devices, as hipFree does, if hipvmm_allocate_sync()
 * allocated it; if its stream was forgotten or is another thread's default stream; and on CUDA,
 * without the option forgets_streams, if its stream is neither hipvmm's nor a default stream. */
hipvmm_status hipvmm_pool_deallocate(hipvmm_resource pool, void* pointer);
/** Releases idle memory until `bytes_to_keep` are held; waits up to `milliseconds` for work that
 * uses free memory. `released` may be null. Arenas and fixed_size too. */
hipvmm_status hipvmm_pool_trim(hipvmm_resource pool, size_t bytes_to_keep, unsigned milliseconds,
                               size_t* released);
/** Arenas too. */
hipvmm_status hipvmm_pool_get_statistics(hipvmm_resource pool, hipvmm_pool_statistics* statistics);
hipvmm_status hipvmm_pool_reset_peaks(hipvmm_resource pool);
/** The memory held, its place, and the requests that would still fit, for people. Arenas too. */
hipvmm_status hipvmm_pool_report(hipvmm_resource pool, char* text, size_t capacity, size_t* length);
hipvmm_status hipvmm_pool_explain(hipvmm_resource pool, char* text, size_t capacity,
                                  size_t* length);
hipvmm_status hipvmm_pool_release_threshold(hipvmm_resource pool, size_t* bytes);
hipvmm_status hipvmm_pool_set_release_threshold(hipvmm_resource pool, size_t bytes);
hipvmm_status hipvmm_pool_grant(hipvmm_resource pool, int device, hipvmm_right right);
hipvmm_status hipvmm_pool_set_access(hipvmm_resource pool, const hipvmm_access* access,
                                     size_t count);
hipvmm_status hipvmm_pool_access(hipvmm_resource pool, int device, hipvmm_right* right);
/** Declares that `waiter` waits for an event recorded on `other` after every call for the pool made
 * so far on `other`. Arenas and fixed_size too. */
hipvmm_status hipvmm_pool_note_stream_wait(hipvmm_resource pool, void* waiter, void* other);
/** Declares that `stream` will be destroyed. Arenas and fixed_size too. */
hipvmm_status hipvmm_pool_forget_stream(hipvmm_resource pool, void* stream);

/* ---- Records of adaptors ---- */

typedef struct hipvmm_counters {
  size_t struct_size;
  int64_t current_bytes, peak_bytes, total_bytes;
  int64_t current_count, peak_count, total_count; /**< allocations */
} hipvmm_counters;

hipvmm_status hipvmm_statistics_counters(hipvmm_resource statistics, hipvmm_counters* counters);
/** Begins a level with zero counters; gets those of the enclosing one. */
hipvmm_status hipvmm_statistics_push(hipvmm_resource statistics, hipvmm_counters* counters);
/** Ends the level and gets its counters. HIPVMM_ERROR_OUT_OF_RANGE when no level was begun. */
hipvmm_status hipvmm_statistics_pop(hipvmm_resource statistics, hipvmm_counters* counters);
hipvmm_status hipvmm_tracking_allocated(hipvmm_resource tracking, size_t* bytes);
/** A line for each block that is allocated, with its stack if that was asked for. */
hipvmm_status hipvmm_tracking_outstanding(hipvmm_resource tracking, char* text, size_t capacity,
                                          size_t* length);
hipvmm_status hipvmm_limiting_allocated(hipvmm_resource limiting, size_t* bytes);
hipvmm_status hipvmm_fixed_size_block(hipvmm_resource fixed_size, size_t* bytes);

#ifdef __cplusplus
}
#endif
