// SPDX-License-Identifier: MIT
#include "runtime/host/pinned_memory.hpp"

#include <hip/hip_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <string>
#include <system_error>
#include <thread>

#include "core/check.hpp"
#include "core/error.hpp"
#include "core/logger.hpp"
#include "runtime/device.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "runtime/host/free_host_memory.hpp"

namespace hipvmm::detail {
namespace {

constexpr std::size_t most_touching_threads = 8;

void touch(std::byte* start, std::size_t bytes) noexcept {
  constexpr std::size_t page = 4 * KiB;
  for (std::size_t at = 0; at < bytes; at += page)
    static_cast<volatile std::byte*>(start)[at] = std::byte{0};
}

void touch_in_threads(std::byte* start, std::size_t bytes) noexcept {
  const std::size_t count =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most_touching_threads);
  const std::size_t part = align_up(bytes / count + 1, 2 * MiB);
  std::array<std::thread, most_touching_threads> threads;
  for (std::size_t i = 0; bytes > part && i < threads.size(); ++i) {
    try {
      threads[i] = std::thread{touch, start, part};
    } catch (const std::exception&) {
      break;  // this thread touches the rest
    }
    start += part;
    bytes -= part;
  }
  touch(start, bytes);
  for (std::thread& each : threads)
    if (each.joinable()) each.join();
}

void* register_pages(std::size_t bytes) {
  // So many processes may pin memory at once and see the same free memory.
  constexpr std::size_t processes = 8;
  const std::size_t is_free = free_host_memory();
  const auto refuse = [&](const std::string& reason) {
    log<log_level::info>([&] {
      return format_bytes(bytes) +
             " of pinned memory by hipHostMalloc, not hipHostRegister: " + reason;
    });
    return nullptr;
  };
  if (is_free / processes < bytes) return refuse(format_bytes(is_free) + " of the host are free");
  void* const start =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return refuse(std::generic_category().message(errno));
  static_cast<void>(::madvise(start, bytes, MADV_HUGEPAGE));  // advice only
  // After a fork() a write could give the host another page than the device's.
  static_cast<void>(::madvise(start, bytes, MADV_DONTFORK));
  touch_in_threads(static_cast<std::byte*>(start), bytes);
  const hipError_t made = hipHostRegister(start, bytes, hipHostRegisterPortable);
  if (made == hipSuccess) return start;
  clear_last_error();
  ::munmap(start, bytes);
  return refuse(error_name(made));
}

}  // namespace

void* allocate_pinned(std::size_t bytes, unsigned flags) {
  void* pointer = nullptr;
  hipError_t made = hipHostMalloc(&pointer, bytes, flags);
  if (made == hipErrorOutOfMemory && retry_refused_ends(refusals::wait)) {
    clear_last_error();
    made = hipHostMalloc(&pointer, bytes, flags);
  }
  check_host_memory(made, "hipHostMalloc", bytes);
  return pointer;
}

void free_pinned(void* pointer) noexcept {
  static_cast<void>(
      release_or_keep([pointer] { return hipHostFree(pointer); }, "hipHostFree", true));
}

bool wait_by_host_free(device_ref device) {
  return wait_by_release(
      device, [](void** pointer) { return hipHostMalloc(pointer, 1, hipHostMallocDefault); },
      "hipHostMalloc", [](void* pointer) { return hipHostFree(pointer); }, "hipHostFree");
}

pinned_memory::pinned_memory(std::size_t bytes) {
  if (bytes >= least_registered) {
    pointer_ = register_pages(bytes);
    if (pointer_ != nullptr) registered_ = bytes;
  }
  if (pointer_ == nullptr) pointer_ = allocate_pinned(bytes, hipHostMallocPortable);
}

pinned_memory::~pinned_memory() {
  if (pointer_ == nullptr || process_.is_of_parent()) return;
  if (registered_ == 0) {
    free_pinned(pointer_);
    return;
  }
  // Until HIP lets the pages go, a device may use them.
  const auto end = [pointer = pointer_, bytes = registered_] {
    const hipError_t ended = hipHostUnregister(pointer);
    if (ended == hipSuccess) ::munmap(pointer, bytes);
    return ended;
  };
  static_cast<void>(release_or_keep(end, "hipHostUnregister", true));
}

}  // namespace hipvmm::detail
