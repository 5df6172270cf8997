// SPDX-License-Identifier: MIT
#include "memory/device_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/failure.hpp"
#include "base/fault_plan.hpp"

namespace hipvmm::host_provider {
namespace {

// A sparse file takes memory only for touched pages, so it has its full length from the start:
// offsets for 2^40 chunks of 1 MiB.
constexpr off_t file_length = off_t{1} << 60U;

}  // namespace

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  require(bytes <= std::numeric_limits<std::size_t>::max() - page, hipErrorOutOfMemory);
  return (bytes + page - 1) / page * page;
}

void device_memory::charge(std::size_t bytes) { require(try_charge(bytes), hipErrorOutOfMemory); }

bool device_memory::try_charge(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  const std::size_t most = std::min(budget_, fault_plan::get().device_bytes());
  if (used_ > most || bytes > most - used_) return false;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return true;
}

void device_memory::release(std::size_t bytes) noexcept {
  const std::lock_guard lock{mutex_};
  used_ -= bytes;
}

std::size_t device_memory::used() const {
  const std::lock_guard lock{mutex_};
  return used_;
}

std::size_t device_memory::peak() const {
  const std::lock_guard lock{mutex_};
  return peak_;
}

void device_memory::reset_peak() {
  const std::lock_guard lock{mutex_};
  peak_ = used_;
}

int device_memory::file() {
  const std::lock_guard lock{mutex_};
  if (file_.get() < 0) {
    descriptor opened{memfd_create("hipvmm-device", MFD_CLOEXEC)};
    require(opened.get() >= 0, error_of_errno(errno));
    require(ftruncate(opened.get(), file_length) == 0, error_of_errno(errno));
    file_ = std::move(opened);
  }
  return file_.get();
}

off_t device_memory::claim(std::size_t bytes) {
  const std::size_t extent = whole_pages(bytes);
  const std::lock_guard lock{mutex_};
  require(extent <= static_cast<std::size_t>(file_length - next_), hipErrorOutOfMemory);
  return std::exchange(next_, next_ + static_cast<off_t>(extent));
}

void device_memory::discard(off_t offset, std::size_t bytes) noexcept {
  fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
            static_cast<off_t>(whole_pages(bytes)));
}

}  // namespace hipvmm::host_provider
