// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <ctime>
#include <exception>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {

/// Writes the rows of an allocation log, in the order in which threads add them. Does not use
/// spdlog, which
/// - takes two and a half times as long for a row,
/// - does not detect failures of an ostream,
/// - retries for 50 ms to open a file that it cannot open, and
/// - continues after rows lost on a full disk.
class csv_log {
 public:
  static constexpr std::string_view header = "Thread,Time,Action,Pointer,Size,Stream";

  csv_log(const std::string& filename, bool auto_flush);
  csv_log(std::ostream& stream, bool auto_flush);
  ~csv_log();
  csv_log& operator=(csv_log&&) = delete;

  /// Adds a row. A failure that ends the log is reported to the error handler, after the lock is
  /// released.
  void add(std::string_view action, const void* pointer, std::size_t bytes,
           stream_ref stream) noexcept;
  void flush();

  /// Destination of the rows. Throws std::runtime_error on failure; then it is not called again.
  struct sink {
    virtual ~sink() = default;
    virtual void write(std::string_view rows) = 0;
    virtual void flush() {}
  };

 private:
  csv_log(std::unique_ptr<sink> to, std::size_t buffer_limit);

  std::string_view time_of_day();
  void write_held_back(bool through = false);

  const std::unique_ptr<sink> sink_;
  const std::size_t buffer_limit_;  // rows are written when they exceed this many bytes

  std::mutex mutex_;  // guards the members below
  std::string rows_;
  std::exception_ptr failure_;  // that ended the log
  std::time_t second_ = -1;
  std::array<char, 16> time_{};  // 12:34:56.123456, of second_
};

}  // namespace hipvmm::mr
