// SPDX-License-Identifier: MIT
#pragma once

#include <iosfwd>
#include <memory>
#include <string>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

class csv_log;

/// Writes a CSV row for each allocation and deallocation, for hipvmm-replay and RMM's replay.
/// - Columns: thread, time of day, "allocate", "free" or "allocate failure", address, bytes, stream
///   (0x0 without one).
/// - The row of a free precedes the row of every later allocation of its address, in any threads.
/// - If a write fails, the log ends with a whole row; the error handler gets one report.
class logging_resource_adaptor final : public resource_adaptor {
 public:
  /// Logs to a file, which is created with its folders, or replaced. No other adaptor may be
  /// writing to it. Rows are buffered until there are 64 KiB of them, flush(), or the end. With
  /// `auto_flush` each call writes its row, by a system call.
  /// Throws: as get_default_filename(); std::system_error, which names the file, if writing fails.
  explicit logging_resource_adaptor(memory_resource* upstream,
                                    const std::string& filename = get_default_filename(),
                                    bool auto_flush = false);
  /// Logs to a stream, which must outlive the adaptor, and which nothing else uses meanwhile. With
  /// `auto_flush` the stream is flushed after each row.
  logging_resource_adaptor(memory_resource* upstream, std::ostream& stream,
                           bool auto_flush = false);
  ~logging_resource_adaptor() override;

  /// Throws: std::runtime_error if rows cannot be written, or an earlier failure has ended the log.
  void flush();
  /// The first row: "Thread,Time,Action,Pointer,Size,Stream".
  [[nodiscard]] std::string header() const;
  /// Returns the environment variable HIPVMM_LOG_FILE or, without that, RMM_LOG_FILE.
  /// Throws: std::invalid_argument when both are unset or empty.
  [[nodiscard]] static std::string get_default_filename();

 private:
  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;

  std::unique_ptr<csv_log> log_;
};

}  // namespace hipvmm::mr
