// SPDX-License-Identifier: MIT
// Failures of ingest that a user may meet: each case ends with one sentence that names the cause.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "samples/ingest_program.hpp"
#include "support/process/temporary_folder.hpp"

using namespace hipvmm::test;

namespace {

constexpr int misused = 2;

}  // namespace

TEST_CASE("ingest: a missing file is named") {
  check_refused({"/nowhere/data.bin"}, {"'/nowhere/data.bin'", "No such file"});
}

TEST_CASE("ingest: a missing file is found before the others are read") {
  const temporary_file file{"data"};
  surroundings given;
  given.terminal_errors = true;  // a bar would show that reading began
  const outcome ended = hipvmm::test::ingest({file.path(), "/nowhere"}, given);
  CHECK(ended.status == 1);
  CHECK(ended.err.starts_with("ingest: "));
}

TEST_CASE("ingest: a file that may not be read is named") {
  const temporary_file file{"secret"};
  REQUIRE(::chmod(file.path().c_str(), 0) == 0);
  surroundings given;
  given.plain_user = true;
  check_refused({file.path()}, {file.path(), "Permission denied"}, 1, given);
}

TEST_CASE("ingest: a directory is refused with what to do") {
  check_refused({"/usr"}, {"'/usr' is a directory", "tar cf - /usr | ingest"});
}

TEST_CASE("ingest: a read that fails half-way is told") {
  // Address 0 of a process is never mapped, so the first read fails.
  const temporary_file file{"data"};
  check_refused({file.path(), "/proc/self/mem"}, {"cannot read '/proc/self/mem'"});
}

TEST_CASE("ingest: a device that does not exist is named") {
  for (const char* device : {"99", "-1"}) {
    CAPTURE(device);
    for (const char* method : {"vmm", "copy"})
      check_refused({"--device", device, "--method", method}, {"--device: ", device}, misused);
  }
}

TEST_CASE("ingest: a size that is none is named") {
  for (const char* size : {"'0'", "'-5'", "'many'", "'8XiB'", "'99999999999EiB'", "''"}) {
    CAPTURE(size);
    const std::string unquoted{size + 1, std::strlen(size) - 2};
    check_refused({"--block", unquoted}, {"--block", size, "4MiB"}, misused);
  }
}

// The sanitizers end a program that asks for so much instead of refusing it.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("ingest: a block beyond the host's memory is refused with what to do") {
  check_refused({"--block=4EiB"}, {"no host memory", "--block"});
}
#endif

TEST_CASE("ingest: the row agrees with its numbers") {
  surroundings given;
  given.standard_input = "data";
  const std::string one = hipvmm::test::ingest({"--method=copy"}, given).out;
  CHECK(one.starts_with("copy |         4 B in "));
  CHECK(
      one.ends_with(" s |    1 growth step  |    1 chunk  |         0 B copied by growth "
                    "| base stayed | peak         4 B\n"));
  const std::string none = hipvmm::test::ingest({"--method=copy"}).out;
  CHECK(none.find("   0 growth steps |    0 chunks |") != std::string::npos);
}

TEST_CASE("ingest: an unknown method is named together with those there are") {
  check_refused({"--method=magic"}, {"--method", "magic", "vmm", "copy"}, misused);
}

TEST_CASE("ingest: an unknown option is named") {
  check_refused({"--fast"}, {"--fast", "--help"}, misused);
}

TEST_CASE("ingest: --max-size is refused where it would have no effect") {
  check_refused({"--method=copy", "--max-size=1GiB"}, {"--max-size", "copy"}, misused);
}

TEST_CASE("ingest: a terminal is not taken for data") {
  surroundings given;
  given.terminal_input = true;
  check_refused({}, {"nothing to read"}, misused, given);
}

TEST_CASE("ingest: a JSON file that cannot be made is found before reading") {
  check_refused({"--json=/nowhere/result.json"}, {"'/nowhere/result.json'", "No such file"});
}

TEST_CASE("ingest: a JSON file that cannot be written is named") {
  check_refused({"--json=/dev/full"}, {"'/dev/full'", "No space left"});
}

TEST_CASE("ingest: a result is not written onto what is read") {
  const temporary_file file{"data"};
  const std::string link = file.path() + ".link";
  std::filesystem::create_symlink(file.path(), link);
  check_refused({file.path(), "--json", file.path()}, {"--json", "same file as FILE"}, misused);
  check_refused({link, "--json", file.path()}, {"--json", "same file as FILE"}, misused);
  surroundings given;
  given.output_file = file.path();
  check_refused({file.path()}, {"standard output", "same file as FILE"}, misused, given);
  check_refused({"--json", "", file.path()}, {"--json", "name a file"}, misused);
  check_refused({"--json=", file.path()}, {"--json= lacks its value"}, misused);
  std::filesystem::remove(link);
  CHECK(file.contents() == "data");
}

TEST_CASE("ingest: an earlier result stays when the next one fails") {
  const temporary_file result{"earlier"};
  check_refused({"/proc/self/mem", "--json", result.path()}, {"cannot read '/proc/self/mem'"});
  CHECK(result.contents() == "earlier");
}

TEST_CASE("ingest: a result in a folder that takes no file is overwritten, and a new one refused") {
  const hipvmm::test::temporary_folder folder;
  const std::string result = (folder.path() / "result").string();
  const temporary_file data{"data"};
  std::ofstream{result} << std::string(10000, 'x');
  REQUIRE(::chmod(folder.path().c_str(), 0500) == 0);
  surroundings given;
  given.plain_user = true;
  CHECK(hipvmm::test::ingest({data.path(), "--json", result}, given).status == 0);
  check_refused({data.path(), "--json", result + "2"}, {"cannot create", "Permission denied"}, 1,
                given);
  REQUIRE(::chmod(folder.path().c_str(), 0700) == 0);
  std::ostringstream text;
  text << std::ifstream{result}.rdbuf();
  CHECK(text.str().starts_with("{\"method\":\"vmm\",\"bytes\":4,"));
  CHECK(text.str().ends_with("}\n"));
  REQUIRE(::chmod(result.c_str(), 0400) == 0);
  check_refused({data.path(), "--json", result}, {"cannot create", "Permission denied"}, 1, given);
}

TEST_CASE("ingest: closed standard output is found before reading") {
  surroundings given;
  given.closed_output = true;
  check_refused({}, {"standard output is closed"}, 1, given);
}

TEST_CASE("ingest: full standard output is told") {
  surroundings given;
  given.output_file = "/dev/full";
  for (const char* option : {"--check", "--json=-"})
    check_refused({option}, {"standard output", "No space left"}, 1, given);
}

TEST_CASE("ingest: a reader that went away ends it as other programs before `head`") {
  surroundings given;
  given.deserted_output = true;
  const outcome ended = ingest({}, given);
  CHECK(ended.status == 128 + SIGPIPE);
  CHECK(ended.err.empty());
}
