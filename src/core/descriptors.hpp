// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hipvmm::detail {

class file_descriptor {
 public:
  file_descriptor() noexcept = default;
  explicit file_descriptor(int value) noexcept : value_{value} {}
  ~file_descriptor() { close(); }
  file_descriptor(file_descriptor&& other) noexcept : value_{other.release()} {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  [[nodiscard]] int get() const noexcept { return value_; }
  [[nodiscard]] int release() noexcept { return std::exchange(value_, -1); }
  [[nodiscard]] bool empty() const noexcept { return value_ < 0; }
  /// Returns false, with errno, if a delayed write has failed.
  bool close() noexcept { return empty() || ::close(release()) == 0; }

 private:
  int value_ = -1;
};

/// The soft limit (RLIMIT_NOFILE), queried on each call, because programs change it.
std::size_t descriptor_limit() noexcept;

/// Counts the numbers below `limit` that are no open descriptor, up to `enough` of them. Cost: a
/// system call of about 0.1 us for each number tested; needs no descriptor itself.
std::size_t free_descriptors(std::size_t limit, std::size_t enough) noexcept;

/// Whether more than half of the limit is used. Tests 64 numbers spread over all, which is exact to
/// a 64th because the system assigns the lowest free number.
bool half_of_descriptors_used() noexcept;

/// `what` begins the message, such as "the import of a chunk". ROCm 6.4 crashes on a number that is
/// no descriptor. Throws: std::invalid_argument unless it is open.
void require_open_descriptor(int descriptor, const char* what);

/// Throws: std::invalid_argument if `name` is empty or has a NUL, at which the system would cut it.
void require_file_name(const std::string& name);

/// Returns the bytes of the memory or file that `descriptor` refers to, if the system reports them:
/// Linux does for a dma-buf, which AMD's runtime exports, and for a memfd, but not for exports of
/// NVIDIA's driver. Leaves the position in the file as it is.
std::optional<std::size_t> bytes_behind(int descriptor) noexcept;

/// Returns false on failure, with errno; a part of `text` may be written then.
inline bool write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace hipvmm::detail
