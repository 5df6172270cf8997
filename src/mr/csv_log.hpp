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

#include <hipvmm/core/stream.hpp>

namespace hipvmm::mr {

/// The rows of a log of allocations, in the order in which threads add them. Not by spdlog, which
/// takes two and a half times as long for a row, sees no failure of an ostream, tries for 50 ms to
/// open what it cannot, and goes on behind rows that a full disk has swallowed.
class csv_log {
 public:
  csv_log(std::string_view header, const std::string& filename, bool auto_flush);
  csv_log(std::string_view header, std::ostream& stream, bool auto_flush);
  ~csv_log();
  csv_log(const csv_log&) = delete;
  csv_log& operator=(const csv_log&) = delete;

  /// Adds a row. The error handler is told, behind the lock, when that ends the log.
  void add(std::string_view action, const void* pointer, std::size_t bytes,
           stream_ref stream) noexcept;
  void flush();

  /// Where rows go. Throws std::runtime_error where it cannot; then it is asked no more.
  struct sink {
    virtual ~sink() = default;
    virtual void write(std::string_view rows) = 0;
    virtual void flush() {}
  };

 private:
  csv_log(std::string_view header, std::unique_ptr<sink> to, std::size_t hold_back);

  void put_row(std::string_view action, const void* pointer, std::size_t bytes, stream_ref stream);
  std::string_view time_of_day();
  void write_held_back(bool through = false);

  const std::unique_ptr<sink> sink_;
  const std::size_t hold_back_;  // rows are written when there are more bytes of them

  std::mutex mutex_;  // for what follows
  std::string rows_;
  std::exception_ptr failure_;  // that ended the log
  std::time_t second_ = -1;
  std::array<char, 16> time_{};  // 12:34:56.123456, of second_
};

}  // namespace hipvmm::mr
