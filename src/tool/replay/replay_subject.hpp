// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hipvmm/core/driver_calls.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::tool {

/// The memory of a resource at one moment, in bytes.
struct memory_held {
  std::size_t physical;
  std::optional<std::size_t> mapped;  ///< with an address; none if equal or unknown
};

class replay_subject {
 public:
  virtual ~replay_subject() = default;
  [[nodiscard]] virtual mr::memory_resource& resource() noexcept = 0;
  /// Called once. From then on only the replay takes memory of the device.
  virtual void begin() {}
  /// Called before each epoch but the first, with nothing allocated: peak_physical() starts anew.
  virtual void begin_epoch() {}
  /// Called, outside of measured calls, whenever more bytes are requested than before in the epoch.
  virtual void look() {}
  /// Called before the stream, which has no more work, is destroyed.
  virtual void forget(stream_ref) {}
  /// Most physical memory it held from HIP in this epoch, in bytes.
  [[nodiscard]] virtual std::size_t peak_physical() const = 0;
  [[nodiscard]] virtual memory_held held() const = 0;
  [[nodiscard]] virtual std::vector<driver_calls> calls() const = 0;
};

struct subject_options {
  device_ref device;
  std::optional<std::size_t> limit_bytes;
  /// Options of the C interface: "largest_chunk=8MiB,maximum=80%".
  std::string settings = {};
};

struct subject_kind {
  std::string_view name;
  std::string_view meaning;
  std::unique_ptr<replay_subject> (*make)(const subject_options&);
};

[[nodiscard]] std::span<const subject_kind> subject_kinds() noexcept;

/// Throws: std::invalid_argument if there is no such name (the message lists all), if the kind
/// takes no limit, or for unknown settings; unsupported if the device lacks a necessary property.
[[nodiscard]] std::unique_ptr<replay_subject> make_subject(std::string_view name,
                                                           const subject_options& options);

}  // namespace hipvmm::tool
