// SPDX-License-Identifier: MIT
#include "tool/replay/replay_trace.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tool/replay_traces.hpp"

namespace hipvmm::test {
namespace {

using tool::read_trace;
using tool::trace;
using tool::trace_event;

std::string packed(const std::string& text) {
  const temporary_file file{{}, ".gz"};
  const gzFile out = gzopen(file.path().c_str(), "wb");
  REQUIRE(out != nullptr);
  REQUIRE(gzwrite(out, text.data(), static_cast<unsigned>(text.size())) ==
          static_cast<int>(text.size()));
  REQUIRE(gzclose(out) == Z_OK);
  return file.contents();
}

/// The message of a failed read of a file with this text.
std::string complaint_about(const std::string& text) {
  const temporary_file file{text, ".csv"};
  try {
    static_cast<void>(read_trace(file.path()));
  } catch (const std::runtime_error& error) {
    const std::string what = error.what();
    CHECK(what.find(file.path()) != std::string::npos);
    return what;
  }
  return {};
}

const std::string three_rows = trace_header +
                               "0,10,allocate,0x7f00,1000,0\n"
                               "0,25,allocate,0x8f00,24,1\n"
                               "0,60,free,0x7f00,1000,0\n";

void check_three_rows(const trace& read) {
  REQUIRE(read.events.size() == 3);
  REQUIRE(read.blocks.size() == 2);
  CHECK(read.events[0].what == trace_event::action::allocate);
  CHECK(read.events[1].what == trace_event::action::allocate);
  CHECK(read.events[2].what == trace_event::action::free);
  CHECK(read.events[0].row == 2);
  CHECK(read.events[2].row == 4);
  CHECK(read.events[1].block == 1);
  CHECK(read.events[2].block == 0);
  CHECK(read.events[1].stream == 1);
  CHECK(read.events[2].microseconds == 50);
  CHECK(read.blocks[0].bytes == 1000);
  CHECK(read.blocks[1].bytes == 24);
  CHECK(read.blocks[1].row == 3);
  CHECK(read.streams == 2);
  CHECK(read.peak_requested == 1024);
  CHECK(read.seconds == doctest::Approx(50e-6));
}

void check_three_rows_of(const std::string& text) {
  const temporary_file file{text, ".csv.gz"};
  check_three_rows(read_trace(file.path()));
}

}  // namespace

TEST_CASE("read_trace: reads rows as they are recorded") {
  const temporary_file file{three_rows, ".csv"};
  const trace read = read_trace(file.path());
  CHECK(read.name == file.path());
  check_three_rows(read);
}

TEST_CASE("read_trace: unpacks what is packed") { check_three_rows_of(packed(three_rows)); }

TEST_CASE("read_trace: finds columns by name, in any order and among others") {
  const temporary_file file{
      "Stream,Extra,Size,Pointer,Action,Time\r\n"
      "0,x,1000,7f00,allocate,10\r\n"
      "1,,24,8f00,allocate,25\r\n"
      "\r\n"
      "0,y,1000,7f00,free,60\r\n"};
  const trace read = read_trace(file.path());
  REQUIRE(read.events.size() == 3);
  CHECK(read.events[2].row == 5);
  CHECK(read.peak_requested == 1024);
  CHECK(read.streams == 2);
}

TEST_CASE("read_trace: takes what RMM's logger writes") {
  for (const std::string separator : {".", ":"}) {
    const trace read = trace_of("1979932,23:59:59" + separator +
                                "900000,allocate,0x30a000000,256,0x2\n"
                                "1979933,23:59:59" +
                                separator +
                                "950000,allocate failure,(nil),99999999999,0x2\n"
                                "1979933,23:59:59" +
                                separator +
                                "960000,allocate,(nil),0,(nil)\n"
                                "1979932,00:00:00" +
                                separator + "150000,free,0x30a000000,256,0x2\n");
    REQUIRE(read.events.size() == 2);
    CHECK(read.recorded_failures == 1);
    CHECK(read.empty_requests == 1);
    CHECK(read.seconds == doctest::Approx(0.25));
    CHECK(read.streams == 1);
  }
}

TEST_CASE("read_trace: rows that other threads have overtaken take the time of those") {
  struct late {
    std::string rows;
    std::int64_t second;  ///< of the three rows
    std::int64_t third;
    std::int64_t latest;
  };
  const late traces[] = {
      {"0,1000,allocate,a,8,0\n0,900,allocate,b,8,1\n0,1001000,free,a,8,0\n", 0, 1'000'000, 100},
      {"0,1000,allocate,a,8,0\n0,5000000,allocate,b,8,1\n0,4000000,free,a,8,0\n", 4'999'000,
       4'999'000, 1'000'000},
      {"0,23:59:59.500000,allocate,a,8,0\n0,00:00:00.100000,allocate,b,8,1\n"
       "0,23:59:59.900000,free,a,8,0\n",
       600'000, 600'000, 200'000},
  };
  for (const late& each : traces) {
    CAPTURE(each.rows);
    const trace read = trace_of(each.rows);
    REQUIRE(read.events.size() == 3);
    CHECK(read.events[1].microseconds == each.second);
    CHECK(read.events[2].microseconds == each.third);
    CHECK(read.seconds == doctest::Approx(static_cast<double>(each.third) / 1e6));
    CHECK(read.late_rows == 1);
    CHECK(read.latest_microseconds == each.latest);
  }
  CHECK(trace_of("0,1,allocate,a,8,0\n0,1,free,a,8,0\n").late_rows == 0);
}

TEST_CASE("read_trace: a time of day begins again at midnight, microseconds do not") {
  const trace read = trace_of(
      "0,23:00:00.000000,allocate,a,8,0\n"
      "0,01:00:00.000000,allocate,b,8,0\n"
      "0,22:00:00.000000,free,a,8,0\n"
      "0,02:00:00.000000,free,b,8,0\n");
  CHECK(read.seconds == doctest::Approx(27 * 3600));
  CHECK(complaint_about(trace_header + "0,90000000000,allocate,a,8,0\n0,5,free,a,8,0\n")
            .find("row 3: Time is '5', 89999999 ms before an earlier row") != std::string::npos);
}

TEST_CASE("read_trace: an address may be used again once it is free") {
  const trace read = trace_of(
      "0,1,allocate,a,8,0\n"
      "0,2,free,a,8,0\n"
      "0,3,allocate,a,16,0\n");
  REQUIRE(read.blocks.size() == 2);
  CHECK(read.blocks[1].bytes == 16);
  CHECK(read.peak_requested == 16);
}

TEST_CASE("read_trace: names the row of what is wrong and what was expected") {
  struct bad_file {
    std::string rows;
    std::vector<std::string> words;
  };
  const std::string good = "0,1,allocate,a,8,0\n";
  const bad_file files[] = {
      {good + "0,2,release,a,8,0\n", {"row 3", "'release'", "allocate, free or allocate failure"}},
      {good + "0,2,free,b,8,0\n", {"row 3", "no row before has allocated"}},
      {good + "0,2,free,a,8,0\n0,3,free,a,8,0\n", {"row 4", "freed since"}},
      {good + "0,2,allocate,a,8,0\n", {"row 3", "row 2"}},
      {good + "0,2,free,a,9,0\n", {"row 3", "frees 9 bytes", "row 2 allocated 8"}},
      {good + "0,2,allocate,b,8 kB,0\n", {"row 3", "Size is '8 kB'", "a number of bytes"}},
      {good + "0,2,allocate,b,-8,0\n", {"row 3", "Size is '-8'"}},
      {good + "0,2,allocate,b,99999999999999999999999,0\n", {"row 3", "Size is"}},
      {good + "0,2,allocate,0xzz,8,0\n", {"row 3", "Pointer is '0xzz'", "hexadecimal"}},
      {good + "0,2,allocate,,8,0\n", {"row 3", "Pointer is ''"}},
      {good + "0,2,allocate,b,8,s1\n", {"row 3", "Stream is 's1'", "hexadecimal"}},
      {good + "0,noon,allocate,b,8,0\n", {"row 3", "Time is 'noon'", "12:34:56.123456"}},
      {good + "0,12:34:56,allocate,b,8,0\n", {"row 3", "Time is"}},
      {good + "0,12:34:56.12,allocate,b,8,0\n", {"row 3", "Time is"}},
      {good + "0,12:34:56.123456.7,allocate,b,8,0\n", {"row 3", "Time is"}},
      {good + "0,12:34:56.123456,free,a,8,0\n", {"row 3", "expected microseconds"}},
      {good + "0,9000000,free,a,8,0\n0,7000000,allocate,a,8,0\n",
       {"row 4", "Time is '7000000', 2000 ms before an earlier row"}},
      {"0,12:00:05.000000,allocate,a,8,0\n0,12:00:03.000000,free,a,8,0\n",
       {"row 3", "Time is '12:00:03.000000', 2000 ms before"}},
      {good + "0,2,free,a,8,0\n0,3,allocate,b,8,0x3", {"row 4", "ends within this row", "newline"}},
      {good + "0,2,allocate,b,8", {"row 3", "columns"}},
      {good + "0,2,allocate,b,8\n", {"row 3", "columns"}},
      {good + "0,2,allocate,b,8,0,0\n", {"row 3", "columns"}},
      {"0,1,allocate failure,0,8,0\n", {"no row that allocates"}},
      {"", {"no row that allocates"}},
  };
  for (const bad_file& each : files) {
    CAPTURE(each.rows);
    const std::string complaint = complaint_about(trace_header + each.rows);
    CAPTURE(complaint);
    for (const std::string& word : each.words) CHECK(complaint.find(word) != std::string::npos);
  }
}

TEST_CASE("read_trace: names the column that a header lacks") {
  CHECK(complaint_about("Thread,Time,Action,Size,Stream\n").find("the column Pointer") !=
        std::string::npos);
  CHECK(complaint_about("").find("it is empty") != std::string::npos);
}

TEST_CASE("read_trace: a file that is not there, no file or cut off is refused") {
  CHECK_THROWS_WITH_AS(static_cast<void>(read_trace("/nonexistent/trace.csv")),
                       doctest::Contains("cannot open it"), std::runtime_error);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(read_trace(std::filesystem::temp_directory_path().string())),
      doctest::Contains("cannot read it"), std::runtime_error);
}

TEST_CASE("read_trace: packed data that is cut off, damaged or followed by something is refused") {
  const std::string whole = packed(three_rows);
  // From the third byte on it is packed data, before that no more than an odd header.
  for (std::size_t bytes = 2; bytes < whole.size(); ++bytes) {
    CAPTURE(bytes);
    CHECK(complaint_about(whole.substr(0, bytes)).find("cannot be unpacked: it ends within") !=
          std::string::npos);
  }
  for (const std::string& rest : {std::string{"0,70,free,0x8f00,24,1\n"}, std::string{"x"},
                                  std::string{"\x1f"}, std::string(512, '\0')}) {
    CAPTURE(rest);
    CHECK(complaint_about(whole + rest).find("something else follows its packed data") !=
          std::string::npos);
  }
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  CHECK(complaint_about(damaged).find("cannot be unpacked: ") != std::string::npos);
  check_three_rows_of(packed(three_rows.substr(0, 60)) + packed(three_rows.substr(60)));
}

}  // namespace hipvmm::test
