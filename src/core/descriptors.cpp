// SPDX-License-Identifier: MIT
#include "core/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace hipvmm::detail {

std::size_t descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
  return limit.rlim_cur;
}

// Not by /proc/self/fd, because reading it needs a descriptor.
std::size_t free_descriptors(std::size_t limit, std::size_t enough) noexcept {
  const std::size_t end = std::min<std::size_t>(limit, std::numeric_limits<int>::max());
  std::size_t found = 0;
  for (std::size_t number = 0; number < end && found < enough; ++number)
    if (::fcntl(static_cast<int>(number), F_GETFD) == -1) ++found;
  return found;
}

bool half_of_descriptors_used() noexcept {
  constexpr std::size_t samples = 64;
  const std::size_t end =
      std::min<std::size_t>(descriptor_limit(), std::numeric_limits<int>::max());
  std::size_t used = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    const auto number = static_cast<int>(end / samples * i + end % samples * i / samples);
    if (::fcntl(number, F_GETFD) != -1) ++used;
  }
  return used > samples / 2;
}

void require_open_descriptor(int descriptor, const char* what) {
  if (::fcntl(descriptor, F_GETFD) != -1) return;
  throw std::invalid_argument{std::string{what} + " from descriptor " + std::to_string(descriptor) +
                              ", which is not open in this process: pass one that was received "
                              "from the exporting process or inherited, before it is closed"};
}

void require_file_name(const std::string& name) {
  if (name.empty() || name.find('\0') != std::string::npos)
    throw std::invalid_argument{"'" + std::string{name.c_str()} + "' is no file name" +
                                (name.empty() ? "" : ", because a NUL follows it") +
                                ": name a file"};
}

std::optional<std::size_t> bytes_behind(int descriptor) noexcept {
  // Without a request to a file system, which the sender may control.
  struct statx about {};
  if (::statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE,
              &about) == 0 &&
      about.stx_size > 0)
    return static_cast<std::size_t>(about.stx_size);
  if (S_ISREG(about.stx_mode)) return std::nullopt;
  // Older kernels give a dma-buf no size, but can seek to its end. Its position cannot be queried.
  const ::off_t before = ::lseek(descriptor, 0, SEEK_CUR);
  const ::off_t end = ::lseek(descriptor, 0, SEEK_END);
  if (end <= 0) return std::nullopt;
  ::lseek(descriptor, before > 0 ? before : 0, SEEK_SET);
  return static_cast<std::size_t>(end);
}

}  // namespace hipvmm::detail
