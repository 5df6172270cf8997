// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/container/slot_arena_options.hpp>
#include <hipvmm/ipc/attach_options.hpp>
#include <hipvmm/ipc/budget/budget_options.hpp>
#include <hipvmm/ipc/publication_options.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/pool/pool_options.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/region/sleep/evictable.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/idle/memory_pressure.hpp>
#include "c/configured_budget.hpp"

// The options of each kind of object, from their text; null counts as empty. Those of pools and
// buffers begin with the environment variable HIPVMM_CONF, read each time:
// "pool.maximum=80%,buffer.step_limit=64MiB". A mistake in it, about either, is an error for both.
// All throw std::invalid_argument, as apply_options().
namespace hipvmm::c {

/// `unconfigured`: the values of options that neither text has.
[[nodiscard]] mr::pool_options pool_settings(device_ref device, const char* text,
                                             mr::pool_options unconfigured = {});
[[nodiscard]] growth_options buffer_settings(device_ref device, const char* text);
[[nodiscard]] mr::hip_async_options async_settings(device_ref device, const char* text);
[[nodiscard]] mr::pinned_options pinned_settings(const char* text);

/// Without a size in HIPVMM_CONF the budget has all memory of the device.
[[nodiscard]] std::optional<named_limit> configured_budget(device_ref device);
/// Returns whether HIPVMM_CONF names one, even if a part of HIPVMM_CONF is invalid.
[[nodiscard]] bool names_a_budget() noexcept;

struct arena_options {
  std::size_t initial_bytes = 0;
  std::optional<std::size_t> maximum_bytes;
  bool dumps_log = false;
};
[[nodiscard]] arena_options arena_settings(device_ref device, const char* text);

struct fixed_size_options {
  std::size_t block_size = mr::fixed_size_resource::default_block_size;
  std::size_t blocks = mr::fixed_size_resource::default_blocks_to_preallocate;
};
[[nodiscard]] fixed_size_options fixed_size_settings(device_ref device, const char* text);

/// Both or none are set.
struct binning_options {
  std::optional<int> min_exponent;
  std::optional<int> max_exponent;
};
[[nodiscard]] binning_options binning_settings(const char* text);

[[nodiscard]] bool flag_setting(const char* of, const char* name, const char* text);
[[nodiscard]] std::size_t alignment_setting(const char* text);

/// `slots` and `bytes_per_slot` may be missing: slot_arena refuses their values of 0.
[[nodiscard]] slot_arena_options slot_settings(device_ref device, const char* text);
[[nodiscard]] suspend_options suspend_settings(const char* text);
[[nodiscard]] evictable_options evictable_settings(const char* text);

struct joining_settings {
  std::size_t limit;
  budget_options options;
};
/// The limit is all memory of the device unless it is named.
[[nodiscard]] joining_settings budget_settings(device_ref device, const char* text);

[[nodiscard]] pressure_options pressure_settings(device_ref device, const char* text);

struct publishing_settings {
  publication_options options;
  element_identity elements;
};
[[nodiscard]] publishing_settings publication_settings(const char* text);
[[nodiscard]] publication_options keeping_settings(const char* text);

struct attaching_settings {
  attach_options options;
  element_identity elements;
};
[[nodiscard]] attaching_settings attachment_settings(const char* text);

}  // namespace hipvmm::c
