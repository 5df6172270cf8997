// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <system_error>

#include "mr/mr_test.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/resource/contract.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

std::string contents_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) result.push_back(line);
  return result;
}

std::string hexadecimal(const void* address) {
  std::ostringstream text;
  text << "0x" << std::hex << reinterpret_cast<std::uintptr_t>(address);
  return text.str();
}

/// Whether `line` is a row of this thread with these columns behind its time.
bool is_row(const std::string& line, const std::string& columns) {
  const std::string own = std::to_string(::gettid()) + ",";
  return std::regex_match(line, std::regex{own + "[0-2]\\d:[0-5]\\d:[0-6]\\d\\.\\d{6}," + columns});
}

/// Lets no file of this process grow beyond so many bytes while it lives, as a full disk does.
class file_size_limit {
 public:
  explicit file_size_limit(std::size_t bytes) : signal_{std::signal(SIGXFSZ, SIG_IGN)} {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit lower = before_;
    lower.rlim_cur = static_cast<rlim_t>(bytes);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &lower) == 0);
  }
  ~file_size_limit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }
  file_size_limit& operator=(file_size_limit&&) = delete;

 private:
  rlimit before_{};
  void (*signal_)(int);
};

/// One block. While it comes back for the first time, somebody else gets it at once.
class one_block final : public memory_resource {
 public:
  memory_resource* other_user = nullptr;

 private:
  void* do_allocate(stream_ref, std::size_t bytes, std::size_t) override {
    return do_allocate_sync(bytes, 1);
  }
  void do_deallocate(stream_ref, void* pointer, std::size_t bytes, std::size_t) noexcept override {
    do_deallocate_sync(pointer, bytes, 1);
  }
  void* do_allocate_sync(std::size_t, std::size_t) override { return this; }
  void do_deallocate_sync(void*, std::size_t bytes, std::size_t) noexcept override {
    if (memory_resource* const user = std::exchange(other_user, nullptr))
      user->deallocate_sync(user->allocate_sync(bytes), bytes);
  }
};

void allocate_and_free(memory_resource& resource, int times) {
  for (int i = 0; i < times; ++i) resource.deallocate_sync(resource.allocate_sync(256), 256);
}

std::size_t files_in(const test::temporary_folder& folder) {
  const std::filesystem::directory_iterator entries{folder.path()};
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

TEST_CASE("logging_resource_adaptor: keeps the contract of a resource") {
  hip_resource upstream{first_device};
  std::ostringstream text;
  logging_resource_adaptor logged{&upstream, text};
  test::check_contract({logged, first_device, 1 * MiB});
}

TEST_CASE("logging_resource_adaptor: rows are those of RMM's log") {
  hip_resource upstream{first_device};
  std::ostringstream text;
  logging_resource_adaptor logged{&upstream, text};
  const stream used{first_device};
  void* const ordered = logged.allocate(used, 1000);
  logged.deallocate(used, ordered, 1000);
  CHECK_THROWS_AS(logged.allocate(used, SIZE_MAX), std::bad_alloc);
  void* const at_once = logged.allocate_sync(7);
  logged.deallocate_sync(at_once, 7);

  const std::vector<std::string> lines = lines_of(text.str());
  REQUIRE(lines.size() == 6);
  const std::string in_used = hexadecimal(used.get());
  CHECK(lines[0] == "Thread,Time,Action,Pointer,Size,Stream");
  CHECK(lines[0] == logged.header());
  CHECK(is_row(lines[1], "allocate," + hexadecimal(ordered) + ",1000," + in_used));
  CHECK(is_row(lines[2], "free," + hexadecimal(ordered) + ",1000," + in_used));
  CHECK(is_row(lines[3], "allocate failure,0x0," + std::to_string(SIZE_MAX) + "," + in_used));
  CHECK(is_row(lines[4], "allocate," + hexadecimal(at_once) + ",7,0x0"));
  CHECK(is_row(lines[5], "free," + hexadecimal(at_once) + ",7,0x0"));
}

TEST_CASE("logging_resource_adaptor: rows are held back until flush() or the end") {
  hip_resource upstream{first_device};
  const test::temporary_folder folder;
  const std::string path = folder.path() / "made" / "on the way" / "log.csv";
  {
    logging_resource_adaptor logged{&upstream, path};
    allocate_and_free(logged, 1);
    CHECK(lines_of(contents_of(path)).size() == 1);
    logged.flush();
    CHECK(lines_of(contents_of(path)).size() == 3);
    allocate_and_free(logged, 2000);
    CHECK(lines_of(contents_of(path)).size() > 1000);
  }
  CHECK(lines_of(contents_of(path)).size() == 4003);
  {
    const logging_resource_adaptor again{&upstream, path};
    CHECK(contents_of(path) == again.header() + "\n");
  }
}

TEST_CASE("logging_resource_adaptor: with auto_flush each row is in the file at once") {
  hip_resource upstream{first_device};
  const test::temporary_folder folder;
  const std::string path = folder.path() / "log.csv";
  logging_resource_adaptor logged{&upstream, path, true};
  void* const pointer = logged.allocate_sync(256);
  CHECK(lines_of(contents_of(path)).size() == 2);
  logged.deallocate_sync(pointer, 256);
  CHECK(lines_of(contents_of(path)).size() == 3);
}

TEST_CASE("logging_resource_adaptor: a file that cannot be a log is refused by its name") {
  hip_resource upstream{first_device};
  const test::temporary_folder folder;
  const std::string path = folder.path() / "log.csv";
  const logging_resource_adaptor first{&upstream, path};
  CHECK_THROWS_WITH_AS(logging_resource_adaptor(&upstream, path),
                       doctest::Contains("log.csv' is being written by another adaptor"),
                       std::system_error);
  CHECK_THROWS_WITH_AS(logging_resource_adaptor(&upstream, path + "/below.csv"),
                       doctest::Contains("/log.csv/below.csv' has no folder"), std::system_error);
  CHECK_THROWS_WITH_AS(logging_resource_adaptor(&upstream, folder.path().string()),
                       doctest::Contains("cannot be opened: Is a directory"), std::system_error);
  CHECK_THROWS_WITH_AS(logging_resource_adaptor(&upstream, "/dev/full"),
                       doctest::Contains("/dev/full' ends here"), std::system_error);
  CHECK_THROWS_WITH_AS(logging_resource_adaptor(&upstream, "/dev/full"),
                       doctest::Contains("No space left on device"), std::system_error);
  CHECK_THROWS_WITH_AS(logging_resource_adaptor(&upstream, path + "2" + '\0' + "cut"),
                       doctest::Contains("is no file name"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(logging_resource_adaptor(nullptr, path + "2"),
                       doctest::Contains("logging_resource_adaptor"), std::invalid_argument);
}

TEST_CASE("logging_resource_adaptor: a full disk ends the log with a whole row, and is told once") {
  vmm_pool_resource pool{first_device, {.maximum_bytes = 16 * MiB}};
  // The host provider's devices are files, which the limit is for as well: the pool has its memory.
  allocate_and_free(pool, 1);
  const test::temporary_folder folder;
  const std::string path = folder.path() / "log.csv";
  const test::error_recorder told;
  {
    const file_size_limit limit{5000};
    logging_resource_adaptor logged{&pool, path};
    void* const kept = logged.allocate_sync(1 * KiB);
    allocate_and_free(logged, 3000);
    CHECK(pool.statistics().used_current == 1 * KiB);
    REQUIRE(told.count() == 1);
    CHECK(told.errors()[0].message.find("log.csv' ends here") != std::string::npos);
    CHECK(told.errors()[0].message.find("make room") != std::string::npos);
    CHECK(told.errors()[0].message.find("File too large") != std::string::npos);
    CHECK_THROWS_AS(logged.flush(), std::system_error);
    logged.deallocate_sync(kept, 1 * KiB);
    CHECK(pool.statistics().used_current == 0);
  }
  CHECK(told.count() == 1);
  const std::string text = contents_of(path);
  CHECK(text.size() > 4800);
  CHECK(text.size() <= 5000);
  CHECK(text.back() == '\n');
}

TEST_CASE("logging_resource_adaptor: a log that cannot begin leaves the earlier one") {
  hip_resource upstream{first_device};
  const test::temporary_folder folder;
  const std::string path = folder.path() / "log.csv";
  std::ofstream{path} << "an earlier log\n";
  {
    const file_size_limit limit{10};
    CHECK_THROWS_WITH_AS(logging_resource_adaptor(&upstream, path), doctest::Contains("log.csv"),
                         std::system_error);
  }
  CHECK(contents_of(path) == "an earlier log\n");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("logging_resource_adaptor: a new log leaves the earlier one to who reads it") {
  hip_resource upstream{first_device};
  const test::temporary_folder folder;
  const std::string path = folder.path() / "log.csv";
  const std::string link = folder.path() / "link.csv";
  std::ofstream{path} << "an earlier log\n";
  std::filesystem::permissions(path, std::filesystem::perms{0640});
  std::filesystem::create_symlink("log.csv", link);
  std::ifstream reader{path};
  const logging_resource_adaptor logged{&upstream, link};
  std::string read;
  CHECK(std::getline(reader, read));
  CHECK(read == "an earlier log");
  CHECK(lines_of(contents_of(path)).size() == 1);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms{0640});
  CHECK(files_in(folder) == 2);
  // It is this adaptor's as one that was made anew.
  CHECK_THROWS_WITH_AS(logging_resource_adaptor(&upstream, path),
                       doctest::Contains("is being written by another adaptor"), std::system_error);
}

TEST_CASE("logging_resource_adaptor: a stream that takes no more is told once") {
  hip_resource upstream{first_device};
  std::ostringstream text;
  logging_resource_adaptor logged{&upstream, text};
  const test::error_recorder told;
  text.setstate(std::ios::badbit);
  allocate_and_free(logged, 2);
  CHECK(told.count() == 1);
  CHECK_THROWS_WITH_AS(logged.flush(), doctest::Contains("the log ends here"), std::runtime_error);
  text.clear();
  allocate_and_free(logged, 1);
  CHECK(lines_of(text.str()).size() == 1);
}

TEST_CASE("logging_resource_adaptor: an address is free before it is allocated again") {
  one_block upstream;
  std::ostringstream text;
  logging_resource_adaptor logged{&upstream, text};
  upstream.other_user = &logged;
  allocate_and_free(logged, 1);
  const std::vector<std::string> lines = lines_of(text.str());
  REQUIRE(lines.size() == 5);
  const std::string columns = hexadecimal(&upstream) + ",256,0x0";
  for (const std::size_t i : {1, 3}) {
    CHECK(is_row(lines[i], "allocate," + columns));
    CHECK(is_row(lines[i + 1], "free," + columns));
  }
}

// Children, with the environment that their names tell.
HIPVMM_CHILD("the log's name comes from both variables") {
  CHECK(logging_resource_adaptor::get_default_filename() == "ours.csv");
}
HIPVMM_CHILD("the log's name comes from RMM's variable") {
  CHECK(logging_resource_adaptor::get_default_filename() == "rmm.csv");
}
HIPVMM_CHILD("the log has no name") {
  hip_resource upstream{first_device};
  CHECK_THROWS_WITH_AS(logging_resource_adaptor{&upstream}, doctest::Contains("HIPVMM_LOG_FILE"),
                       std::invalid_argument);
}

TEST_CASE("logging_resource_adaptor: the environment names the file, ours before RMM's") {
  using test::check_child;
  check_child("the log's name comes from both variables",
              {"HIPVMM_LOG_FILE=ours.csv", "RMM_LOG_FILE=rmm.csv"});
  check_child("the log's name comes from RMM's variable",
              {"HIPVMM_LOG_FILE=", "RMM_LOG_FILE=rmm.csv"});
  check_child("the log has no name", {"HIPVMM_LOG_FILE=", "RMM_LOG_FILE="});
}

}  // namespace hipvmm::mr
