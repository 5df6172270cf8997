// SPDX-License-Identifier: MIT
#include "stream/shared_event.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>
#include <string>

#include "base/failure.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr std::uint64_t event_mark = 0x6869706576656e74;  // other files lack it
// A record replaces the one so many before it, and waits until that is reached.
constexpr std::size_t records_kept = 64;
// The interval at which a waiting process checks that the recording one lives.
constexpr timespec look_after{0, 100'000'000};

}  // namespace

struct shared_event::contents {
  struct record {
    std::atomic<std::uint64_t> reached;  // the last number that was
    std::atomic<pid_t> process;          // that made it
  };

  std::uint64_t mark;
  std::atomic<std::uint64_t> last;
  std::atomic<std::uint32_t> changes;  // waiting threads sleep on it
  std::array<record, records_kept> records;

  record& of(std::uint64_t number) noexcept { return records[number % records_kept]; }
};

shared_event::shared_event()
    : file_{memfd_create("hipvmm-event", MFD_CLOEXEC | MFD_ALLOW_SEALING)} {
  require(file_.get() >= 0, error_of_errno(errno));
  require(ftruncate(file_.get(), sizeof(contents)) == 0, error_of_errno(errno));
  require(fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0,
          error_of_errno(errno));
  map();
  contents_->mark = event_mark;
}

shared_event::shared_event(const address_of_file& exported) {
  const std::string path =
      "/proc/" + std::to_string(exported.process) + "/fd/" + std::to_string(exported.file);
  file_ = descriptor{open(path.c_str(), O_RDWR | O_CLOEXEC)};
  struct stat status {};
  const bool is_same = file_.get() >= 0 && fstat(file_.get(), &status) == 0 &&
                       status.st_dev == exported.file_device &&
                       status.st_ino == exported.file_number && status.st_size == sizeof(contents);
  require(is_same);
  map();
  if (contents_->mark == event_mark) return;
  munmap(contents_, sizeof(contents));
  throw failure{hipErrorInvalidValue};
}

shared_event::~shared_event() { munmap(contents_, sizeof(contents)); }

void shared_event::map() {
  void* const mapped =
      mmap(nullptr, sizeof(contents), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  require(mapped != MAP_FAILED, error_of_errno(errno));
  // A new file is zeros, with which its atomics begin.
  contents_ = static_cast<contents*>(mapped);
}

shared_event::address_of_file shared_event::exported() const {
  struct stat status {};
  require(fstat(file_.get(), &status) == 0, hipErrorOperatingSystem);
  return {getpid(), file_.get(), status.st_dev, status.st_ino};
}

bool shared_event::has_place() const noexcept {
  const std::uint64_t next = last() + 1;
  return next <= records_kept || reached(next - records_kept);
}

std::uint64_t shared_event::begin_record() noexcept {
  const std::uint64_t number = contents_->last.fetch_add(1) + 1;
  // Fails if the recording process has ended, and the record with it.
  if (number > records_kept) static_cast<void>(wait(number - records_kept));
  contents_->of(number).process.store(getpid());
  return number;
}

void shared_event::reach(std::uint64_t number) noexcept {
  std::atomic<std::uint64_t>& reached = contents_->of(number).reached;
  std::uint64_t before = reached.load();
  while (before < number && !reached.compare_exchange_weak(before, number)) {
  }
  contents_->changes.fetch_add(1);
  syscall(SYS_futex, &contents_->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint64_t shared_event::last() const noexcept { return contents_->last.load(); }

bool shared_event::reached(std::uint64_t number) const noexcept {
  return number == 0 || contents_->of(number).reached.load() >= number;
}

hipError_t shared_event::wait(std::uint64_t number) const noexcept {
  for (;;) {
    const std::uint32_t seen = contents_->changes.load();
    if (reached(number)) return hipSuccess;
    syscall(SYS_futex, &contents_->changes, FUTEX_WAIT, seen, &look_after, nullptr, 0);
    const pid_t recorder = contents_->of(number).process.load();
    const bool is_gone = recorder != 0 && kill(recorder, 0) != 0 && errno == ESRCH;
    if (is_gone && !reached(number)) return hipErrorIllegalState;
  }
}

}  // namespace hipvmm::host_provider
