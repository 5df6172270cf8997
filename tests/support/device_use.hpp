// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <hipvmm/region/retirement.hpp>

#include "support/devices.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::test {

#if HIPVMM_TEST_ON_CUDA == 0 && HIPVMM_TEST_ON_AMD == 0
inline constexpr bool on_host_provider = true;
#else
inline constexpr bool on_host_provider = false;
#endif

/// Bytes of `device` that this process uses: as HIP counts them on the host provider, as the
/// library counts chunks elsewhere, because other processes change the free memory of a GPU at any
/// time.
inline std::size_t bytes_in_use(device_ref device = first_device) {
  return on_host_provider ? device.total_memory() - device.free_memory()
                          : detail::created_chunk_bytes(device);
}

/// Free bytes of `device` with all retired memory returned: a thread that waits for a device may
/// hold one byte of it (wait_by_free), which makes a filler of the rest one granule smaller.
inline std::size_t free_memory_at_rest(device_ref device) {
  drain_retired_memory();
  return device.free_memory();
}

/// Other test processes that fill a GPU wait as long as this lives. The host provider's devices are
/// each process's own.
class whole_gpu {
 public:
  whole_gpu() {
    if (on_host_provider) return;
    const auto file = std::filesystem::temp_directory_path() / "hipvmm-tests-fill-a-gpu";
    turn_ = ::open(file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(turn_ >= 0);
    while (::flock(turn_, LOCK_EX) != 0) REQUIRE(errno == EINTR);
  }
  ~whole_gpu() {
    if (turn_ >= 0) ::close(turn_);
  }
  whole_gpu& operator=(whole_gpu&&) = delete;

 private:
  int turn_ = -1;
};

}  // namespace hipvmm::test
