// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <filesystem>
#include <mutex>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include <hipvmm/runtime/stream.hpp>
#include "core/check.hpp"
#include "core/descriptors.hpp"
#include "core/environment.hpp"
#include "core/write_signals.hpp"

namespace hipvmm::mr {

/// Throws std::runtime_error on failure; then it is not called again.
struct log_sink {
  virtual ~log_sink() = default;
  virtual void write(std::string_view rows) = 0;
  virtual void flush() {}
};

namespace {

constexpr std::size_t held_back_bytes = 64 * 1024;
constexpr std::size_t longest_row = 160;

class file_sink final : public log_sink {
 public:
  explicit file_sink(const std::string& name) : name_{name} {
    detail::require_file_name(name);
    make_folder();
    file_ = detail::file_descriptor{::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)};
    if (file_.empty()) fail("cannot be opened", errno);
    take_over();
  }
  ~file_sink() override {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  file_sink& operator=(file_sink&&) = delete;

  void write(std::string_view rows) override {
    const detail::without_write_signals failing;
    if (std::exchange(replaces_, false)) leave_earlier_log();
    std::string_view rest = rows;
    while (!rest.empty()) {
      const ssize_t put = ::write(file_.get(), rest.data(), rest.size());
      if (put >= 0) {
        rest.remove_prefix(static_cast<std::size_t>(put));
      } else if (errno != EINTR) {
        const int error = errno;
        if (!temporary_.empty()) fail("cannot begin, and the earlier one stays", error);
        drop_part_of_row(rows.substr(0, rows.size() - rest.size()));
        fail(
            "ends here, without later allocations and frees; make room or name a file elsewhere, "
            "and begin a new log",
            error);
      }
    }
    if (!temporary_.empty()) take_name(rows);
  }

 private:
  [[noreturn]] void fail(const char* what, int error) const {
    throw std::system_error{error, std::generic_category(),
                            "logging_resource_adaptor: the log '" + name_ + "' " + what};
  }

  void make_folder() const {
    const std::filesystem::path folder = std::filesystem::path{name_}.parent_path();
    std::error_code error;
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error) fail("has no folder, and it cannot be made", error.value());
  }

  // Processes that share an environment would write two logs into one file.
  void take_over() {
    struct stat about {};
    if (::fstat(file_.get(), &about) != 0) fail("cannot be looked at", errno);
    is_regular_ = S_ISREG(about.st_mode);
    if (!is_regular_) return;
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      fail("is being written by another adaptor, of this process or another; name one for each",
           errno);
    path_ = std::filesystem::canonical(name_);
    // Between open and lock another adaptor may have put its own log there.
    struct stat named {};
    if (::stat(path_.c_str(), &named) != 0 || named.st_dev != about.st_dev ||
        named.st_ino != about.st_ino)
      fail("is being begun by another adaptor; name one for each", EWOULDBLOCK);
    replaces_ = about.st_size != 0;
  }

  // The first row goes to a new file, which then takes the name: a full disk leaves the earlier
  // log, and its readers continue. If no file can be made beside it, it is emptied.
  void leave_earlier_log() {
    std::string path = path_.parent_path() / ".hipvmm-XXXXXX";
    detail::file_descriptor file{::mkostemp(path.data(), O_CLOEXEC)};
    if (!file.empty()) {
      struct stat about {};
      const bool is_alike =
          ::fstat(file_.get(), &about) == 0 &&
          (about.st_uid == ::geteuid() || ::fchown(file.get(), about.st_uid, about.st_gid) == 0) &&
          ::fchmod(file.get(), about.st_mode & 0777U) == 0 &&
          ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
      if (is_alike) {
        temporary_ = path;
        earlier_ = std::exchange(file_, std::move(file));
        return;
      }
      ::unlink(path.c_str());
    }
    if (::ftruncate(file_.get(), 0) != 0) fail("cannot be emptied", errno);
  }

  // The earlier log stays locked until the rename, so that no process takes it over. A file that is
  // a mount of its own cannot be replaced: it is emptied.
  void take_name(std::string_view rows) {
    if (::rename(temporary_.c_str(), path_.c_str()) == 0) {
      temporary_.clear();
      earlier_.close();
      return;
    }
    ::unlink(std::exchange(temporary_, {}).c_str());
    file_ = std::exchange(earlier_, {});
    if (::ftruncate(file_.get(), 0) != 0) fail("cannot be emptied", errno);
    write(rows);
  }

  void drop_part_of_row(std::string_view written) const noexcept {
    const std::size_t whole = written.rfind('\n') + 1;  // of npos: 0
    const off_t end = ::lseek(file_.get(), 0, SEEK_CUR);
    if (!is_regular_ || end < 0) return;
    const off_t whole_rows = end - static_cast<off_t>(written.size() - whole);
    // If this fails too, the file ends with part of a row, which every reader detects.
    if (::ftruncate(file_.get(), whole_rows) != 0) return;
  }

  std::string name_;
  std::filesystem::path path_;  // without symbolic links
  detail::file_descriptor file_;
  bool is_regular_ = false;
  bool replaces_ = false;  // the first rows replace an earlier log
  std::string temporary_;  // of file_, until it has the log's name; then empty
  detail::file_descriptor earlier_;
};

class stream_sink final : public log_sink {
 public:
  stream_sink(std::ostream& stream, bool auto_flush) : stream_{stream}, auto_flush_{auto_flush} {}

  void write(std::string_view rows) override {
    stream_.write(rows.data(), static_cast<std::streamsize>(rows.size()));
    auto_flush_ ? flush() : require_good();
  }
  void flush() override {
    stream_.flush();
    require_good();
  }

 private:
  void require_good() const {
    if (!stream_)
      throw std::runtime_error{
          "logging_resource_adaptor: the log ends here, without later allocations and frees, "
          "because writing to its stream failed"};
  }

  std::ostream& stream_;
  bool auto_flush_;
};

class row_text {
 public:
  row_text& text(std::string_view column) {
    end_ = std::copy(column.begin(), column.end(), end_);
    return *this;
  }
  row_text& number(std::size_t column) { return put(column, 10); }
  row_text& address(const void* column) {
    return text("0x").put(reinterpret_cast<std::uintptr_t>(column), 16);
  }
  [[nodiscard]] std::string_view view() const {
    return {text_.data(), static_cast<std::size_t>(end_ - text_.data())};
  }

 private:
  row_text& put(std::size_t column, int base) {
    end_ = std::to_chars(end_, text_.data() + text_.size(), column, base).ptr;
    return *this;
  }

  std::array<char, longest_row> text_;
  char* end_ = text_.data();
};

}  // namespace

/// Writes rows in the order in which threads add them. Does not use spdlog, which misses failures
/// of an ostream and continues after rows lost on a full disk.
class csv_log {
 public:
  static constexpr std::string_view header = "Thread,Time,Action,Pointer,Size,Stream";

  csv_log(const std::string& filename, bool auto_flush)
      : csv_log{std::make_unique<file_sink>(filename), auto_flush ? 0 : held_back_bytes} {}
  csv_log(std::ostream& stream, bool auto_flush)
      : csv_log{std::make_unique<stream_sink>(stream, auto_flush), 0} {}
  ~csv_log() {
    detail::report_exceptions([this] {
      if (!failure_) write_held_back();
    });
  }
  csv_log& operator=(csv_log&&) = delete;

  /// The error handler gets a failure that ends the log, after the lock is released.
  void add(std::string_view action, const void* pointer, std::size_t bytes,
           stream_ref stream) noexcept {
    detail::report_exceptions([&] {
      const std::lock_guard lock{mutex_};
      if (failure_) return;
      row_text row;
      const auto thread = static_cast<std::size_t>(::gettid());
      row.number(thread).text(",").text(time_of_day()).text(",").text(action).text(",");
      row.address(pointer).text(",").number(bytes).text(",").address(stream.get()).text("\n");
      rows_.append(row.view());
      if (rows_.size() > buffer_limit_) write_held_back();
    });
  }

  void flush() {
    const std::lock_guard lock{mutex_};
    if (failure_) std::rethrow_exception(failure_);
    write_held_back(true);
  }

 private:
  csv_log(std::unique_ptr<log_sink> to, std::size_t buffer_limit)
      : sink_{std::move(to)}, buffer_limit_{buffer_limit} {
    rows_.reserve(buffer_limit + longest_row);
    // At once: a write error appears here rather than in the first allocation.
    rows_.append(header).append("\n");
    write_held_back();
  }

  // Pre: the lock is held, so that times do not go back from row to row.
  std::string_view time_of_day() {
    std::timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != second_) {
      std::tm parts{};
      ::localtime_r(&now.tv_sec, &parts);
      std::strftime(time_.data(), time_.size(), "%H:%M:%S.", &parts);
      second_ = now.tv_sec;
    }
    auto rest = now.tv_nsec / 1000;
    constexpr std::size_t fraction = 9, length = 15;
    for (std::size_t i = length; i-- > fraction; rest /= 10)
      time_[i] = static_cast<char>('0' + rest % 10);
    return {time_.data(), length};
  }

  void write_held_back(bool through = false) {
    try {
      sink_->write(rows_);
      if (through) sink_->flush();
      rows_.clear();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  const std::unique_ptr<log_sink> sink_;
  const std::size_t buffer_limit_;

  std::mutex mutex_;  // guards the members below
  std::string rows_;
  std::exception_ptr failure_;
  std::time_t second_ = -1;
  std::array<char, 16> time_{};
};

logging_resource_adaptor::logging_resource_adaptor(memory_resource* upstream,
                                                   const std::string& filename, bool auto_flush)
    : resource_adaptor{"logging_resource_adaptor", upstream},
      log_{std::make_unique<csv_log>(filename, auto_flush)} {}

logging_resource_adaptor::logging_resource_adaptor(memory_resource* upstream, std::ostream& stream,
                                                   bool auto_flush)
    : resource_adaptor{"logging_resource_adaptor", upstream},
      log_{std::make_unique<csv_log>(stream, auto_flush)} {}

logging_resource_adaptor::~logging_resource_adaptor() {
  if (is_of_parent()) static_cast<void>(log_.release());  // the parent writes its rows
}

void logging_resource_adaptor::flush() {
  require_own_process();
  log_->flush();
}

std::string logging_resource_adaptor::header() const { return std::string{csv_log::header}; }

std::string logging_resource_adaptor::get_default_filename() {
  for (const char* const variable : {"HIPVMM_LOG_FILE", "RMM_LOG_FILE"})
    if (const char* const name = detail::environment(variable); name != nullptr && *name != '\0')
      return name;
  throw std::invalid_argument{
      "logging_resource_adaptor: no file to log to: pass its name, or set HIPVMM_LOG_FILE (or "
      "RMM_LOG_FILE) in the environment"};
}

// The row of an allocation follows it, and the row of a free precedes the upstream's, so that no
// row overtakes the one that it depends on.
void* logging_resource_adaptor::do_allocate_any(const request& wanted) {
  const stream_ref stream = wanted.stream.value_or(stream_ref::legacy_default());
  void* result = nullptr;
  try {
    result = resource_adaptor::do_allocate_any(wanted);
  } catch (...) {
    log_->add("allocate failure", nullptr, wanted.bytes, stream);
    throw;
  }
  log_->add("allocate", result, wanted.bytes, stream);
  return result;
}

void logging_resource_adaptor::do_deallocate_any(void* pointer, const request& freed) noexcept {
  log_->add("free", pointer, freed.bytes, freed.stream.value_or(stream_ref::legacy_default()));
  resource_adaptor::do_deallocate_any(pointer, freed);
}

}  // namespace hipvmm::mr
