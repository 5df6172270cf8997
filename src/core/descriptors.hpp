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
  /// Returns false, with errno, if a delayed write failed.
  bool close() noexcept { return empty() || ::close(release()) == 0; }

 private:
  int value_ = -1;
};

/// The soft limit (RLIMIT_NOFILE), queried on each call, because programs change it.
std::size_t descriptor_limit() noexcept;

/// Counts unused descriptor numbers below `limit`, up to `enough`. Needs no descriptor itself.
/// Cost: a system call of about 0.1 us for each number tested.
std::size_t free_descriptors(std::size_t limit, std::size_t enough) noexcept;

/// Whether more than half of the limit is used, by a sample of 64 numbers. The sample suffices
/// because the system assigns the lowest free number.
bool half_of_descriptors_used() noexcept;

/// Throws: std::invalid_argument unless `descriptor` is open: ROCm 6.4 would crash. `what` begins
/// the message, such as "the import of a chunk".
void require_open_descriptor(int descriptor, const char* what);

/// Throws: std::invalid_argument if `name` is empty or has a NUL, at which the system would cut it.
void require_file_name(const std::string& name);

/// Returns the bytes of the memory or file behind `descriptor`, if Linux reports them: for a memfd
/// and a dma-buf (AMD's export), not for NVIDIA's exports. Keeps the file's position.
std::optional<std::size_t> bytes_behind(int descriptor) noexcept;

/// Returns false, with errno, if not all of `text` was written.
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
