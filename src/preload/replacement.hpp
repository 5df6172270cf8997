// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/pool/pool_options.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "core/background_task.hpp"
#include "mr/address_table.hpp"
#include "preload/calls.hpp"
#include "preload/settings.hpp"
#include "preload/statistics.hpp"

namespace hipvmm::preload {

/// Serves a program's calls for memory from a pool for each device. Thread-safe.
/// - Calls that the pool does not serve go to the real function; the program gets its code and
///   HIP's last error. To refuse a call it passes an address that HIP never allocated.
/// - Lives as long as the process: a program may free memory at any time of its exit.
class replacement {
 public:
  explicit replacement(settings chosen) : settings_{std::move(chosen)} {}
  /// Only tests end one.
  ~replacement();
  replacement& operator=(replacement&&) = delete;

  int allocate(const real_calls& real, void** pointer, std::size_t bytes) noexcept;
  int free(const real_calls& real, void* pointer) noexcept;
  int allocate_async(const real_calls& real, void** pointer, std::size_t bytes,
                     stream_ref stream) noexcept;
  int free_async(const real_calls& real, void* pointer, stream_ref stream) noexcept;
  int memory_info(const real_calls& real, std::size_t* free, std::size_t* total) noexcept;
  int address_range(const real_calls& real, void** base, std::size_t* bytes,
                    void* pointer) noexcept;
  int ipc_handle(const real_calls& real, void* handle, void* pointer) noexcept;
  void end_stream(stream_ref stream) noexcept;
  /// Ends the pool of a device and forgets its allocations.
  void reset_device(std::optional<device_ref> device) noexcept;

  /// From now on requests pass to HIP: the program has a context of its own, possibly of another
  /// device than HIP's current one, and HIP's waits do not cover its work.
  void note_context() noexcept { has_context_ = true; }
  /// Call it after the program has set the pool of a device: requests in stream order then pass,
  /// because the program may set rights of its own, and export from its pool. They are served again
  /// when the default pool is current again, set by the program or by the destruction of its pool.
  void note_pool(device_ref device) noexcept;
  /// From now on everything passes, and frees of the parent's memory do nothing.
  void become_child() noexcept { is_child_ = true; }
  void write_statistics() noexcept;

 private:
  struct allocation {
    std::size_t bytes;
    int device;
  };
  using table = detail::address_table<allocation>;
  using pool = mr::vmm_pool_resource;
  struct served_device {
    /// `has_threshold`: the pool releases idle memory as its options say.
    served_device(replacement& of, device_ref device, const mr::pool_options& options,
                  bool has_threshold);
    /// Frees memory that any stream may use. Waits for all devices with access if `waits`, unless a
    /// capture forbids that: then the pool orders the reuse.
    void free(void* pointer, std::size_t bytes, bool waits) noexcept;

    pool memory;
    std::vector<device_ref> users;  // with access
    // Never has work: memory freed in its order after a wait is reused without another wait.
    stream done;
    const bool has_threshold;
    std::uint64_t allocations = 0;  // at its last run
    unsigned tries = 0;             // since the program became quiet
    /// Releases idle memory when the program is quiet. Last: it uses the rest.
    detail::background_task release;
  };
  // As many as PyTorch has room for.
  static constexpr std::size_t most_devices = 120;
  /// The treatment of requests if no pool can be made; the reason was reported.
  enum class refusal : unsigned char {
    none,
    of_pool,  // HIP serves them
    of_all,   // none does, because HIP's memory would count in no budget
  };
  struct device_pool {
    std::atomic<served_device*> made{nullptr};
    std::atomic<refusal> refused{refusal::none};
    std::atomic<bool> own_pool{false};
  };

  /// Rounds up to the alignment of addresses: blocks of a pool are aligned if all its requests are
  /// multiples of the alignment.
  [[nodiscard]] static std::size_t in_pool(std::size_t bytes) noexcept {
    constexpr std::size_t alignment = 512;  // that of textures on NVIDIA, the most of all
    const std::size_t rounded = align_down(bytes + (alignment - 1), alignment);
    return rounded < bytes ? bytes : rounded;  // an overflow: no pool has as much
  }
  static void say(const char* what, const char* why) noexcept;

  [[nodiscard]] std::optional<passed> reason_to_pass(void** pointer,
                                                     std::size_t bytes) const noexcept;
  /// Null for a device beyond most_devices.
  [[nodiscard]] device_pool* find_entry(int device) const noexcept;
  [[nodiscard]] served_device* find_device(int device) const noexcept;
  [[nodiscard]] bool has_own_pool(device_ref device) noexcept;
  /// Null if no pool can be made. Throws: out_of_memory; std::out_of_range beyond most_devices.
  [[nodiscard]] served_device* serve_device(device_ref device);
  /// Returns the reason for a failure.
  template <typename Allocate>
  std::optional<passed> serve(void** pointer, std::size_t bytes, device_ref device,
                              Allocate from_pool) noexcept;
  /// Calls the real function, again if the device was full: after a release of idle memory.
  template <typename Call>
  int pass(passed why, Call call) noexcept;
  void release_idle() noexcept;
  void expect_quiet(served_device& of) noexcept;
  void release_when_quiet(served_device& of) noexcept;

  [[nodiscard]] bool may_be_ours(const void* pointer) const noexcept;
  [[nodiscard]] bool is_in_a_pool(const void* pointer) const noexcept;
  template <typename Free>
  int free_unknown(const void* pointer, Free free) noexcept;
  void note_range(const void* pointer, std::size_t bytes) noexcept;
  template <typename Visit>
  void for_each_pool(Visit visit) const;

  const settings settings_;
  statistics counts_;
  table allocations_;
  mutable std::array<device_pool, most_devices> pools_{};
  std::mutex making_;
  std::mutex noting_;  // of the current pool, as HIP reports it
  // Shared while all pools are visited, so that none ends by a reset of its device. A call for one
  // device does not take it: HIP allows no call for a device beside its reset.
  mutable std::shared_mutex visiting_;
  std::atomic<std::uintptr_t> lowest_{UINTPTR_MAX};
  std::atomic<std::uintptr_t> highest_{0};
  std::atomic<bool> is_child_{false};
  std::atomic<bool> has_context_{false};
  std::atomic<bool> said_handle_{false};
  std::atomic<bool> said_failure_{false};
};

}  // namespace hipvmm::preload
