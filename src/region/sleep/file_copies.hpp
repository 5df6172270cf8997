// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "runtime/host/pinned_memory.hpp"

namespace hipvmm::detail {

/// Like FNV-1a, by words of 64 bits. `before` is the sum of the bytes in front. Not cryptographic.
[[nodiscard]] std::uint64_t checksum(const void* bytes, std::size_t count,
                                     std::uint64_t before = 0) noexcept;

/// Owns a file, and room on the disk for all of its bytes.
class backup_file {
 public:
  backup_file() noexcept = default;
  /// A file without a name; none for 0 bytes. Throws: std::invalid_argument if no folder is named;
  /// std::system_error.
  backup_file(const std::string& folder, std::size_t bytes);
  /// A temporary file beside `path`, until take_name(). Throws: std::system_error.
  [[nodiscard]] static backup_file beside(const std::string& path, std::size_t bytes);
  /// To be read. Throws: std::system_error; std::invalid_argument if it is no regular file, or if
  /// others than this user may have written it.
  [[nodiscard]] static backup_file open(const std::string& path);
  backup_file(backup_file&& other) noexcept { swap(other); }
  backup_file& operator=(backup_file&& other) noexcept {
    backup_file moved{std::move(other)};
    swap(moved);
    return *this;
  }
  ~backup_file();

  [[nodiscard]] bool empty() const noexcept { return descriptor_ < 0; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Throws: std::system_error.
  void write(const void* from, std::size_t bytes, std::size_t offset) const;
  void read(void* to, std::size_t bytes, std::size_t offset) const;
  /// Flushes the file of beside() to the disk, renames it to `path`, and flushes the folder if it
  /// may be read. Throws: std::system_error; if only the last flush failed, the file has the name.
  void take_name(const std::string& path);

 private:
  void swap(backup_file& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(bytes_, other.bytes_);
    name_.swap(other.name_);
  }
  template <class Make>
  void take(const std::string& folder, std::size_t bytes, Make make);

  int descriptor_ = -1;
  std::size_t bytes_ = 0;
  std::string name_;  // to be removed
};

/// Copies between devices and files through two pinned buffers: a device copies one while the other
/// is written or read.
class file_copies {
 public:
  file_copies() = default;
  /// Adds all bytes to this checksum(), in the order of the calls, each call in pieces of 32 MiB.
  explicit file_copies(std::uint64_t& sum) noexcept : sum_{&sum} {}
  ~file_copies();
  file_copies& operator=(file_copies&&) = delete;

  /// `file` must live until finish(). Throws: out_of_memory, hip_error, std::system_error.
  void save(device_ref device, const void* from, std::size_t bytes, const backup_file& file,
            std::size_t offset);
  void load(device_ref device, void* to, std::size_t bytes, const backup_file& file,
            std::size_t offset);
  /// Waits for all copies, and writes the rest. Throws: hip_error, std::system_error.
  void finish();
  /// Waits for all copies, also failed ones. Returns false if HIP refused a wait.
  [[nodiscard]] bool drain() noexcept;

 private:
  struct buffer {
    buffer(device_ref device, std::size_t most);
    device_ref owner;
    std::size_t size;
    pinned_memory memory;
    hipvmm::stream stream;
    bool is_busy = false;
    const backup_file* file = nullptr;  // of save(): to be written after the copy
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] buffer& next_buffer(device_ref device, std::size_t bytes);
  void finish(buffer& one);
  void add(const buffer& one, std::size_t bytes) const noexcept;

  std::uint64_t* sum_ = nullptr;
  std::optional<buffer> buffers_[2];
  std::size_t next_ = 0;
};

}  // namespace hipvmm::detail
