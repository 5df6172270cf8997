// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "address_map.hpp"

namespace hipvmm::host_provider {

class graph_memory;
class mem_pool;
class runtime;
class stream_queue;

/// When a graph's memory may be named and touched. Belongs to its addresses, as those of a pool's
/// block do. Thread-safe.
class graph_tenancy final : public tenancy {
 public:
  graph_tenancy(runtime& machine, const mem_pool& properties, std::size_t bytes);

  [[nodiscard]] std::size_t bytes_held() const override;
  [[nodiscard]] std::size_t bytes_reached() const override;
  [[nodiscard]] device_set devices_with(right needed) const override;

 private:
  friend class graph_memory;

  runtime& machine_;
  const int device_;
  const std::size_t bytes_;
  const device_set readers_;
  const device_set writers_;

  mutable std::mutex mutex_;
  std::weak_ptr<graph_memory> owner_;
  /// The owner while any launch has its bytes: the graph may be destroyed before they are freed.
  std::shared_ptr<graph_memory> kept_;
  std::uint64_t recorder_ = 0;  // the capture that allocates it and has not freed it yet
  std::size_t launches_ = 0;    // allocations launched whose free has not run
  bool held_ = false;           // allocated by work submitted so far
  bool reached_ = false;        // allocated by work executed so far
};

/// Memory that a graph allocates: its addresses from the capture on, for as long as a graph, an
/// executable graph or a holder knows them, and bytes of the device from a launch until the free
/// has run. Thread-safe.
class graph_memory : public std::enable_shared_from_this<graph_memory> {
 public:
  /// Addresses on the pool's device, open to the devices that may use the pool now, for the capture
  /// `recorder`.
  static std::shared_ptr<graph_memory> reserve(runtime& machine, const mem_pool& properties,
                                               std::size_t bytes, std::uint64_t recorder);
  /// The memory at a region of kind graph_allocation; null when it is going.
  static std::shared_ptr<graph_memory> at(const region& found);
  explicit graph_memory(std::shared_ptr<graph_tenancy> tenant) noexcept;
  graph_memory(const graph_memory&) = delete;
  graph_memory& operator=(const graph_memory&) = delete;
  ~graph_memory();

  [[nodiscard]] address start() const noexcept { return start_; }

  /// Whether this capture has allocated it and not freed it.
  [[nodiscard]] bool is_recorded_by(std::uint64_t recorder) const;
  void end_recording();

  [[nodiscard]] bool is_held() const;
  /// Submitting an allocation: charges the device. Throws: failure with hipErrorInvalidValue while
  /// it is held, with hipErrorOutOfMemory when the device has not enough.
  void take();
  void undo_take();
  /// Submitting a free. Throws: failure with hipErrorInvalidValue unless it is held.
  void drop();
  void undo_drop();
  /// Executing the allocation and the free.
  void open();
  void close();

 private:
  void give_back(std::unique_lock<std::mutex>& lock);
  void set_held(bool held);

  const std::shared_ptr<graph_tenancy> tenant_;
  address start_ = 0;
};

/// Frees graph memory now, when no work uses it any more, or in stream order. Throws: failure with
/// hipErrorInvalidValue unless it is held.
void free_graph_memory(const region& found);
hipError_t free_graph_memory(runtime& machine, const region& found, stream_queue& freeing);

}  // namespace hipvmm::host_provider
