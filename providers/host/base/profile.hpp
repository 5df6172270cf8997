// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace hipvmm::host_provider {

enum class virtual_memory { offered, absent };
enum class alignment_rule { honoured, ignored };
enum class failed_map { returned, reported_as_success };
enum class mapped_part { beginning_of_chunk, whole_chunk };
/// The part of a range that hipMemUnmap checks.
enum class unmap_rule {
  whole_mappings,  ///< all of it
  first_counts,    ///< its start; other mappings covered whole go, but their addresses stay in use
  mapped_ones,     ///< the mappings in it, which must be whole; the rest may be holes
};
enum class free_of_mapped { invalid_value, unknown_error, forgotten };
enum class free_size { checked, ignored };
enum class access_range {
  whole_mappings,
  any_end,  ///< the last mapping may be named in part, and changes whole
  /// Whole ones, and the range must be as long as the first mappings of the reservation together:
  /// by address here. clr 7.0 to 7.2 count them by the heap addresses of its own objects.
  sums_from_first
};
enum class access_order { all_or_none, one_by_one };
/// A copy, a fill or an unmap of whole mappings from one reservation into the next.
enum class border_crossing { carried_out, refused };
/// The device that copies between memory of two devices, at least one side of which is mapped.
enum class copy_engine {
  of_stream,
  of_stream_opening,  ///< the same; the first such copy opens a mapping to all devices
  /// That of hipMalloc memory; between mappings the source's, or the target's in a stream of the
  /// source's device. Pinned and managed memory belongs to the device current when it was made.
  of_other_side
};
/// Links that a copy between two devices needs if some devices are linked: the process ends if one
/// is missing. If no devices are linked, the copy goes through the host.
enum class copy_links {
  none,
  of_owners,  ///< with each other, but in a stream of either none
  of_all,     ///< with each other, and of the stream's device with both
  of_stream   ///< of the stream's device with both
};
/// The effect of a grant to a device, if the mapping's owner has its right from an earlier call, or
/// an earlier entry, and no later entry names the owner.
enum class late_grant { harmless, corrupts_mapping };
/// The members of a location that are checked.
enum class entry_check { type_and_id, id_only };
enum class attribute_answers { of_host, of_amd_5, of_amd_6 };  // hipDeviceGetAttribute
enum class pointer_export { of_pools, of_hip_malloc_too };
enum class context_pointer { not_supported, of_hip_malloc };
enum class coherency_range { any_allocation, managed_only };
/// The memory that host code may touch: all that a device may, or only memory granted to the host.
enum class host_touch { as_devices, if_granted };
enum class chunk_descriptor { of_shareable, of_each };
enum class host_place { refused, any_memory, host_memory_only };
enum class bad_pointer { refused, followed, accepted };
enum class retained { one_more_reference, same_reference };
enum class memory_return { at_last_unmap, at_address_free };
enum class waiting { none, null_stream, all_streams };
enum class import_form { pointer_or_value, pointer, value };
enum class descriptor_zero { refused, taken };
enum class imported_device { exporter, current, first };
enum class extra_type { refused, taken };
enum class null_free { refused, ignored };
enum class trim_measure { reserved_bytes, idle_bytes };
enum class threshold_rule { kept, ignored_when_mostly_idle };
enum class size_limit { kept, kept_by_high_mark, unknown };
enum class pool_export { new_descriptor, same_descriptor };
enum class pool_revoke { enforced, noted, refused };
enum class own_read_only { refused, noted };
/// The effect of a reset of the highest number of reserved or used bytes.
enum class high_mark {
  zero,
  as_in_use,
  zero_of_used,  ///< that of reserved bytes is not reset
};
/// The bits of a number that switch a way of reuse on.
enum class reuse_value { any_bit, lowest_bit };
enum class reported_flags { as_given, always_mapped };
enum class chunk_range { mapping, reservation };
enum class inside_allocation { refused, taken };
/// A fill of more elements than there are bytes.
enum class fill_size { checked, wraps };
/// Copies compare their kind with both addresses, or only between host memory alone.
enum class kind_check { of_all, of_host_memory };
/// Copies that refuse a kind that is no enumerator.
enum class unknown_kind {
  refused,            ///< those of bytes
  refused_in_stream,  ///< those of bytes, and hipMemcpyAsync of none
  taken,              ///< as if it were another one than hipMemcpyHostToHost and hipMemcpyDefault
};
enum class peer_devices { compared, any };
/// The device whose memory hipMemCreate takes.
enum class creation_device { named, current };
/// The effect of an attempt of another stream or thread to end a capture.
enum class foreign_end { refused, costs_capture };
/// The captures that a refused call costs.
enum class refusal_cost {
  every_capture,  ///< that refuses it
  first_kind,     ///< the same, but those of other threads only if no capture of this one refuses
  nothing
};
/// A lost capture until its end.
enum class lost_capture { is_over, refuses };
/// Calls beside a capture that are no part of it.
enum class beside_capture { refused, taken };
/// The captures that refuse a call, by their mode and by that of the calling thread.
enum class capture_check {
  by_mode,       ///< of this thread but relaxed ones; global ones of others for a global thread
  global_too,    ///< the same, but global ones of others for a thread-local thread too
  global_first,  ///< as by_mode; if global ones refuse, others are not lost
  any_thread,    ///< in any mode of the thread: its captures but relaxed ones, and global ones
  own,           ///< of this thread but relaxed ones, for a thread that is not relaxed
  global,        ///< global ones
  all,
  none
};
/// hipMallocAsync, hipMallocFromPoolAsync and hipFreeAsync in a stream that is not captured: the
/// first two refused by mode; or the first and the last while a blocking stream of the device is
/// captured, at no cost (the null stream crashes); or none.
enum class pool_check { allocation_by_mode, beside_blocking_stream, none };
/// Captures that forbid to wait for a device.
enum class device_wait { no_capture, own_captures, any_capture };
/// A stream whose hipStreamDestroy has begun, in waits for its device.
enum class ending_stream { counted, overlooked };
enum class reuse_limit { an_eighth, none_in_own_stream };
enum class internal_dependencies { used, ignored };
/// Streams that get an idle block of a pool without a wait.
enum class block_owner { freeing_stream, allocating_stream_too };
/// The result of hipFreeAsync on a block that was lent before its earlier free had passed.
enum class repeated_free { returns, waits_for_earlier };
enum class last_error_rule { keeps_failure, is_of_last_call };
enum class imported_pool { of_exporter, of_its_device };
/// The result of calls with an event that was destroyed.
enum class dead_event {
  refused,
  followed,
  ignored_by_waits,  ///< followed, but by hipStreamWaitEvent, which succeeds
};
enum class peer_fill { as_peers_may, any_owner };
/// The device whose rights to mapped memory a copy from or to pageable memory needs.
enum class host_copy { by_stream, by_owner };
/// The stream of a copy of one device's memory that is submitted to a stream of another device:
/// that stream, or the null stream of the memory's device, after and before work of that stream.
enum class foreign_copy { in_stream, in_null_stream_of_owner };
/// hipStreamWaitValue and hipStreamWriteValue: `checked` checks captures, flags of writes and
/// alignment; as_amd does the call at once in a captured stream and checks neither flags nor
/// alignment; as_cuda compares with wraparound.
enum class value_calls { checked, as_amd, as_cuda };
/// The bytes that hipPointerGetAttribute writes for the size of a range.
enum class reported_size { eight_bytes, four_bytes };
enum class second_registration { refused, taken };
enum class peer_rank { link_type, order };
/// The answer of hipExtGetLinkTypeAndHopCount, which is AMD's own.
enum class link_report { type_and_hops, none };
enum class self_peer { device_checked, always_zero };

/// The behaviour of a release of HIP, as far as releases differ: one table for each in profile.cpp.
/// The values here are those of `strict`. providers/host/docs/profile_answers.md shows all side by
/// side, and has the questions Q1 to Q28 by which releases differ.
struct profile {
  std::string_view name = "strict";
  int version = HIP_VERSION;  // of hipRuntimeGetVersion and hipDriverGetVersion

  last_error_rule last_error = last_error_rule::keeps_failure;

  // Devices.
  virtual_memory vmm = virtual_memory::offered;  // Linux had none before 6.1
  int pools_attribute = 1;                       // HIP_MEM_POOL_SUPPORT, off before 6.2
  peer_rank rank = peer_rank::link_type;         // Q24
  link_report links = link_report::type_and_hops;
  self_peer same_device = self_peer::device_checked;
  hipError_t disable_unlinked = hipErrorPeerAccessNotEnabled;  // of a device that is no peer

  // Virtual memory.
  std::size_t minimum_granularity = 2U << 20U;                 // Q1
  std::size_t recommended_granularity = 2U << 20U;             // Q1
  hipError_t bad_reserve = hipErrorInvalidValue;               // Q2
  alignment_rule alignment = alignment_rule::honoured;         // Q4
  free_of_mapped free_mapped = free_of_mapped::invalid_value;  // Q17
  free_size freed_size = free_size::checked;
  std::size_t chunk_unit = 0;  // of hipMemCreate's sizes; 0: the minimum granularity
  hipError_t bad_create_device = hipErrorInvalidDevice;  // Q27
  extra_type uncached = extra_type::refused;             // Q26
  creation_device created_on = creation_device::named;
  host_place host_chunks = host_place::refused;  // Q14, Q16
  int host_nodes = 0;  // of the host, each of which chunks can be memory of (Q15)
  chunk_descriptor chunk_file = chunk_descriptor::of_shareable;
  failed_map bad_map = failed_map::returned;  // Q5
  mapped_part part = mapped_part::beginning_of_chunk;
  unmap_rule unmap = unmap_rule::whole_mappings;          // Q6, Q7
  waiting map_waits = waiting::none;                      // Q10
  waiting unmap_waits = waiting::none;                    // Q10
  memory_return physical = memory_return::at_last_unmap;  // Q9
  access_range access = access_range::whole_mappings;     // Q8
  access_order access_entries = access_order::all_or_none;
  entry_check access_checks = entry_check::type_and_id;
  border_crossing crossing = border_crossing::carried_out;
  copy_engine engine = copy_engine::of_stream;
  copy_links copied_over = copy_links::none;
  late_grant peer_after_owner = late_grant::harmless;
  hipError_t unlinked_access = hipErrorInvalidDevice;
  std::size_t free_behind = 0;                // bytes that a reservation leaves free behind itself
  host_touch touch = host_touch::as_devices;  // Q14
  retained retain = retained::one_more_reference;  // Q11
  bad_pointer stale_handle = bad_pointer::refused;
  bad_pointer not_a_reservation = bad_pointer::refused;  // hipMemAddressFree
  bad_pointer not_a_mapping = bad_pointer::refused;      // hipMemRetainAllocationHandle
  bad_pointer null_export = bad_pointer::refused;
  hipError_t foreign_descriptor = hipErrorInvalidValue;
  hipError_t sharing = hipSuccess;                           // else the refusal
  import_form chunk_import = import_form::pointer_or_value;  // Q12
  descriptor_zero zero = descriptor_zero::refused;           // Q13
  imported_device chunk_device = imported_device::exporter;
  extra_type import_type = extra_type::refused;  // any but that of descriptors

  // Pools.
  import_form pool_import = import_form::pointer_or_value;
  bad_pointer foreign_pool = bad_pointer::refused;  // a descriptor of something else, or closed
  imported_device pool_device = imported_device::exporter;
  hipError_t bad_stream = hipErrorInvalidHandle;
  bad_pointer stale_stream = bad_pointer::refused;   // hipMallocAsync and its kin, prefetches
  null_free free_async = null_free::refused;         // Q18
  trim_measure trim = trim_measure::reserved_bytes;  // Q19
  std::size_t pool_growth = 1;                       // a pool reserves multiples of these bytes
  threshold_rule threshold = threshold_rule::kept;   // Q20
  size_limit max_size = size_limit::kept;            // Q21
  imported_pool imported_rights = imported_pool::of_exporter;
  hipError_t allocation_from_imported = hipSuccess;    // else the refusal
  pool_export exported = pool_export::new_descriptor;  // Q22
  hipError_t bad_pool_device = hipErrorInvalidDevice;  // hipMemPoolSetAccess
  pool_revoke revoke = pool_revoke::enforced;          // Q23
  own_read_only own_right = own_read_only::refused;
  hipError_t peer_read_only = hipSuccess;  // else the refusal
  hipError_t pool_of_another_device = hipErrorInvalidDevice;
  high_mark reset_mark = high_mark::zero;
  reuse_value switched_by = reuse_value::any_bit;
  access_order pool_entries = access_order::all_or_none;
  reuse_limit reuse = reuse_limit::an_eighth;
  internal_dependencies internal = internal_dependencies::used;
  block_owner owner = block_owner::freeing_stream;
  repeated_free free_again = repeated_free::returns;
  pointer_export pool_pointers = pointer_export::of_pools;
  hipError_t bad_export_pointer = hipErrorInvalidValue;

  // Other memory.
  hipError_t bad_managed_stream = hipErrorInvalidHandle;
  reported_flags pinned_flags = reported_flags::as_given;
  chunk_range range = chunk_range::mapping;
  inside_allocation ipc_address = inside_allocation::refused;
  inside_allocation freed_address = inside_allocation::refused;  // hipFree; of pinned memory too
  kind_check copy_kind = kind_check::of_all;
  unknown_kind bad_kind = unknown_kind::refused;
  peer_devices copied_devices = peer_devices::compared;
  fill_size filled_bytes = fill_size::checked;
  bad_pointer split_element = bad_pointer::refused;  // a fill that starts inside an element

  attribute_answers attributes = attribute_answers::of_host;
  context_pointer context = context_pointer::not_supported;  // hipPointerGetAttribute
  coherency_range coherency = coherency_range::any_allocation;
  hipError_t null_attributes = hipErrorInvalidValue;      // hipPointerGetAttributes of null
  hipError_t value_in_destroyed = hipErrorInvalidHandle;  // in a destroyed stream
  hipError_t unregistered = hipSuccess;  // hipPointerGetAttributes of memory HIP does not know
  reported_size range_size = reported_size::eight_bytes;
  second_registration registered_again = second_registration::refused;
  hipError_t unknown_limit = hipErrorInvalidValue;  // beyond the enumeration
  peer_fill fills = peer_fill::as_peers_may;
  host_copy host_copies = host_copy::by_stream;
  foreign_copy foreign_copies = foreign_copy::in_stream;

  // Streams and events.
  ending_stream ending = ending_stream::counted;
  hipError_t destroyed_stream = hipErrorInvalidHandle;
  bad_pointer filled_stream = bad_pointer::refused;  // a fill in a destroyed one
  dead_event destroyed_event = dead_event::refused;
  hipError_t null_stream_flags = hipErrorInvalidValue;
  value_calls stream_values = value_calls::checked;
  hipError_t unshared_event = hipErrorInvalidConfiguration;  // hipIpcGetEventHandle of another kind

  // Stream capture.
  hipError_t event_of_invalidated = hipErrorCapturedEvent;  // hipSuccess: as if never recorded
  hipError_t question_of_captured_event = hipErrorCapturedEvent;
  hipError_t wait_for_captured_event = hipErrorCapturedEvent;
  foreign_end capture_end = foreign_end::refused;
  device_wait captured_device = device_wait::any_capture;
  refusal_cost refused_in_capture = refusal_cost::every_capture;
  lost_capture lost = lost_capture::is_over;
  beside_capture null_stream_work = beside_capture::refused;  // and waits and questions
  beside_capture past_event = beside_capture::refused;        // a captured stream waits for it
  beside_capture callback = beside_capture::refused;  // in a captured stream; called at once
  capture_check captured_waits = capture_check::by_mode;
  capture_check unrecorded_waits = capture_check::by_mode;  // for an event that was never recorded
  capture_check event_questions = capture_check::by_mode;
  capture_check waiting_copies = capture_check::by_mode;
  capture_check managed_memory = capture_check::by_mode;
  pool_check pool_calls = pool_check::allocation_by_mode;
};

/// strict is first.
std::span<const profile> profiles() noexcept;
/// Null if no profile has that name.
const profile* find_profile(std::string_view name) noexcept;

/// Thrown if the runtime that a profile stands for would crash. The entry point reports this on
/// standard error and ends the process, as that runtime would.
struct crash {
  const char* rule;    ///< the behaviour of that runtime, as the rest of a sentence
  const char* source;  ///< the record of that behaviour
};

[[noreturn]] void end_process(const char* function, const profile& like,
                              const crash& what) noexcept;

}  // namespace hipvmm::host_provider
