// SPDX-License-Identifier: MIT
#include "capability/probe.hpp"

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string_view>
#include <system_error>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/background_thread.hpp"
#include "core/error.hpp"
#include "core/observers/memory_events.hpp"

namespace hipvmm::detail {
namespace {

constexpr std::array probes{
    probe{"virtual_memory", trait::virtual_memory, 1, risk::none, probe_virtual_memory},
    probe{"several_reservations", trait::several_reservations, 1, risk::none,
          probe_several_reservations},
    probe{"unmaps_each", trait::unmaps_each, 1, risk::none, probe_unmaps_each},
    probe{"tail_access", trait::tail_access, 1, risk::none, probe_tail_access},
    probe{"base_access", trait::base_access, 1, risk::none, probe_base_access},
    probe{"equal_access", trait::equal_access, 1, risk::none, probe_equal_access},
    probe{"visible_at_once", trait::visible_at_once, 1, risk::none, probe_visible_at_once, true},
    probe{"crosses_chunks", trait::crosses_chunks, 1, risk::none, probe_crosses_chunks, true},
    probe{"crosses_reservations", trait::crosses_reservations, 1, risk::none,
          probe_crosses_reservations},
    probe{"returns_memory", trait::returns_memory, 2, risk::none, probe_returned_memory},
    probe{"coherent_aliases", trait::coherent_aliases, 1, risk::none, probe_coherent_aliases, true},
    probe{"shares_chunks", trait::shares_chunks, 1, risk::none, probe_shares_chunks},
    probe{"host_chunks", trait::host_chunks, 1, risk::none, probe_host_chunks},
    probe{"host_node_chunks", trait::host_node_chunks, 1, risk::none, probe_host_node_chunks},
    probe{"uncached_chunks", trait::uncached_chunks, 1, risk::none, probe_uncached_chunks},
    probe{"descriptors_per_chunk", trait::virtual_memory, 0, risk::none, measure_descriptors},
    probe{"costs", trait::virtual_memory, 0, risk::none, measure_costs},
    // Both wait for the whole device.
    probe{"counts_ending_streams", trait::counts_ending_streams, 1, risk::child_only,
          probe_counts_ending_streams},
    probe{"free_waits", trait::free_waits, 1, risk::child_only, probe_free_waits},
    // On AMD's runtime the probe blocks the host until its work ends.
    probe{"pools_reuse_in_order", trait::pools_reuse_in_order, 2, risk::child_only, probe_pools},
    // The probe starts the peers, and each takes memory and time.
    probe{"peer_access", trait::peer_access, 1, risk::child_only, probe_peer_access},
    // ROCm up to 7.0 uses the value as a pointer.
    probe{"imports_by_value", trait::imports_by_value, 1, risk::child_only, probe_imports_by_value},
    // ROCm 6 and 7.2 count no reference, so the handle's memory is gone.
    probe{"retains_chunks", trait::retains_chunks, 1, risk::child_only, probe_retains_chunks},
    // ROCm up to 6.4 loses the addresses.
    probe{"unmaps_many", trait::unmaps_many, 1, risk::child_only, probe_unmaps_many},
    // May hang (ROCm/rocm-systems#10879) or stop the device.
    probe{"host_access", trait::host_access, 1, risk::child_only, probe_host_access},
    probe{"keeps_read_only", trait::keeps_read_only, 1, risk::child_only, probe_keeps_read_only},
    // On ROCm 6 the peer's engine faults, and the process ends.
    probe{"peer_copies", trait::peer_copies, 1, risk::child_only, probe_peer_copies},
    // Last, because ROCm up to 7.2 may record a mapping that it did not make: later ones at these
    // addresses cannot be granted or unmapped.
    probe{"reports_failed_map", trait::reports_failed_map, 1, risk::child_only,
          probe_reports_failed_map}};
static_assert(probes.back().first == trait::reports_failed_map);
static_assert(probes[9].count == 2 && static_cast<int>(trait::returns_with_addresses) ==
                                          static_cast<int>(trait::returns_memory) + 1);
static_assert(static_cast<int>(trait::pool_frees_return) ==
              static_cast<int>(trait::pools_reuse_in_order) + 1);

void leave_open(const probe& each, capability::record& found, const std::string& why) {
  answer_all(each, found, finding::unknown, "not found out: " + why, persistence::open);
}

std::string sentence_of(const hip_error& error, const std::string& during) {
  return std::string{error.call()} + " gave " + error_name(error.code()) + " " + during;
}

bool takes_no_memory(std::string_view call) {
  return call == "hipMemMap" || call == "hipMemSetAccess";
}

template <class Body>
void attempt(const probe& each, capability::record& found, const std::string& during, Body body) {
  constexpr int most_attempts = 3;
  for (int attempts = 1;; ++attempts) {
    try {
      return body();
    } catch (const out_of_memory& shortage) {
      return leave_open(each, found, shortage.what());
    } catch (const std::bad_alloc&) {
      return leave_open(each, found, "the process ran out of memory or descriptors");
    } catch (const std::system_error& error) {
      return leave_open(each, found, std::string{"the system refuses a thread: "} + error.what());
    } catch (const unsupported& error) {
      return answer_all(each, found, finding::no, error.what(), persistence::lasting);
    } catch (const hip_error& error) {
      const std::string what = sentence_of(error, during);
      // The refusal says nothing about the trait, because an earlier probe made such chunks.
      if (during == plain_chunk && each.run != probe_virtual_memory) {
        if (attempts < most_attempts) continue;
        return leave_open(each, found, what + ", each time");
      }
      if (error.code() != hipErrorOutOfMemory)
        return answer_all(each, found, finding::no, what, persistence::lasting);
      // With a second GPU that cannot map every map is out of memory (ROCm/ROCR-Runtime#287). It
      // looks like a shortage, so it is not kept on disk.
      if (!takes_no_memory(error.call())) return leave_open(each, found, what);
      if (attempts == most_attempts)
        return answer_all(each, found, finding::no, what + ", each time", persistence::passing);
    }
  }
}

/// The library's size, but at most a 64th of the device's memory.
std::size_t unit_for(device_ref device, const allocation_granularity& granularity) {
  constexpr std::size_t usual = 2 * MiB;
  constexpr std::size_t share = 64;
  const std::size_t most = align_down(device.total_memory() / share, granularity.minimum);
  return std::max(
      std::min(align_up(std::max(usual, granularity.recommended), granularity.minimum), most),
      granularity.minimum);
}

void run_here(device_ref device, capability::record& found, const probe_run& how) {
  const auto first = std::find_if(probes.begin(), probes.end(), how.wants);
  if (first == probes.end()) return;
  how.begins(*first);
  std::optional<scoped_device> current;  // kernels are launched on it
  std::optional<stream> queue;
  std::size_t unit = 0;
  const std::string during = "when the device was asked about itself";
  attempt(*first, found, during, [&] {
    try {
      if (!device.supports_virtual_memory())
        return found.set(trait::virtual_memory, finding::no,
                         "hipDeviceAttributeVirtualMemoryManagementSupported is 0",
                         persistence::lasting);
      const allocation_granularity granularity = granularity_of(device);
      found.minimum_granularity = granularity.minimum;
      found.recommended_granularity = granularity.recommended;
      unit = unit_for(device, granularity);
      current.emplace(device);
      queue.emplace(device);
    } catch (const hip_error& error) {
      // The failure of the device says nothing about virtual memory.
      leave_open(*first, found, sentence_of(error, during));
    }
  });
  if (!queue) return how.ended(*first);

  probe_site site{device, unit, *queue, how.kernel, found, {}};
  for (const probe& each : probes) {
    if (!how.wants(each)) continue;
    how.begins(each);
    attempt(each, found, site.during, [&] { each.run(site); });
    how.ended(each);
    if (each.run == probe_virtual_memory &&
        found.findings[index_of(trait::virtual_memory)] != finding::yes)
      return;
  }
}

}  // namespace

bool probe::is_open(const capability::record& found) const noexcept {
  if (run == measure_descriptors) return found.descriptors_per_chunk < 0;
  if (run == measure_costs) return found.costs.create == 0;
  return found.persistences[index_of(first)] == persistence::open;
}

void answer_all(const probe& each, capability::record& found, finding what,
                const std::string& reason, persistence holds) {
  for (std::size_t i = 0; i < each.count; ++i)
    found.set(static_cast<trait>(index_of(each.first) + i), what, reason, holds);
}

std::span<const probe> all_probes() noexcept { return probes; }

void run_probes(device_ref device, capability::record& found, const probe_run& how) {
  std::exception_ptr failure;
  held_reports told;  // ends in the caller's thread, which may hold a lock
  background_thread worker{[&](const std::stop_token&) {
    const reports_wait wait{told};
    const events_pause unreported;
    try {
      run_here(device, found, how);
    } catch (...) {
      failure = std::current_exception();
    }
  }};
  const bool started = worker.start();
  worker.stop();
  if (failure) std::rethrow_exception(failure);
  if (started) return;
  for (const probe& each : probes)
    if (how.wants(each)) leave_open(each, found, "the system refuses a thread for the probes");
}

}  // namespace hipvmm::detail
