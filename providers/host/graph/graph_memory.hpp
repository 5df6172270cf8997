// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "memory/address_map.hpp"
#include "memory/device_memory.hpp"
#include "stream/operation.hpp"

namespace hipvmm::host_provider {

class graph_memory;
class race_checker;
class stream_owner;
class stream_queue;

/// Allocations of graphs that were launched and not freed. Thread-safe.
class graph_memory_count {
 public:
  [[nodiscard]] std::uint64_t held() const noexcept {
    return held_.load(std::memory_order_relaxed);
  }
  void note(int change) noexcept {
    held_.fetch_add(static_cast<std::uint64_t>(static_cast<std::int64_t>(change)),
                    std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> held_{0};
};

struct graph_memory_support {
  address_map& addresses;
  graph_memory_count& count;
  race_checker* checker;  // null unless HIPVMM_HOST_CHECK asks for it
};

/// A graph's device, and the devices that may use its memory: those of the device's pool now.
struct graph_memory_place {
  device_memory& memory;
  int device;
  device_set readers;
  device_set writers;
};

/// The times at which a graph's memory may be used. Belongs to its addresses, as those of a pool's
/// block do. Thread-safe.
class graph_tenancy final : public tenancy {
 public:
  graph_tenancy(const graph_memory_support& support, const graph_memory_place& place,
                std::size_t bytes);

  [[nodiscard]] std::size_t bytes_held() const override;
  [[nodiscard]] std::size_t bytes_reached() const override;
  [[nodiscard]] device_set devices_with(right needed) const override;

 private:
  friend class graph_memory;

  const graph_memory_support support_;
  const graph_memory_place place_;
  const std::size_t bytes_;

  mutable std::mutex mutex_;
  std::weak_ptr<graph_memory> owner_;
  /// Set while any launch has its bytes: the graph may be destroyed before they are freed.
  std::shared_ptr<graph_memory> kept_;
  std::uint64_t recorder_ = 0;  // the capture that allocates it and has not freed it yet
  std::size_t launches_ = 0;    // allocations launched whose free has not run
  bool held_ = false;           // allocated by work submitted so far
  bool reached_ = false;        // allocated by work executed so far
};

/// Memory that a graph allocates. Its addresses last from the capture until no graph, executable
/// graph or holder knows them; it has bytes of the device from a launch until its free has run.
/// Thread-safe.
class graph_memory : public std::enable_shared_from_this<graph_memory> {
 public:
  static std::shared_ptr<graph_memory> reserve(const graph_memory_support& support,
                                               const graph_memory_place& place, std::size_t bytes,
                                               std::uint64_t recorder);
  /// Null when the memory is ending.
  static std::shared_ptr<graph_memory> at(const tracked_range& found);
  explicit graph_memory(std::shared_ptr<graph_tenancy> tenant) noexcept;
  graph_memory& operator=(graph_memory&&) = delete;
  ~graph_memory();

  [[nodiscard]] address start() const noexcept { return start_; }

  [[nodiscard]] bool is_recorded_by(std::uint64_t recorder) const;
  void end_recording();

  [[nodiscard]] bool is_held() const;
  /// The submission of an allocation: charges the device. Throws: failure with hipErrorInvalidValue
  /// while it is held, with hipErrorOutOfMemory when the device lacks memory.
  void take();
  void undo_take();
  /// The submission of a free. Throws: failure with hipErrorInvalidValue unless it is held.
  void drop();
  void undo_drop();
  /// The execution of both.
  void open();
  void close();

 private:
  void end_launch(std::unique_lock<std::mutex>& lock);
  void set_held(bool held);

  const std::shared_ptr<graph_tenancy> tenant_;
  address start_ = 0;
};

enum class graph_memory_step { allocate, free };
class graph_memory_operation final : public operation {
 public:
  graph_memory_operation(std::shared_ptr<graph_memory> memory, graph_memory_step step) noexcept
      : memory_{std::move(memory)}, step_{step} {}
  hipError_t execute(stream_queue& in) const override;

  [[nodiscard]] graph_memory& memory() const noexcept { return *memory_; }
  [[nodiscard]] const std::shared_ptr<graph_memory>& shared_memory() const noexcept {
    return memory_;
  }
  [[nodiscard]] graph_memory_step step() const noexcept { return step_; }

 private:
  std::shared_ptr<graph_memory> memory_;
  graph_memory_step step_;
};
graph_form graph_memory_node(std::shared_ptr<graph_memory> memory, graph_memory_step step);

/// Frees graph memory now, when no work uses it any more, or in stream order. Throws: failure with
/// hipErrorInvalidValue unless it is held.
void free_graph_memory(const tracked_range& found);
hipError_t free_graph_memory(stream_owner& owner, const tracked_range& found,
                             stream_queue& freeing);

}  // namespace hipvmm::host_provider
