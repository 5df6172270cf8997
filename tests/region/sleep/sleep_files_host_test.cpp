// SPDX-License-Identifier: MIT
// Contents in files: their leftovers if the process is killed, their permissions, and
// signals.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <csignal>
#include <filesystem>

#include <hipvmm/runtime/device.hpp>
#include "region/region_test.hpp"
#include "region/sleep/sleeping_regions.hpp"
#include "support/host/host_provider.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::test {
namespace {

constexpr const char* folder_variable = "HIPVMM_TEST_FOLDER";
constexpr const char* moment_variable = "HIPVMM_TEST_MOMENT";

suspend_options to_folder(const std::string& folder) {
  return suspend_options{.storage = sleep_storage::file, .folder = folder};
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  REQUIRE(value != nullptr);
  return value;
}

/// Files of this process that have no name and `bytes` bytes.
int files_without_name(std::size_t bytes) {
  int found = 0;
  for (const auto& each : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    struct stat what {};
    if (::stat(each.path().c_str(), &what) != 0 || !S_ISREG(what.st_mode)) continue;
    if (what.st_nlink != 0 || static_cast<std::size_t>(what.st_size) != bytes) continue;
    CHECK((what.st_mode & 0777) == 0600);
    // A program that is started meanwhile does not get it.
    const int flags = ::fcntl(std::stoi(each.path().filename().string()), F_GETFD);
    CHECK((flags & FD_CLOEXEC) != 0);
    ++found;
  }
  return found;
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(
    sleeping_regions,
    "sleep: copies from a file that HIP refuses to wait for keep their memory mapped") {
  suspend(tag, keep::contents, to_folder("/dev/shm"));
  const call_counter unmaps{"hipMemUnmap"};
  {
    const error_recorder reported;
    const planned_faults none{
        "hipStreamSynchronize error=hipErrorUnknown;hipDeviceSynchronize error=hipErrorUnknown;"
        "hipFree error=hipErrorUnknown"};
    CHECK_THROWS_AS(resume(tag), hip_error);
    check_asleep();
    CHECK(unmaps.count() == 0);
  }
  resume(tag);
  check_awake();
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: contents in a file are for nobody else") {
  const temporary_folder folder;
  const ::mode_t before = ::umask(0);
  suspend(tag, keep::contents, to_folder(folder.path().string()));
  ::umask(before);
  CHECK(files_without_name(3 * unit) == 1);
  CHECK(files_without_name(unit) == 1);
  resume(tag);
  CHECK(files_without_name(3 * unit) == 0);
  check_awake();
}

TEST_CASE("sleep: contents come back from a file in pieces") {
  const temporary_folder folder;
  const memory_tag tag;
  const stream stream{first_device};
  // One chunk of two pieces and a part of one.
  const std::size_t bytes = align_up(65 * MiB, granule());
  region memory{first_device, bytes, tagged(tag)};
  memory.commit(0, bytes);
  const std::size_t places[]{0, 32 * MiB, bytes - 64};
  for (const std::size_t each : places)
    write_bytes(stream, advance(memory.base(), each), pattern(64, static_cast<unsigned>(each)));
  suspend(tag, keep::contents, to_folder(folder.path().string()));
  resume(tag);
  for (const std::size_t each : places) {
    CAPTURE(each);
    CHECK(read_bytes(stream, advance(memory.base(), each), 64) ==
          pattern(64, static_cast<unsigned>(each)));
  }
}

// In a process of its own, in which no other thread of the library sets a device.
HIPVMM_TEST_CASE_IN("sleep: buffers for files are made where the memory is, not on device 0", {}) {
  const std::optional<device_ref> other = peer_of(first_device);
  if (!other) return;
  const scoped_device current{*other};
  const memory_tag tag;
  region memory{*other, granule(), tagged(tag)};
  memory.commit(0, granule());
  const call_counter buffers{"hipHostMalloc"};
  // Of the thread that writes, in which device 0 is current at first.
  const planned_fault fault{"hipSetDevice", 1, hipErrorUnknown};
  CHECK_THROWS_AS(suspend(tag, keep::contents, to_folder("/dev/shm")), hip_error);
  CHECK(buffers.count() == 0);
}

HIPVMM_CHILD("sleeps in a file until it is killed") {
  const sleeping_regions subject;
  const long moment = std::stol(variable(moment_variable));
  const suspend_options options = to_folder(variable(folder_variable));
  if (moment == 0) {
    suspend(subject.tag, keep::contents, options);
    std::raise(SIGKILL);
  }
  std::thread killer{[moment] {
    std::this_thread::sleep_for(std::chrono::microseconds{moment});
    std::raise(SIGKILL);
  }};
  for (;;) {
    suspend(subject.tag, keep::contents, options);
    resume(subject.tag);
  }
}

TEST_CASE("sleep: a process that is killed leaves no file of contents") {
  const temporary_folder folder;
  std::mt19937 random = seeded_generator();
  for (int i = 0; i < 3; ++i) {
    const std::size_t moment = i == 0 ? 0 : 1 + below(random, 5000);
    CAPTURE(moment);
    const child_result ended = run_child("sleeps in a file until it is killed",
                                         {folder_variable + ("=" + folder.path().string()),
                                          moment_variable + ("=" + std::to_string(moment))});
    CHECK_MESSAGE(ended.status == 128 + SIGKILL, ended.output);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}

TEST_CASE_FIXTURE(sleeping_regions, "sleep: signals do not keep contents from a file") {
  // In memory, because older Linux lets them interrupt the taking of room.
  struct sigaction quiet {};
  quiet.sa_handler = [](int) {};
  struct sigaction before {};
  REQUIRE(::sigaction(SIGALRM, &quiet, &before) == 0);
  region large{first_device, 32 * MiB, tagged(tag)};
  large.commit(0, 32 * MiB);
  const itimerval often{{0, 500}, {0, 500}};
  REQUIRE(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  CHECK_NOTHROW(suspend(tag, keep::contents, to_folder("/dev/shm")));
  CHECK_NOTHROW(resume(tag));
  const itimerval never{};
  REQUIRE(::setitimer(ITIMER_REAL, &never, nullptr) == 0);
  REQUIRE(::sigaction(SIGALRM, &before, nullptr) == 0);
  CHECK(has_contents());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
