// SPDX-License-Identifier: MIT
#include "tool/replay/replay_trace.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

// Without its thread, which would only read ahead.
#define CSV_IO_NO_THREAD
#include <libfccp/csv.h>

#include "core/descriptors.hpp"

namespace hipvmm::tool {
namespace {

/// A file's bytes, unpacked. Not by zlib's gzread, which silently skips bytes behind packed data.
class unpacked_file final : public io::ByteSourceBase {
 public:
  /// Sets `ends_with_row` to whether the bytes read so far end with a row. The caller has the
  /// variable, because the parser may end this object before its last row.
  unpacked_file(const std::string& path, bool& ends_with_row)
      : ends_with_row_{ends_with_row},
        descriptor_{path == "-" ? ::dup(STDIN_FILENO)
                                : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)} {
    if (descriptor_.empty())
      throw std::system_error{errno, std::generic_category(), "cannot open it"};
    constexpr int gzip_alone = 15 + 16;
    if (::inflateInit2(&stream_, gzip_alone) != Z_OK) throw std::bad_alloc{};
  }
  ~unpacked_file() override { ::inflateEnd(&stream_); }
  unpacked_file& operator=(unpacked_file&&) = delete;

  int read(char* buffer, int size) override {  // less than `size`: the end
    stream_.next_out = reinterpret_cast<unsigned char*>(buffer);
    stream_.avail_out = static_cast<unsigned>(size);
    while (stream_.avail_out != 0 && has_input()) form_ == form::plain ? copy() : unpack();
    const int got = size - static_cast<int>(stream_.avail_out);
    if (got != 0) ends_with_row_ = buffer[got - 1] == '\n';
    return got;
  }

 private:
  enum class form : std::uint8_t { unknown, plain, packed, between_packed };

  /// Reads until there are two bytes, by which packed data begins, or no more. False at the end.
  bool has_input() {
    while (stream_.avail_in < magic.size() && !at_end_) {
      std::copy_n(stream_.next_in, stream_.avail_in, input_.data());
      stream_.next_in = input_.data();
      const ssize_t got = ::read(descriptor_.get(), input_.data() + stream_.avail_in,
                                 input_.size() - stream_.avail_in);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw std::system_error{errno, std::generic_category(), "cannot read it"};
      at_end_ = got == 0;
      stream_.avail_in += static_cast<unsigned>(got);
    }
    if (stream_.avail_in == 0 && form_ == form::packed) refuse("it ends within its packed data");
    if (stream_.avail_in == 0) return false;
    const bool begins_packed =
        stream_.avail_in >= magic.size() && std::equal(magic.begin(), magic.end(), stream_.next_in);
    if (form_ == form::unknown) form_ = begins_packed ? form::packed : form::plain;
    if (form_ == form::between_packed) {
      if (!begins_packed) refuse("something else follows its packed data");
      ::inflateReset(&stream_);
      form_ = form::packed;
    }
    return true;
  }

  void copy() {
    const unsigned bytes = std::min(stream_.avail_in, stream_.avail_out);
    stream_.next_out = std::copy_n(stream_.next_in, bytes, stream_.next_out);
    stream_.next_in += bytes;
    stream_.avail_in -= bytes;
    stream_.avail_out -= bytes;
  }

  void unpack() {
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END)
      form_ = form::between_packed;
    else if (code != Z_OK && code != Z_BUF_ERROR)
      refuse(stream_.msg != nullptr ? stream_.msg : ::zError(code));
  }

  [[noreturn]] static void refuse(const std::string& why) {
    throw std::runtime_error{"it cannot be unpacked: " + why};
  }

  static constexpr std::array<unsigned char, 2> magic{0x1f, 0x8b};

  bool& ends_with_row_;
  detail::file_descriptor descriptor_;
  z_stream stream_{};
  form form_ = form::unknown;
  bool at_end_ = false;
  std::array<unsigned char, 1U << 17> input_;
};

struct bad_value : std::runtime_error {
  bad_value(const char* column, std::string_view found, const char* expected)
      : std::runtime_error{std::string{column} + " is '" + std::string{found} + "', expected " +
                           expected} {}
};

std::optional<std::uint64_t> number(std::string_view text, int base) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

/// RMM's logger writes addresses and streams in several ways: 0x7f00, 7f00, (nil).
std::uint64_t address(const char* column, std::string_view text) {
  if (text == "(nil)") return 0;
  std::string_view digits = text;
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  if (const auto value = number(digits, 16)) return *value;
  throw bad_value{column, text, "a hexadecimal number, as in 0x7f00"};
}

std::size_t size(std::string_view text) {
  if (const auto value = number(text, 10)) return *value;
  throw bad_value{"Size", text, "a number of bytes"};
}

struct recorded_time {
  std::int64_t microseconds;
  bool is_of_day;
};

/// Microseconds, or the time of day as RMM's logger writes it: 12:34:56.123456 and 12:34:56:123456.
recorded_time time(std::string_view text) {
  constexpr auto expected = "microseconds, as in 1250, or a time of day, as in 12:34:56.123456";
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (const auto value = number(text, 10); value && *value <= most)
    return {static_cast<std::int64_t>(*value), false};
  std::uint64_t result = 0;
  std::string_view rest = text;
  for (const std::pair<std::uint64_t, std::size_t> part :
       {std::pair{3'600'000'000U, 0U}, {60'000'000U, 0U}, {1'000'000U, 0U}, {1U, 6U}}) {
    const auto [unit, digits] = part;
    const std::size_t end =
        unit == 1 ? rest.size() : rest.find_first_of(unit == 1'000'000 ? ".:" : ":");
    if (end == std::string_view::npos || (digits != 0 ? end != digits : end > 2))
      throw bad_value{"Time", text, expected};
    const auto value = number(rest.substr(0, end), 10);
    if (!value) throw bad_value{"Time", text, expected};
    result += *value * unit;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {static_cast<std::int64_t>(result), true};
}

class trace_builder {
 public:
  explicit trace_builder(std::string name) { built_.name = std::move(name); }

  void add(std::uint32_t row, const char* time, std::string_view action, const char* pointer,
           const char* bytes, const char* stream) {
    const std::int64_t at = time_since_first(time);
    const std::uint64_t where = address("Pointer", pointer);
    const std::size_t size_of_block = size(bytes);
    const std::uint64_t in = address("Stream", stream);
    if (action == "allocate failure") {
      ++built_.recorded_failures;
    } else if (action != "allocate" && action != "free") {
      throw bad_value{"Action", action, "allocate, free or allocate failure"};
    } else if (size_of_block == 0) {
      ++built_.empty_requests;
    } else {
      if (action == "allocate")
        allocate(row, at, where, size_of_block, in);
      else
        free(row, at, where, size_of_block, in);
    }
  }

  trace finish() {
    if (built_.events.empty()) throw std::runtime_error{"it has no row that allocates anything"};
    built_.streams = streams_.size();
    built_.seconds = static_cast<double>(last_) / 1e6;
    return std::move(built_);
  }

 private:
  void allocate(std::uint32_t row, std::int64_t at, std::uint64_t pointer, std::size_t bytes,
                std::uint64_t stream) {
    const auto block = static_cast<std::uint32_t>(built_.blocks.size());
    const auto [known, is_new] = alive_.try_emplace(pointer, block);
    if (!is_new)
      throw std::runtime_error{"it allocates an address that row " +
                               std::to_string(built_.blocks[known->second].row) +
                               " allocated and no row has freed"};
    built_.blocks.push_back({bytes, row});
    requested_ += bytes;
    built_.peak_requested = std::max(built_.peak_requested, requested_);
    built_.events.push_back({trace_event::action::allocate, row, block, number_of(stream), at});
  }

  void free(std::uint32_t row, std::int64_t at, std::uint64_t pointer, std::size_t bytes,
            std::uint64_t stream) {
    const auto known = alive_.find(pointer);
    if (known == alive_.end())
      throw std::runtime_error{
          "it frees an address that no row before has allocated, or that was freed since"};
    const trace_block& block = built_.blocks[known->second];
    if (block.bytes != bytes)
      throw std::runtime_error{"it frees " + std::to_string(bytes) + " bytes, but row " +
                               std::to_string(block.row) + " allocated " +
                               std::to_string(block.bytes)};
    requested_ -= bytes;
    built_.events.push_back({trace_event::action::free, row, known->second, number_of(stream), at});
    alive_.erase(known);
  }

  std::uint32_t number_of(std::uint64_t stream) {
    return streams_.try_emplace(stream, static_cast<std::uint32_t>(streams_.size())).first->second;
  }

  /// A row that another thread's row has overtaken gets the time of that row.
  std::int64_t time_since_first(const char* text) {
    const recorded_time found = time(text);
    if (!first_) first_ = found;
    if (found.is_of_day != first_->is_of_day)
      throw bad_value{"Time", text,
                      first_->is_of_day ? "a time of day, as in the first row"
                                        : "microseconds, as in the first row"};
    std::int64_t since = found.microseconds - first_->microseconds;
    if (found.is_of_day) since = since_first_day(since);
    if (since < last_) {
      if (last_ - since > most_late)
        throw std::runtime_error{"Time is '" + std::string{text} + "', " +
                                 std::to_string((last_ - since) / 1000) +
                                 " ms before an earlier row; expected at most 1000 ms, by which "
                                 "threads may overtake each other"};
      ++built_.late_rows;
      built_.latest_microseconds = std::max(built_.latest_microseconds, last_ - since);
    }
    return last_ = std::max(last_, since);
  }

  /// Midnight restarts the time of day, except in rows that rows of the next day have overtaken.
  std::int64_t since_first_day(std::int64_t since) {
    constexpr std::int64_t day = 86'400'000'000;
    since += midnights_ * day;
    if (since + day / 2 < last_) {
      ++midnights_;
      return since + day;
    }
    const bool is_of_day_before = since > last_ && last_ - (since - day) <= most_late;
    return midnights_ != 0 && is_of_day_before ? since - day : since;
  }

  static constexpr std::int64_t most_late = 1'000'000;

  trace built_;
  std::unordered_map<std::uint64_t, std::uint32_t> alive_;    // address to block
  std::unordered_map<std::uint64_t, std::uint32_t> streams_;  // as recorded to number
  std::size_t requested_ = 0;
  std::optional<recorded_time> first_;
  std::int64_t last_ = 0;
  std::int64_t midnights_ = 0;
};

trace read_rows(const std::string& path) {
  bool ends_with_row = true;
  io::CSVReader<5, io::trim_chars<' ', '\t'>, io::no_quote_escape<','>, io::throw_on_overflow,
                io::empty_line_comment>
      rows{path, std::unique_ptr<io::ByteSourceBase>{
                     std::make_unique<unpacked_file>(path, ends_with_row)}};
  trace_builder built{path};
  try {
    rows.read_header(io::ignore_extra_column, "Time", "Action", "Pointer", "Size", "Stream");
    const char *time = nullptr, *action = nullptr, *pointer = nullptr, *bytes = nullptr,
               *stream = nullptr;
    while (rows.read_row(time, action, pointer, bytes, stream))
      built.add(rows.get_file_line(), time, action, pointer, bytes, stream);
    if (!ends_with_row)
      throw std::runtime_error{
          "the file ends within this row, and its last number may lack digits; a newline is "
          "expected behind it"};
  } catch (const io::error::missing_column_in_header& error) {
    throw std::runtime_error{std::string{"row 1: the header lacks the column "} +
                             error.column_name +
                             "; expected are Time, Action, Pointer, Size and Stream"};
  } catch (const io::error::duplicated_column_in_header& error) {
    throw std::runtime_error{std::string{"row 1: the header has the column "} + error.column_name +
                             " twice"};
  } catch (const io::error::header_missing&) {
    throw std::runtime_error{
        "it is empty; expected is a header with the columns Time, Action, "
        "Pointer, Size and Stream"};
  } catch (const std::system_error&) {
    throw;
  } catch (const io::error::base&) {
    throw std::runtime_error{"row " + std::to_string(rows.get_file_line()) +
                             ": the number of its columns is not that of the header, or it is "
                             "longer than any row of a trace"};
  } catch (const std::runtime_error& error) {
    throw std::runtime_error{"row " + std::to_string(rows.get_file_line()) + ": " + error.what()};
  }
  return built.finish();
}

}  // namespace

trace read_trace(const std::string& path) {
  try {
    return read_rows(path);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error{"the trace '" + path + "': " + error.what()};
  }
}

}  // namespace hipvmm::tool
