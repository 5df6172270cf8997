// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/descriptor.hpp"
#include "base/handle_table.hpp"
#include "base/profile.hpp"
#include "memory/device_memory.hpp"

namespace hipvmm::host_provider {

inline hipMemAllocationProp pinned_on(int device) noexcept {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, device};
  return properties;
}

/// Physical memory of hipMemCreate, hipMalloc or an import: a range of a file. Handles and mappings
/// share it; the last of them returns the pages and the budget.
class chunk {
 public:
  /// A new range of the device's sparse file, or, when its properties make it shareable, a file of
  /// its own, so that an export shares nothing else.
  chunk(device_memory& memory, const hipMemAllocationProp& properties, std::size_t bytes)
      : chunk{memory, properties, properties.location.id, bytes} {}
  /// The same on `device`, which the properties may not name.
  chunk(device_memory& memory, const hipMemAllocationProp& properties, int device,
        std::size_t bytes);
  /// Memory of another chunk, of `device`, at `offset` of its file; not charged to any budget.
  chunk(descriptor file, const hipMemAllocationProp& properties, int device, std::size_t bytes,
        off_t offset = 0) noexcept;
  ~chunk();
  chunk& operator=(chunk&&) = delete;

  [[nodiscard]] const hipMemAllocationProp& properties() const noexcept { return properties_; }
  [[nodiscard]] bool is_on_host() const noexcept;
  /// The owner; device 0 stands for memory on the host.
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] int file() const noexcept;
  [[nodiscard]] off_t offset() const noexcept { return offset_; }
  /// The one handle this chunk has had since chunk_table::add.
  [[nodiscard]] std::uint64_t handle() const noexcept { return handle_; }

  /// Files held by shareable chunks in this process.
  static std::uint64_t open_files() noexcept;
  /// In a child after fork: counts none of its parent's chunks.
  static void forget_all() noexcept;

 private:
  const hipMemAllocationProp properties_;
  const int device_;
  const std::size_t bytes_;
  device_memory* const memory_;  // null: imported
  descriptor own_file_;          // empty: a range of the device's file
  descriptor spent_;             // on nothing, if each chunk costs one
  off_t offset_ = 0;
  std::uint64_t handle_ = 0;
  bool counted_ = false;  // among those that the fault plan limits

  friend class chunk_table;
};

/// The name of a shareable chunk's file.
inline constexpr std::string_view chunk_file = "chunk";

/// Chunks by handle, with the count of references that hipMemCreate, import and retain add and
/// hipMemRelease removes. A handle without a reference is unknown, even while mappings keep the
/// memory. If the runtime follows handles, it works until the last mapping ends, and a retain
/// through such a mapping returns the same handle. Thread-safe.
class chunk_table {
 public:
  explicit chunk_table(const profile& rules) noexcept : rules_{rules} {}

  std::uint64_t add(std::shared_ptr<chunk> memory);
  /// Throws: failure with hipErrorInvalidValue for a handle that has no reference.
  [[nodiscard]] std::shared_ptr<chunk> find(std::uint64_t handle) const;
  void retain(const std::shared_ptr<chunk>& memory);
  void release(std::uint64_t handle);
  [[nodiscard]] std::uint64_t references() const;
  struct live_handle {
    std::uint64_t handle;
    std::size_t bytes;
    int device;
    std::uint64_t references;
  };
  /// Every handle with a reference left, oldest first.
  [[nodiscard]] std::vector<live_handle> live() const;

 private:
  struct entry {
    std::shared_ptr<chunk> memory;
    std::uint64_t references;
  };
  using entry_map = std::unordered_map<std::uint64_t, entry>;

  [[noreturn]] void refuse(std::uint64_t handle) const;
  void lend(const std::shared_ptr<chunk>& memory);

  const profile& rules_;
  mutable std::mutex mutex_;
  handle_source source_{handle_kind::chunk};
  entry_map entries_;
  // Handles without a reference that work while a mapping keeps the memory.
  std::unordered_map<std::uint64_t, std::weak_ptr<chunk>> lent_;
  std::size_t lent_limit_ = 64;  // ended ones are removed beyond that many
  std::uint64_t references_ = 0;
};

}  // namespace hipvmm::host_provider
