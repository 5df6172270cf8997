// SPDX-License-Identifier: MIT
#include "base/profile.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace hipvmm::host_provider {
namespace {

// hipRuntimeGetVersion's number, with patch 0: packages of one release differ in it.
constexpr int version_of(int major, int minor) { return major * 10000000 + minor * 100000; }

constexpr std::size_t smallest_page = 4096;

// Each release is the one before it, with changes. Sources, if no other is named: ROCm/clr at the
// tag of the release, hipamd/src/hip_vm.cpp and hip_mempool*.cpp.

constexpr profile rocm_5_7() {
  profile like;
  like.name = "rocm-5.7";
  like.version = version_of(5, 7);
  like.last_error = last_error_rule::is_of_last_call;  // every call sets it before 7.0
  // Only the Windows backend gives addresses and has handles to share; the attribute says 0.
  like.vmm = virtual_memory::absent;
  like.sharing = hipErrorNotSupported;
  like.pools_attribute = 0;  // HIP_MEM_POOL_SUPPORT is false: rocclr/utils/flags.hpp, 5.7.1
  like.same_device = self_peer::always_zero;      // compared before the ids are looked at
  like.disable_unlinked = hipErrorInvalidDevice;  // hip_peer.cpp
  like.minimum_granularity = smallest_page;
  like.recommended_granularity = smallest_page;
  like.not_a_reservation = bad_pointer::accepted;
  like.not_a_mapping = bad_pointer::accepted;
  like.alignment = alignment_rule::ignored;
  like.freed_size = free_size::ignored;
  like.bad_create_device = hipErrorInvalidValue;
  like.chunk_unit = 1024;  // 5.7.1 on a stand-in for ROCr
  like.bad_map = failed_map::reported_as_success;
  like.access_entries = access_order::one_by_one;
  like.access_checks = entry_check::id_only;
  like.unlinked_access = hipErrorInvalidValue;
  like.retain = retained::same_reference;
  like.stale_handle = bad_pointer::followed;
  like.chunk_import = import_form::pointer;
  like.chunk_device = imported_device::current;
  like.pool_import = import_form::value;
  like.foreign_pool = bad_pointer::followed;  // rocclr/os/os_posix.cpp: the mapping is not checked
  like.pool_device = imported_device::first;  // ROCm/rocm-systems#5522
  like.bad_stream = hipErrorInvalidValue;
  like.trim = trim_measure::idle_bytes;
  like.max_size = size_limit::unknown;  // hipMemPoolProps has no such field before 6.2
  like.exported = pool_export::same_descriptor;
  like.bad_pool_device = hipErrorInvalidValue;
  like.revoke = pool_revoke::noted;
  like.own_right = own_read_only::noted;
  like.reset_mark = high_mark::zero_of_used;  // 5.7.1 on a stand-in for ROCr
  like.switched_by = reuse_value::lowest_bit;
  like.pool_entries = access_order::one_by_one;
  like.internal = internal_dependencies::ignored;
  // MemoryTimestamp::safe_streams_ keeps the stream of the allocation.
  like.owner = block_owner::allocating_stream_too;
  like.bad_export_pointer = hipErrorOutOfMemory;
  like.pool_pointers = pointer_export::of_hip_malloc_too;
  like.bad_managed_stream = hipErrorContextIsDestroyed;  // hip_hmm.cpp, 6.4.3
  like.ipc_address = inside_allocation::taken;
  like.event_of_invalidated = hipSuccess;  // hip_event.cpp asks an active capture only
  like.captured_device = device_wait::no_capture;
  like.ending = ending_stream::overlooked;  // Stream::Destroy in hip_stream.cpp
  // The rest are answers of 5.7.1 on a stand-in for ROCr.
  like.unregistered = hipErrorInvalidValue;
  like.attributes = attribute_answers::of_amd_5;
  like.coherency = coherency_range::managed_only;
  like.value_in_destroyed = hipErrorContextIsDestroyed;
  like.registered_again = second_registration::taken;
  like.fills = peer_fill::any_owner;
  like.foreign_copies = foreign_copy::in_null_stream_of_owner;
  like.freed_address = inside_allocation::taken;
  like.copy_kind = kind_check::of_host_memory;
  like.bad_kind = unknown_kind::taken;
  like.copied_devices = peer_devices::any;
  like.copied_over = copy_links::of_owners;
  like.filled_bytes = fill_size::wraps;
  like.split_element = bad_pointer::followed;
  like.destroyed_stream = hipErrorContextIsDestroyed;
  like.filled_stream = bad_pointer::followed;
  like.destroyed_event = dead_event::followed;
  like.refused_in_capture = refusal_cost::nothing;
  like.lost = lost_capture::refuses;
  like.null_stream_work = beside_capture::taken;
  like.past_event = beside_capture::taken;
  like.callback = beside_capture::taken;
  like.question_of_captured_event = hipSuccess;
  like.wait_for_captured_event = hipErrorStreamCaptureUnsupported;
  like.captured_waits = capture_check::any_thread;
  like.unrecorded_waits = capture_check::none;
  like.event_questions = capture_check::none;
  like.waiting_copies = capture_check::global;
  like.managed_memory = capture_check::none;
  like.pool_calls = pool_check::none;
  like.stream_values = value_calls::as_amd;
  like.range_size = reported_size::four_bytes;
  return like;
}

constexpr profile rocm_6_2() {
  profile like = rocm_5_7();
  like.name = "rocm-6.2";
  like.version = version_of(6, 2);
  like.vmm = virtual_memory::offered;
  like.chunk_unit = 0;
  like.sharing = hipSuccess;
  like.pools_attribute = 1;
  like.bad_reserve = hipErrorOutOfMemory;
  like.free_mapped = free_of_mapped::forgotten;  // hipMemAddressFree drops virtualFree's result
  like.unmap = unmap_rule::first_counts;         // ROCm/ROCR-Runtime#285
  like.map_waits = waiting::null_stream;
  like.unmap_waits = waiting::null_stream;
  like.physical = memory_return::at_address_free;  // ROCm/rocm-systems#4363
  like.access = access_range::any_end;
  like.touch = host_touch::if_granted;  // ROCr maps granted memory for the host: 7.2.4, on an
                                        // emulator of the kernel driver
  like.not_a_reservation = bad_pointer::followed;
  like.not_a_mapping = bad_pointer::followed;
  like.free_behind = 2U << 20U;  // thunk, fmm.c, mmap_allocate_aligned(): seen with 6.4.3, 7.2.4
  like.engine = copy_engine::of_other_side;  // AMD's runtime 6.4.3 on a stand-in
  like.copied_over = copy_links::of_all;     // the same: of 2 MB and more an owner's engine copies
  like.captured_device = device_wait::any_capture;
  like.free_again = repeated_free::waits_for_earlier;  // for the event of the earlier free
  like.crossing = border_crossing::refused;  // AMD's runtime 6.4.3 and 7.2.4 on a stand-in
  like.null_export = bad_pointer::followed;
  like.bad_stream = hipErrorInvalidHandle;
  like.threshold = threshold_rule::ignored_when_mostly_idle;  // hip_mempool_impl.cpp, from 6.2
  like.max_size = size_limit::kept_by_high_mark;
  like.reset_mark = high_mark::zero;
  like.bad_pool_device = hipErrorInvalidDevice;
  like.revoke = pool_revoke::refused;
  like.reuse = reuse_limit::none_in_own_stream;
  // As 6.4.3 answers on a stand-in for ROCr.
  like.unregistered = hipSuccess;
  like.attributes = attribute_answers::of_amd_6;
  like.context = context_pointer::of_hip_malloc;
  like.import_type = extra_type::taken;
  like.bad_kind = unknown_kind::refused_in_stream;
  like.host_copies = host_copy::by_owner;
  like.destroyed_event = dead_event::ignored_by_waits;
  like.refused_in_capture = refusal_cost::first_kind;
  like.question_of_captured_event = hipErrorCapturedEvent;
  like.wait_for_captured_event = hipErrorCapturedEvent;
  like.captured_waits = capture_check::global_too;
  like.waiting_copies = capture_check::all;
  like.pool_calls = pool_check::beside_blocking_stream;
  return like;
}

constexpr profile rocm_6_4() {
  profile like = rocm_6_2();
  like.name = "rocm-6.4";
  like.version = version_of(6, 4);
  like.free_mapped = free_of_mapped::unknown_error;
  return like;
}

constexpr profile rocm_7_1() {
  profile like = rocm_6_4();
  like.name = "rocm-7.1";
  like.version = version_of(7, 1);
  like.last_error = last_error_rule::keeps_failure;
  like.bad_reserve = hipErrorInvalidValue;
  like.bad_create_device = hipErrorInvalidDevice;
  like.uncached = extra_type::taken;
  like.unmap = unmap_rule::whole_mappings;
  like.engine = copy_engine::of_stream_opening;  // AMD's runtime 7.2.4 on a stand-in
  like.copied_over = copy_links::of_stream;      // the same
  like.access = access_range::sums_from_first;   // ROCm/rocm-systems#2451, #6977
  like.access_checks = entry_check::type_and_id;
  like.retain = retained::one_more_reference;
  like.not_a_reservation = bad_pointer::refused;
  like.not_a_mapping = bad_pointer::refused;
  like.null_export = bad_pointer::refused;
  like.chunk_import = import_form::value;  // ROCm/rocm-systems#11020
  like.free_async = null_free::ignored;
  // As 7.2.4 answers on a stand-in for ROCr, which follows handles of streams unless it crashes.
  like.host_copies = host_copy::by_stream;
  like.destroyed_stream = hipErrorInvalidHandle;
  like.filled_stream = bad_pointer::refused;
  like.callback = beside_capture::refused;
  like.captured_waits = capture_check::global_first;
  like.unrecorded_waits = capture_check::global_first;
  like.event_questions = capture_check::global_first;
  like.managed_memory = capture_check::by_mode;
  like.revoke = pool_revoke::noted;
  like.own_right = own_read_only::refused;
  like.pool_entries = access_order::all_or_none;
  like.reuse = reuse_limit::an_eighth;
  return like;
}

// The differences from the column before are answers of 7.2.4.
constexpr profile rocm_7_2() {
  profile like = rocm_7_1();
  like.name = "rocm-7.2";
  like.version = version_of(7, 2);
  like.not_a_reservation = bad_pointer::followed;
  like.not_a_mapping = bad_pointer::followed;
  like.host_chunks = host_place::any_memory;  // ROCm/rocm-systems#682, #1620
  like.retain = retained::same_reference;
  like.stale_stream = bad_pointer::followed;
  like.created_on = creation_device::current;
  like.null_attributes = hipSuccess;
  like.pool_growth = 32U << 20U;
  like.revoke = pool_revoke::refused;
  like.own_right = own_read_only::noted;
  like.pool_entries = access_order::one_by_one;
  return like;
}

constexpr profile rocm_7_14() {
  profile like = rocm_7_1();
  like.name = "rocm-7.14";
  like.version = version_of(7, 14);
  like.recommended_granularity = 2U << 20U;              // ROCm/rocm-systems#9360
  like.host_chunks = host_place::any_memory;             // ROCm/rocm-systems#682, #1620
  like.chunk_file = chunk_descriptor::of_each;           // ROCm/rocm-systems#10604
  like.bad_map = failed_map::returned;                   // ROCm/rocm-systems#7685
  like.map_waits = waiting::none;                        // ROCm/rocm-systems#6982
  like.unmap_waits = waiting::all_streams;               // the same
  like.physical = memory_return::at_last_unmap;          // ROCm/rocm-systems#4363
  like.access = access_range::whole_mappings;            // ROCm/rocm-systems#6977
  like.peer_after_owner = late_grant::corrupts_mapping;  // openxla/xla#46576
  like.chunk_device = imported_device::exporter;
  like.pool_device = imported_device::current;  // ROCm/rocm-systems#5535
  return like;
}

// 10.0; its HIP is 7.15. Source, if no other is named: ROCm/rocm-systems,
// projects/clr/hipamd/src/hip_vm.cpp at 048cb7b7ed02. The node that a thread is on is no place
// here.
constexpr profile rocm_10() {
  profile like = rocm_7_14();
  like.name = "rocm-10";
  like.version = version_of(7, 15);                  // ROCm/rocm-systems#9444, #9648
  like.chunk_file = chunk_descriptor::of_shareable;  // ROCm/rocm-systems#7786
  like.host_nodes = 2;                               // ROCm/rocm-systems#8058
  return like;
}

// Sources: CUDA 13 driver API, "Virtual Memory Management" and "Stream Ordered Memory Allocator".
// "H200": measured on one, driver 580.159.04; tests/provider_semantics asks the same of both.
constexpr profile cuda_13() {
  profile like;
  like.name = "cuda-13";
  like.version = 13000;  // hipRuntimeGetVersion hands on cudaRuntimeGetVersion
  like.rank = peer_rank::order;
  like.links = link_report::none;
  like.host_chunks = host_place::host_memory_only;
  like.host_nodes = 2;                   // H200
  like.part = mapped_part::whole_chunk;  // H200
  like.unmap = unmap_rule::mapped_ones;  // H200, and it waits for nothing
  like.touch = host_touch::if_granted;
  like.foreign_descriptor = hipErrorUnknown;  // H200: CUDA_ERROR_UNKNOWN
  like.chunk_import = import_form::value;
  like.zero = descriptor_zero::taken;
  like.pool_import = import_form::value;
  like.imported_rights = imported_pool::of_its_device;
  like.allocation_from_imported = hipErrorInvalidValue;  // cudaMallocFromPoolAsync of an import
  like.peer_read_only = hipErrorNotSupported;            // H200
  like.pool_of_another_device = hipErrorInvalidValue;    // H200
  like.reset_mark = high_mark::as_in_use;                // H200
  like.pinned_flags = reported_flags::always_mapped;     // H200
  like.range = chunk_range::reservation;                 // H200: its pointer attributes
  like.ipc_address = inside_allocation::taken;           // H200
  like.event_of_invalidated = hipErrorInvalidValue;      // H200
  like.capture_end = foreign_end::costs_capture;         // H200
  like.captured_device = device_wait::own_captures;
  like.unknown_limit = hipErrorUnsupportedLimit;
  like.null_stream_flags = hipSuccess;
  like.stream_values = value_calls::as_cuda;
  like.unshared_event = hipErrorInvalidHandle;
  return like;
}

constexpr std::array known_profiles{profile{},  rocm_5_7(),  rocm_6_2(), rocm_6_4(), rocm_7_1(),
                                    rocm_7_2(), rocm_7_14(), rocm_10(),  cuda_13()};

}  // namespace

std::span<const profile> profiles() noexcept { return known_profiles; }

const profile* find_profile(std::string_view name) noexcept {
  const auto found = std::find_if(known_profiles.begin(), known_profiles.end(),
                                  [name](const profile& each) { return each.name == name; });
  return found == known_profiles.end() ? nullptr : &*found;
}

void end_process(const char* function, const profile& like, const crash& what) noexcept {
  std::fprintf(stderr,
               "hipvmm host provider: %s under HIPVMM_HOST_PROFILE=%.*s would crash here, because "
               "it %s (%s); correct the call.\n",
               function, static_cast<int>(like.name.size()), like.name.data(), what.rule,
               what.source);
  std::abort();
}

}  // namespace hipvmm::host_provider
