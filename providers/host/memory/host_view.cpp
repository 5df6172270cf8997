// SPDX-License-Identifier: MIT
#include "memory/host_view.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/failure.hpp"
#include "memory/chunk.hpp"

namespace hipvmm::host_provider {
namespace {

void read_whole(int file, off_t from, char* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = pread(file, to, bytes, from);
    if (got < 0 && errno == EINTR) continue;
    require(got > 0, error_of_errno(got < 0 ? errno : EIO));
    to += got;
    from += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

std::uint64_t next_view_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

host_view::host_view(std::size_t bytes, int flags, int file, std::int64_t offset) : bytes_{bytes} {
  void* const at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, offset);
  require(at != MAP_FAILED, error_of_errno(errno));
  start_ = reinterpret_cast<std::uintptr_t>(at);
}

host_view::~host_view() {
  munmap(reinterpret_cast<void*>(start_), bytes_);  // NOLINT(performance-no-int-to-ptr)
}

private_view::private_view(const chunk& memory, std::size_t bytes)
    : host_view{bytes, MAP_SHARED, memory.file(), memory.offset()} {}

stale_view::stale_view(const chunk& memory, std::size_t bytes)
    : host_view{bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}, number_{next_view_number()} {
  // Untouched bytes of the sparse file are zeros here already.
  char* const to = reinterpret_cast<char*>(start());  // NOLINT(performance-no-int-to-ptr)
  const off_t first = memory.offset();
  const off_t end = first + static_cast<off_t>(bytes);
  for (off_t at = first; at < end;) {
    const off_t data = lseek(memory.file(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    require(data >= 0, error_of_errno(errno));
    if (data >= end) break;
    const off_t hole = std::min(lseek(memory.file(), data, SEEK_HOLE), end);
    require(hole > data, error_of_errno(errno));
    read_whole(memory.file(), data, to + (data - first), static_cast<std::size_t>(hole - data));
    at = hole;
  }
}

}  // namespace hipvmm::host_provider
