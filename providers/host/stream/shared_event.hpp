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
  /// The address with which another process opens the event.
  struct address_of_file {
    pid_t process;
    int file;
    dev_t file_device;
    ino_t file_number;
  };

  /// A new event, never recorded.
  shared_event();
  /// The event of another process.
  /// Throws: failure with hipErrorInvalidValue when it is not there any more.
  explicit shared_event(const address_of_file& exported);
  shared_event& operator=(shared_event&&) = delete;
  ~shared_event();

  /// Throws: failure with hipErrorOperatingSystem when the file cannot be asked.
  [[nodiscard]] address_of_file exported() const;

  /// Whether one more record need not wait.
  [[nodiscard]] bool has_place() const noexcept;
  /// Counts one more record, whose work is about to be submitted by this process; gives its number.
  /// Waits while too many records are not reached, as AMD's runtime does.
  std::uint64_t begin_record() noexcept;
  /// The work before that record has finished.
  void reach(std::uint64_t number) noexcept;
  /// The last record; 0 before the first.
  [[nodiscard]] std::uint64_t last() const noexcept;
  [[nodiscard]] bool reached(std::uint64_t number) const noexcept;
  /// Waits until that record is reached.
  /// Returns: hipErrorIllegalState when the process that recorded it has ended before.
  hipError_t wait(std::uint64_t number) const noexcept;

 private:
  struct contents;

  void map();

  descriptor file_;
  contents* contents_ = nullptr;
};

}  // namespace hipvmm::host_provider
