// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>
#include <sys/types.h>

#include <cstdint>

#include "base/descriptor.hpp"

namespace hipvmm::host_provider {

/// The records of an interprocess event, in a memory file that all its processes map. Records are
/// numbered from 1 over all processes. Thread-safe.
class shared_event {
 public:
  struct address_of_file {
    pid_t process;
    int file;
    dev_t file_device;
    ino_t file_number;
  };

  shared_event();
  /// Opens an event of another process. Throws: failure with hipErrorInvalidValue when it has
  /// ended.
  explicit shared_event(const address_of_file& exported);
  shared_event& operator=(shared_event&&) = delete;
  ~shared_event();

  /// Throws: failure with hipErrorOperatingSystem when the file cannot be queried.
  [[nodiscard]] address_of_file exported() const;

  [[nodiscard]] bool has_place() const noexcept;
  /// Counts a record before this process submits its work, and returns its number. Waits while
  /// too many records are not reached, as AMD's runtime does.
  std::uint64_t begin_record() noexcept;
  void reach(std::uint64_t number) noexcept;
  /// 0 before the first record.
  [[nodiscard]] std::uint64_t last() const noexcept;
  [[nodiscard]] bool reached(std::uint64_t number) const noexcept;
  /// Returns hipErrorIllegalState when the process that made the record has ended before it was
  /// reached.
  hipError_t wait(std::uint64_t number) const noexcept;

 private:
  struct contents;

  void map();

  descriptor file_;
  contents* contents_ = nullptr;
};

}  // namespace hipvmm::host_provider
