// SPDX-License-Identifier: MIT
#include "tool/replay/replay_trace.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
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

namespace hipvmm::tool {
namespace {

/// The bytes of a file, unpacked where it is packed.
class unpacked_file final : public io::ByteSourceBase {
 public:
  explicit unpacked_file(const std::string& path) {
    const int descriptor =
        path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw std::system_error{errno, std::generic_category(), "cannot open it"};
    file_ = ::gzdopen(descriptor, "rb");
    if (file_ == nullptr) {
      ::close(descriptor);
      throw std::bad_alloc{};
    }
    static_cast<void>(::gzbuffer(file_, 1U << 17));
  }
  ~unpacked_file() override { static_cast<void>(::gzclose(file_)); }
  unpacked_file(const unpacked_file&) = delete;
  unpacked_file& operator=(const unpacked_file&) = delete;

  int read(char* buffer, int size) override {
    const int got = ::gzread(file_, buffer, static_cast<unsigned>(size));
    int code = Z_OK;
    const char* const message = ::gzerror(file_, &code);
    // A file that ends too early is told only so; a system error as Z_ERRNO.
    if (code == Z_ERRNO) throw std::system_error{errno, std::generic_category(), "cannot read it"};
    if (got < 0 || code != Z_OK)
      throw std::runtime_error{std::string{"it cannot be unpacked: "} + message};
    return got;
  }

 private:
  gzFile file_ = nullptr;
};

/// A value that is not what its column holds.
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

/// Microseconds, or the time of day as RMM's logger writes it: 12:34:56.123456 and 12:34:56:123456.
std::int64_t microseconds(std::string_view text) {
  constexpr auto expected = "microseconds, as in 1250, or a time of day, as in 12:34:56.123456";
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (const auto value = number(text, 10); value && *value <= most)
    return static_cast<std::int64_t>(*value);
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
  return static_cast<std::int64_t>(result);
}

/// Follows the rows and refuses those that contradict earlier ones.
class trace_builder {
 public:
  explicit trace_builder(std::string name) { built_.name = std::move(name); }

  void add(std::uint32_t row, const char* time, std::string_view action, const char* pointer,
           const char* bytes, const char* stream) {
    const std::int64_t at = time_since_first(microseconds(time));
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
          "it frees an address that no row before has allocated, or that was "
          "freed since"};
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

  std::int64_t time_since_first(std::int64_t time) {
    constexpr std::int64_t day = 86'400'000'000;
    if (!first_) first_ = time;
    std::int64_t since = time - *first_ + midnights_ * day;
    // Past midnight the time of day starts again; threads may be late by much less than half a day.
    if (since + day / 2 < last_) {
      ++midnights_;
      since += day;
    }
    last_ = std::max(last_, since);
    return since;
  }

  trace built_;
  std::unordered_map<std::uint64_t, std::uint32_t> alive_;    // address to block
  std::unordered_map<std::uint64_t, std::uint32_t> streams_;  // as recorded to number
  std::size_t requested_ = 0;
  std::optional<std::int64_t> first_;
  std::int64_t last_ = 0;
  std::int64_t midnights_ = 0;
};

trace read_rows(const std::string& path) {
  io::CSVReader<5, io::trim_chars<' ', '\t'>, io::no_quote_escape<','>, io::throw_on_overflow,
                io::empty_line_comment>
      rows{path, std::unique_ptr<io::ByteSourceBase>{std::make_unique<unpacked_file>(path)}};
  trace_builder built{path};
  try {
    rows.read_header(io::ignore_extra_column, "Time", "Action", "Pointer", "Size", "Stream");
    const char *time = nullptr, *action = nullptr, *pointer = nullptr, *bytes = nullptr,
               *stream = nullptr;
    while (rows.read_row(time, action, pointer, bytes, stream))
      built.add(rows.get_file_line(), time, action, pointer, bytes, stream);
  } catch (const io::error::missing_column_in_header& error) {
    throw std::runtime_error{std::string{"row 1: the header lacks the column "} +
                             error.column_name +
                             "; expected are Time, Action, Pointer, Size and Stream"};
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
