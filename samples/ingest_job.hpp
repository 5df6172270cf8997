// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "ingest_input.hpp"

namespace ingest {

/// The cost of growth.
struct growth_figures {
  std::size_t steps = 0;         ///< times memory was added
  std::size_t chunks = 0;        ///< pieces of physical memory held now
  std::size_t bytes_copied = 0;  ///< bytes copied because of growth
  bool base_moved = false;       ///< whether the first byte has changed its address
  std::size_t peak_bytes = 0;    ///< most physical memory held at one time
};

/// Bytes on one device that grow at the end. The methods that ingest compares differ in nothing
/// else.
class device_bytes {
 public:
  virtual ~device_bytes() = default;
  /// Appends `bytes` bytes from pageable host memory, which may be reused when the call returns.
  virtual void append(const unsigned char* source, std::size_t bytes,
                      hipvmm::stream_ref stream) = 0;
  [[nodiscard]] virtual const unsigned char* data() const noexcept = 0;
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
  [[nodiscard]] virtual growth_figures growth() const noexcept = 0;
};

enum class growth_method {
  vmm,   ///< map more memory behind the old
  copy,  ///< allocate twice as much, copy, free: the way without virtual memory management
};

/// The options of a run; see ingest --help.
struct job {
  growth_method method = growth_method::vmm;
  hipvmm::device_ref device{0};
  std::size_t block_bytes = 8 * hipvmm::MiB;
  /// Addresses the vmm method reserves; zero: the device's memory.
  std::size_t max_bytes = 0;
  bool check = false;
  /// Called with the bytes read so far, after every block.
  std::function<void(std::size_t)> on_progress = {};
};

struct report {
  std::size_t bytes = 0;
  growth_figures growth = {};
  double seconds = 0;  ///< from before the first byte was read until the last was on the device
  std::optional<bool> verified = {};  ///< with job::check: the device's bytes are those read
};

/// Empty bytes on the job's device that grow by its method.
/// Throws: as growable_device_vector's constructor.
[[nodiscard]] std::unique_ptr<device_bytes> make_device_bytes(const job& job);

/// Reads `source` to its end and appends all of it to `destination`.
/// Throws: std::system_error if reading fails; as `destination`.
[[nodiscard]] report run(const job& job, input& source, device_bytes& destination);

/// The same into bytes made for the job and released before it returns.
[[nodiscard]] report run(const job& job, input& source);

}  // namespace ingest
