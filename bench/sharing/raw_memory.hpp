// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <utility>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

// HIP's calls that no library can avoid, with owners that release and nothing else around them.
namespace bench {

/// Throws: hipvmm::hip_error.
void require(hipError_t result, const char* call);

/// A reservation and chunks that are mapped one behind the other, shareable with other processes.
class raw_memory {
 public:
  raw_memory(hipvmm::device_ref device, std::size_t max_bytes, std::size_t max_chunks);
  ~raw_memory();
  raw_memory(const raw_memory&) = delete;
  raw_memory& operator=(const raw_memory&) = delete;

  /// Creates and maps a chunk behind the others.
  void add(std::size_t bytes);
  /// Exports the chunk that was added last. Returns a descriptor, which the caller closes.
  [[nodiscard]] int export_last() const;
  /// Maps a chunk of another process behind the others.
  void import(int descriptor, std::size_t bytes);
  /// Moves all chunks to `to`, one after the other, by a copy in `stream` and a new chunk at the
  /// same address. Both devices have access then.
  void move_to(hipvmm::device_ref to, hipvmm::stream_ref stream);
  /// Sets the right of `devices` to each chunk: one call for each.
  void set_access(const std::vector<hipvmm::device_ref>& devices, hipMemAccessFlags right) const;

  [[nodiscard]] void* at(std::size_t offset) const { return static_cast<char*>(base_) + offset; }
  [[nodiscard]] std::size_t bytes() const noexcept { return committed_; }

 private:
  [[nodiscard]] static hipMemGenericAllocationHandle_t create(hipvmm::device_ref device,
                                                              std::size_t bytes);
  void map(hipMemGenericAllocationHandle_t handle, std::size_t bytes);

  hipvmm::device_ref device_;
  std::size_t max_bytes_;
  std::size_t committed_ = 0;
  void* base_ = nullptr;
  std::vector<std::pair<hipMemGenericAllocationHandle_t, std::size_t>> chunks_;
};

}  // namespace bench
