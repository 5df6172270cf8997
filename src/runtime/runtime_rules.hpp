// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::detail {

/// HIP's number on AMD, CUDA's on NVIDIA. Throws: hip_error.
int runtime_version();

/// A property that a probe can find is a trait of the device. No other file compares versions.
struct runtime_rules {
  int version;

  // HIP's numbers begin at 10000000, CUDA's are lower.
  bool is_cuda = version < 10000000;

  // trait::imports_by_value. Its probe may crash.
  bool imports_descriptor_by_value = is_cuda || is_at_least(7, 1);

  // Up to ROCm 6.4 hipMemAddressFree leaves the record of the addresses to the last command that
  // used them (late_record, unwaited_stream in docs/guides/rocm.md). Seen on 6.4.3, not on 7.2.4.
  bool wait_before_address_free = is_at_least(6, 1) && !is_at_least(7, 0);

  // AMD's hipMemAddressFree from 6.3 on has lost the record if it fails with hipErrorUnknown. A
  // second call crashes up to 7.2, and is InvalidValue from 7.14 on (ROCm/clr, hip_vm.cpp).
  bool forgets_refused_addresses = is_at_least(6, 3);

  // From ROCm 7.14 on hipMemUnmap waits for all streams of the devices with access (from the
  // source). A probe would need work that can be delayed.
  bool unmap_waits = is_at_least(7, 14);

  // On AMD's 7.2.4 an event passed while a copy to the host before it ran (docs/guides/rocm.md).
  // The cause is not known: suspend() relies on no event of AMD's.
  bool events_cover_copies = !is_at_least(5, 7);

  // From ROCm 7.14 on the owner must be granted last, and reads other pages until then ("order of
  // grants" in docs/guides/rocm.md).
  bool wait_before_grant = is_at_least(7, 14);

  // trait::reports_failed_map, if no process can be started for its probe.
  bool reports_failed_map = is_cuda || is_at_least(7, 14);

  // trait::pools_reuse_in_order and pool_frees_return, if no record was made.
  bool pools_reuse_in_order = is_cuda;

  // pool_beside_free in docs/guides/rocm.md. CUDA is not known to have it.
  bool pools_change_beside_frees = is_cuda;

  // Links without which AMD's runtime crashes in a copy between two devices, if others are linked:
  // of the stream's device with both, and before 7.0 of the two with each other
  // (docs/guides/rocm.md).
  bool copies_over_links_of_stream = is_at_least(6, 0);
  bool copies_over_links_of_owners = !is_cuda && !is_at_least(7, 0);

  // The device of the other side copies; for pinned memory, the device that was current when it was
  // made (seen on 6.2 and 6.4).
  bool other_side_copies = !is_cuda && is_at_least(6, 0) && !is_at_least(7, 0);

  // A fill of another device's memory crashes without a link.
  bool fills_over_links = !is_cuda;

  // hipDevP2PAttrPerformanceRank ranks links on CUDA; AMD's runtime returns the link type's number
  // (ROCm/clr, hip_peer.cpp; seen on 5.7.1, 6.4.3 and 7.2.4).
  bool ranks_links = is_cuda;

  // On NVIDIA a device has a primary context, which the first call that uses the device makes.
  bool has_contexts = is_cuda;

  // CUDA's hipFree and hipHostFree wait for the device; for AMD's hipFree there is a probe.
  bool frees_wait = is_cuda;

  // AMD's runtime refuses destroyed streams. CUDA does not always check a destroyed stream's
  // address, and may crash.
  bool refuses_ended_streams = !is_cuda;

  // AMD's runtime crashes if an event is queried while its record completes, as that of an idle
  // stream does at once (docs/guides/rocm.md): the stream is queried first. On NVIDIA that query
  // would invalidate a capture that another thread begins meanwhile.
  bool queries_stream_before_record = !is_cuda;

  // query_beside_destroy, event_of_ended_stream and wait_beside_destroy in docs/guides/rocm.md.
  bool events_need_streams = !is_cuda;

  [[nodiscard]] constexpr bool is_at_least(int major, int minor) const noexcept {
    return version >= major * 10000000 + minor * 100000;
  }
};

/// Throws: hip_error.
[[nodiscard]] const runtime_rules& rules_of_runtime();

}  // namespace hipvmm::detail
