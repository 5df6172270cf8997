// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <hipvmm/runtime/stream.hpp>
#include "capability/capability.hpp"

namespace hipvmm::detail {

/// probe_site::during while a chunk without properties is made.
inline constexpr std::string_view plain_chunk = "when a chunk was created";

struct probe_site {
  device_ref device;
  std::size_t unit;  // bytes of the chunks that probes make
  const stream& queue;
  const copy_kernel& kernel;  // may be empty
  capability::record& found;
  /// The action, as "when ..." at the end of a message.
  std::string during;

  void answer(trait which, finding what, std::string reason,
              persistence holds = persistence::lasting) {
    found.set(which, what, std::move(reason), holds);
  }
  void answer(trait which, bool seen, std::string yes, std::string no) {
    answer(which, seen ? finding::yes : finding::no, seen ? std::move(yes) : std::move(no));
  }
};

enum class risk {
  none,
  child_only,  ///< it may crash, fault the device, hang, lose addresses or start other devices
};

/// Answers `count` traits from `first` on.
struct probe {
  std::string_view name;
  trait first;
  std::size_t count;
  risk danger;
  void (*run)(probe_site& site);
  bool uses_kernel = false;  ///< runs again with the caller's kernel, if there is one

  [[nodiscard]] bool is_open(const capability::record& found) const noexcept;
};

void answer_all(const probe& each, capability::record& found, finding what,
                const std::string& reason, persistence holds);

/// In the order in which they run: those that may leave a device in a bad state are last.
std::span<const probe> all_probes() noexcept;

void probe_virtual_memory(probe_site& site);
void probe_several_reservations(probe_site& site);
void probe_unmaps_each(probe_site& site);
void probe_unmaps_many(probe_site& site);
void probe_tail_access(probe_site& site);
void probe_base_access(probe_site& site);
void probe_equal_access(probe_site& site);
void probe_reports_failed_map(probe_site& site);
void probe_visible_at_once(probe_site& site);
void probe_crosses_chunks(probe_site& site);
void probe_crosses_reservations(probe_site& site);
void probe_returned_memory(probe_site& site);
void probe_coherent_aliases(probe_site& site);
void probe_keeps_read_only(probe_site& site);
void probe_peer_access(probe_site& site);
void probe_peer_copies(probe_site& site);
void probe_shares_chunks(probe_site& site);
void probe_host_chunks(probe_site& site);
void probe_host_node_chunks(probe_site& site);
void probe_uncached_chunks(probe_site& site);
void probe_imports_by_value(probe_site& site);
void probe_retains_chunks(probe_site& site);
void probe_host_access(probe_site& site);
void probe_counts_ending_streams(probe_site& site);
void probe_free_waits(probe_site& site);
void probe_pools(probe_site& site);
void measure_descriptors(probe_site& site);
void measure_costs(probe_site& site);

struct probe_run {
  std::function<bool(const probe&)> wants;
  const copy_kernel& kernel;
  /// Called before and after each probe, by the thread that runs it.
  std::function<void(const probe&)> begins = [](const probe&) {};
  std::function<void(const probe&)> ended = [](const probe&) {};
};

/// Runs the probes that `how` wants on a thread of their own, so that the caller's device and
/// captures stay as they are. A shortage of memory, addresses, descriptors or threads leaves the
/// traits open; an error of HIP is a no. Throws: as `kernel`.
void run_probes(device_ref device, capability::record& found, const probe_run& how);

}  // namespace hipvmm::detail
